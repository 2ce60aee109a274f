#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::engine {

/// How the tokens of one request are chosen, and when it ends. Defaults choose from the model's own distribution.
struct SamplingParameters {
  /// Most alternatives whose log probabilities can be asked for.
  static constexpr int32_t kMaxLogprobs = 20;
  /// Below this temperature the most likely token is taken: dividing by less only loses precision.
  static constexpr double kGreedyTemperature = 1e-5;

  double temperature = 1.0;         ///< >= 0; 0: always the most likely token
  int32_t top_k = 0;                ///< the k most likely tokens; 0 or -1: all
  double top_p = 1.0;               ///< (0, 1]: the fewest most likely tokens that reach this probability together
  double min_p = 0.0;               ///< [0, 1]: tokens at least so likely, as a share of the most likely one
  double repetition_penalty = 1.0;  ///< > 0, on tokens of the prompt and the output
  double presence_penalty = 0.0;    ///< [-2, 2], on tokens of the output
  double frequency_penalty = 0.0;   ///< [-2, 2], on tokens of the output, for each time
  /// Added to the logits of these tokens, after penalties and before temperature: finite, each token at most once.
  std::vector<std::pair<int32_t, float>> logit_bias;
  /// Equal seeds give equal tokens, whatever else runs. Absent: the engine makes one and reports it.
  std::optional<uint64_t> seed;

  int32_t max_new_tokens = 128;  ///< >= 0
  /// [0, max_new_tokens]: before so many tokens none is chosen that would end the output, and stop strings are not
  /// looked for in their text.
  int32_t min_new_tokens = 0;
  /// Texts, not empty, that end the output; they are not part of it. One that spells a control token counts as that
  /// token, whether or not the text shows such tokens.
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;  ///< tokens that end the output, besides the model's own; not part of the text
  bool keep_stop = false;               ///< the text ends with what ended it: the stop string, or the token's text
  bool ignore_eos = false;              ///< the model's own end tokens do not end the output
  /// Log probabilities of the chosen token and of so many alternatives, [0, 20]; absent: none.
  std::optional<int32_t> logprobs;

  bool is_greedy() const { return temperature < kGreedyTemperature; }
  bool has_penalties() const {
    return repetition_penalty != 1.0 || presence_penalty != 0.0 || frequency_penalty != 0.0;
  }
  bool changes_logits() const { return has_penalties() || !logit_bias.empty(); }
  /// Throws kInvalidArgument naming the field, its value and what is allowed. NaN is never allowed. `vocabulary`: rows
  /// of the model's logits, which bounds tokens.
  void validate(int32_t vocabulary) const;
};

}  // namespace reprise::engine
