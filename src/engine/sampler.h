#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/request.h"
#include "engine/sampling_parameters.h"
#include "engine/token_history.h"

namespace reprise::engine {

/// Chooses tokens on the host. The order is: penalties (repetition, then frequency and presence), logit_bias,
/// temperature, top_k, top_p, min_p, draw; each filter works on what the one before it left, and probabilities are
/// renormalised between. Among equal logits the lower token counts as the more likely one, so that a result never
/// depends on a sort. Tokens that are e^52 times less likely than the best one (together below the resolution of the
/// draw) are left out. Allocates nothing after construction. For one thread.
class Sampler {
 public:
  explicit Sampler(int32_t vocabulary);

  /// Checks that all logits are finite. Throws kInternal naming the first token whose logit is not, and the value.
  static void check_finite(std::span<const float> logits);

  /// The token for one row of float32 logits [vocabulary]. `parameters` must be valid; `history` may be null without
  /// penalties. `forbidden` tokens are never chosen; they must not be all. The draw is a pure function of the logits,
  /// the parameters, `seed` and `step` (the output's position). Throws as check_finite() does.
  int32_t sample(std::span<const float> logits, const SamplingParameters& parameters, const TokenHistory* history,
                 uint64_t seed, int64_t step, std::span<const int32_t> forbidden = {});

  /// Log probabilities of `chosen` and of the `alternatives` most likely tokens, by the logits as they are: before
  /// penalties, temperature and filters. The logits must be finite. Allocates what `out` holds.
  void logprobs(std::span<const float> logits, int32_t chosen, int32_t alternatives, PositionLogprobs& out);

 private:
  /// A logit and its token in one number, so that a greater one is more likely, or as likely and the lower token.
  using Candidate = uint64_t;

  void apply_penalties(const SamplingParameters& parameters, const TokenHistory& history);
  void apply_bias(std::span<const std::pair<int32_t, float>> bias);
  std::span<const float> weigh();
  void collect(std::span<const float> logits);
  void collect_largest(std::span<const float> logits, size_t count);
  void keep_top_k(size_t count);
  void keep_top_p(double probability);
  void keep_min_p(double share);
  int32_t draw(double uniform);

  std::vector<float> changed_;  // logits
  std::vector<Candidate> candidates_;
  std::vector<float> weights_;
  float max_logit_ = 0;
  float sharpness_ = 1;  // 1 / temperature
  double temperature_ = 1;
};

}  // namespace reprise::engine
