#include "engine/prompt_logits.h"

#include <algorithm>

#include "base/error.h"
#include "engine/step_builder.h"

namespace reprise::engine {
namespace {

// The pages and the state of one sequence, given back at the end of its scope.
class Lease {
 public:
  Lease(KvPool& pool, size_t tokens) : pool_(pool) {
    const int32_t needed = pool.pages_for(static_cast<int64_t>(tokens));
    if (!pool.allocate(needed, pages_)) {
      throw Error(ErrorCode::kResourceExhausted, "{} tokens need {} pages of the KV cache, which has {} free", tokens,
                  needed, pool.free_pages())
          .remedy("give the KV cache more tokens");
    }
    if (!pool.has_sequence_state()) return;
    slot_ = pool.allocate_sequence_slot();
    if (slot_ >= 0) return;
    pool.release(pages_);
    throw Error(ErrorCode::kResourceExhausted, "the KV cache has no free slot for the state of a sequence");
  }
  ~Lease() {
    pool_.release(pages_);
    if (slot_ >= 0) pool_.release_sequence_slot(slot_);
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  std::span<const int32_t> pages() const { return pages_; }
  int32_t slot() const { return slot_; }

 private:
  KvPool& pool_;
  std::vector<int32_t> pages_;
  int32_t slot_ = -1;
};

}  // namespace

std::vector<float> prompt_logits(KvPool& pool, const StepFunction& step_function, int32_t vocabulary,
                                 std::span<const int32_t> ids, const PromptLogitsOptions& options) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocabulary) {
      throw Error(ErrorCode::kInvalidArgument, "ids[{}] is {}, but must be between 0 and {}", i, ids[i],
                  vocabulary - 1);
    }
  }
  if (options.chunk < 1 && !options.decode) {
    throw Error(ErrorCode::kInvalidArgument, "the chunk is {} tokens, but must be at least 1", options.chunk);
  }
  const Lease lease(pool, ids.size());
  const size_t step_tokens = options.decode ? 1 : static_cast<size_t>(options.chunk);
  std::vector<float> result;
  result.reserve(ids.size() * static_cast<size_t>(vocabulary));
  StepBuilder builder(pool);
  for (size_t at = 0; at < ids.size(); at += step_tokens) {
    const std::span<const int32_t> tokens = ids.subspan(at, std::min(step_tokens, ids.size() - at));
    builder.begin();
    builder.add(tokens, static_cast<int32_t>(at), lease.pages(), lease.slot());
    replay::StepBatch& batch = builder.finish();
    batch.all_logits = !options.decode;
    const replay::LogitsView logits = step_function(batch);
    REPRISE_CHECK(logits.rows == batch.tokens() && logits.vocabulary == vocabulary);
    result.insert(result.end(), logits.data, logits.data + tokens.size() * static_cast<size_t>(vocabulary));
  }
  return result;
}

}  // namespace reprise::engine
