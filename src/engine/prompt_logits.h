#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/kv_pool.h"
#include "engine/step_loop.h"

namespace reprise::engine {

struct PromptLogitsOptions {
  int32_t chunk = 0;    ///< tokens of a step; 0: as many as the engine's max_prefill_tokens
  bool decode = false;  ///< one decode step for each token instead
};

/// Runs `ids` as one sequence in steps of `chunk` tokens (> 0), or token by token as decode steps, and returns the
/// float32 logits of every position, [T, vocabulary]. kInvalidArgument for ids or a chunk out of range,
/// kResourceExhausted when the pool has not enough free pages; the pages are free again afterwards.
std::vector<float> prompt_logits(KvPool& pool, const StepFunction& step_function, int32_t vocabulary,
                                 std::span<const int32_t> ids, const PromptLogitsOptions& options);

}  // namespace reprise::engine
