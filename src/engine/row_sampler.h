#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "base/thread_team.h"
#include "engine/request.h"
#include "engine/sampler.h"
#include "engine/sequence.h"

namespace reprise::engine {

/// Draws the next tokens of the rows of a step, on several threads where that is worth it. A row's result does not
/// depend on the others, so the number of threads changes none. For one thread, as the loop.
class RowSampler {
 public:
  /// What one row has and what is drawn for it.
  struct Row {
    std::span<const float> logits = {};  ///< empty: nothing is drawn, as where there is a failure
    const Sequence* sequence = nullptr;
    int32_t token = -1;
    PositionLogprobs logprobs = {};   ///< when the request asks for them
    std::exception_ptr failure = {};  ///< instead of a token
  };

  /// `threads`: at least 1. kResourceExhausted when the system refuses as many.
  RowSampler(int32_t vocabulary, int threads);

  /// Fills in the tokens and log probabilities. Allocates nothing but what log probabilities hold.
  void sample(std::span<Row> rows);
  /// See Sampler; not while sample() runs.
  void logprobs(std::span<const float> logits, int32_t chosen, int32_t alternatives, PositionLogprobs& out);
  /// Calls of sample() that were shared among threads.
  int64_t shared_calls() const { return shared_calls_; }

 private:
  struct Worker {
    explicit Worker(int32_t vocabulary) : sampler(vocabulary) {}
    Sampler sampler;
    std::atomic<bool> busy = false;
  };
  class Lease;

  bool is_worth_sharing(std::span<const Row> rows) const;
  static void sample_row(Sampler& sampler, Row& row);

  int32_t vocabulary_;
  std::vector<std::unique_ptr<Worker>> workers_;  // as many as the team has members
  ThreadTeam team_;
  int64_t shared_calls_ = 0;
};

}  // namespace reprise::engine
