#include "cli/sampling_options.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace reprise::cli {

void SamplingOptions::add(CommandLine& command, const std::string& max_new_help) {
  command.option("-n,--max-new-tokens", max_new_tokens, max_new_help);
  command.option("--temperature", temperature, "0: always the most likely token; default: the model's");
  command.option("--top-k", top_k, "sample from the k most likely tokens; 0: all; default: the model's");
  command.option("--top-p", top_p, "fewest most likely tokens that reach this probability; default: the model's");
  command.option("--min-p", min_p, "tokens at least so likely, as a share of the most likely one");
  command.option("--repetition-penalty", repetition_penalty, "> 1 makes tokens of prompt and output unlikelier");
  command.option("--presence-penalty", parameters.presence_penalty, "[-2, 2], on tokens of the output");
  command.option("--frequency-penalty", parameters.frequency_penalty, "[-2, 2], on tokens of the output, each time");
  command.option("--seed", parameters.seed, "of the random choices; default: a fixed one");
  command.option("--stop", parameters.stop, "text that ends the output; may be given several times");
  command.flag("--ignore-eos", parameters.ignore_eos, "go on past the model's end tokens");
}

void SamplingOptions::check() const {
  engine::SamplingParameters given = parameters;
  given.temperature = temperature.value_or(0.0);
  given.top_k = top_k.value_or(given.top_k);
  given.top_p = top_p.value_or(given.top_p);
  given.min_p = min_p.value_or(given.min_p);
  given.repetition_penalty = repetition_penalty.value_or(given.repetition_penalty);
  given.max_new_tokens = max_new_tokens.value_or(given.max_new_tokens);
  given.validate(INT32_MAX);
}

void SamplingOptions::apply(const load::GenerationConfig& config) {
  const bool filtered = top_k || top_p || min_p;
  const bool greedy = !config.do_sample.value_or(filtered);
  parameters.temperature = temperature.value_or(greedy ? 0.0 : config.temperature.value_or(1.0));
  const int64_t new_tokens = std::min<int64_t>(config.max_new_tokens.value_or(parameters.max_new_tokens), INT32_MAX);
  parameters.max_new_tokens = max_new_tokens.value_or(static_cast<int32_t>(new_tokens));
  parameters.top_k = top_k.value_or(static_cast<int32_t>(config.top_k.value_or(0)));
  parameters.top_p = top_p.value_or(config.top_p.value_or(1.0));
  parameters.min_p = min_p.value_or(config.min_p.value_or(0.0));
  parameters.repetition_penalty = repetition_penalty.value_or(config.repetition_penalty.value_or(1.0));
  if (parameters.temperature > 0) return;
  std::string unused;
  for (const auto& [given, name] : {std::pair(top_k.value_or(0) != 0, "--top-k"),
                                    {top_p.value_or(1) != 1, "--top-p"},
                                    {min_p.value_or(0) != 0, "--min-p"}}) {
    if (given) unused += (unused.empty() ? "" : ", ") + std::string(name);
  }
  if (!unused.empty()) log_warning("without effect at temperature 0: {}; give a --temperature to sample", unused);
}

}  // namespace reprise::cli
