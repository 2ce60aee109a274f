#include "engine/row_sampler.h"

#include <algorithm>

#include "base/error.h"

namespace reprise::engine {
namespace {

// A pass over so many logits takes longer than it takes to wake threads that sleep.
constexpr int64_t kSharedLogits = int64_t{1} << 19;
// What a draw or log probabilities take, with an exponential for every logit, in passes of the greedy choice.
constexpr int64_t kPassesOfADraw = 16;

}  // namespace

/// One of the workers, for as long as a member of the team needs it.
class RowSampler::Lease {
 public:
  explicit Lease(std::span<const std::unique_ptr<Worker>> workers) {
    // There are as many as members, so one is always left; another member may take it first, though not for ever.
    for (size_t i = 0;; i = (i + 1) % workers.size()) {
      if (workers[i]->busy.exchange(true, std::memory_order_acquire)) continue;
      worker_ = workers[i].get();
      return;
    }
  }
  ~Lease() { worker_->busy.store(false, std::memory_order_release); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  Sampler& sampler() const { return worker_->sampler; }

 private:
  Worker* worker_ = nullptr;
};

RowSampler::RowSampler(int32_t vocabulary, int threads) : vocabulary_(vocabulary), team_(threads, threads) {
  for (int i = 0; i < threads; ++i) workers_.push_back(std::make_unique<Worker>(vocabulary));
}

void RowSampler::sample(std::span<Row> rows) {
  if (!is_worth_sharing(rows)) {
    for (Row& row : rows) sample_row(workers_[0]->sampler, row);
    return;
  }
  ++shared_calls_;
  const auto count = static_cast<int>(rows.size());
  const int chunks = std::min(count, ThreadTeam::kMaxChunks);
  const auto begin_of = [&](int chunk) { return static_cast<size_t>(int64_t{chunk} * count / chunks); };
  team_.share(team_.size(), chunks, [&](int first, int last) {
    const Lease lease(workers_);
    for (size_t row = begin_of(first); row < begin_of(last); ++row) sample_row(lease.sampler(), rows[row]);
  });
}

bool RowSampler::is_worth_sharing(std::span<const Row> rows) const {
  if (team_.size() == 1 || rows.size() < 2) return false;
  int64_t passes = 0;
  for (const Row& row : rows) {
    if (row.logits.empty()) continue;
    const SamplingParameters& sampling = row.sequence->sampling();
    passes += sampling.is_greedy() && !sampling.logprobs ? 1 : kPassesOfADraw;
  }
  return passes * vocabulary_ >= kSharedLogits;
}

void RowSampler::sample_row(Sampler& sampler, Row& row) {
  const Sequence& sequence = *row.sequence;
  const SamplingParameters& sampling = sequence.sampling();
  if (row.logits.empty()) return;
  try {
    row.token = sampler.sample(row.logits, sampling, sequence.history(), sequence.seed(), sequence.output_length(),
                               sequence.forbidden_tokens());
    if (sampling.logprobs) sampler.logprobs(row.logits, row.token, *sampling.logprobs, row.logprobs);
  } catch (...) {
    row.failure = std::current_exception();
  }
}

void RowSampler::logprobs(std::span<const float> logits, int32_t chosen, int32_t alternatives, PositionLogprobs& out) {
  workers_[0]->sampler.logprobs(logits, chosen, alternatives, out);
}

}  // namespace reprise::engine
