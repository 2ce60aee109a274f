#pragma once

#include <cstdint>

namespace reprise::engine {

/// What steps cost. Times are those of forming the step, running it and sampling, without callbacks, text that can end
/// no request and captures made on the way; but whatever the host does while a step runs (EngineOptions::overlap) is
/// part of its time. Engine::prompt_logits() counts as well.
struct Statistics {
  int64_t prefill_tokens = 0;  ///< prompt tokens read, and what was read again after preemptions
  int64_t prefill_steps = 0;
  double prefill_seconds = 0;
  int64_t decode_tokens = 0;  ///< tokens produced by decode steps; the first of each request comes from prefill
  int64_t decode_steps = 0;
  double decode_seconds = 0;
  /// With the time in front of each decode step, since the end of the step before it: callbacks, and whatever else kept
  /// the engine's thread. Time in which there was nothing to do is not part of it.
  double decode_wall_seconds = 0;
  int64_t generated_tokens = 0;  ///< by steps of both kinds
  int64_t cached_tokens = 0;     ///< of prompts, found in the prefix cache and not read again
  int64_t preemptions = 0;
  /// Decode steps whose batch was formed while the step before ran, and batches that were formed so in vain, because
  /// something came, ended or went. Without EngineOptions::overlap there are none.
  int64_t prepared_steps = 0;
  int64_t dropped_preparations = 0;
  int64_t finished_requests = 0;   ///< that ended, in whatever way
  int64_t cancelled_requests = 0;  ///< of them
  int64_t failed_requests = 0;     ///< of them
  double capture_seconds = 0;      ///< of captures, ahead and on the way

  double prefill_tokens_per_second() const {
    return prefill_seconds > 0 ? static_cast<double>(prefill_tokens) / prefill_seconds : 0;
  }
  double decode_tokens_per_second() const {
    return decode_seconds > 0 ? static_cast<double>(decode_tokens) / decode_seconds : 0;
  }
};

}  // namespace reprise::engine
