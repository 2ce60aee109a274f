#include "server/sampling_fields.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "server/request_error.h"

namespace reprise::server {
namespace {

constexpr int32_t kMostChoices = 128;
constexpr size_t kMostStops = 64;

void read_stops(RequestFields& fields, engine::SamplingParameters& parameters) {
  parameters.stop = fields.texts("stop");
  if (parameters.stop.size() > kMostStops) {
    fields.fail("stop", fmt::format("stop has {} texts, but may have {} at most.", parameters.stop.size(), kMostStops));
  }
  parameters.stop_token_ids = fields.token_ids("stop_token_ids");
  fields.refuse("stop_regex", "stop strings and stop token ids are");
}

void read_logit_bias(RequestFields& fields, int32_t vocabulary, engine::SamplingParameters& parameters) {
  const Json* value = fields.find("logit_bias");
  if (value == nullptr) return;
  if (!value->is_object()) fields.fail("logit_bias", "logit_bias must be an object of token ids and numbers.");
  for (const auto& [key, bias] : value->items()) {
    int32_t token = -1;
    const auto [end, fault] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (fault != std::errc() || end != key.data() + key.size() || token < 0 || token >= vocabulary) {
      fields.fail("logit_bias", fmt::format("logit_bias must have token ids from 0 to {} as keys, got {}.",
                                            vocabulary - 1, quote_text(key)));
    }
    const double number = bias.is_number() ? bias.get<double>() : 101;
    if (!(number >= -100 && number <= 100)) {
      fields.fail("logit_bias", fmt::format("logit_bias of token {} must be a number between -100 and 100.", token));
    }
    for (const auto& [other, _] : parameters.logit_bias) {
      if (other == token) fields.fail("logit_bias", fmt::format("logit_bias names token {} twice.", token));
    }
    parameters.logit_bias.emplace_back(token, static_cast<float>(number));
  }
}

void read_response_format(RequestFields& fields) {
  const Json* format = fields.find("response_format");
  if (format == nullptr) return;
  if (format->is_object() && format->contains("type") && (*format)["type"] == "text") return;
  throw RequestError(ErrorCode::kUnsupported,
                     "response_format can only be {\"type\": \"text\"}: outputs are not bound to grammars.",
                     "response_format", "unsupported_parameter");
}

/// What both interfaces call by the same names.
void read_common(RequestFields& fields, int32_t vocabulary, SamplingFields& sampling) {
  engine::SamplingParameters& parameters = sampling.parameters;
  parameters.presence_penalty = fields.number("presence_penalty").value_or(0);
  parameters.frequency_penalty = fields.number("frequency_penalty").value_or(0);
  parameters.ignore_eos = fields.boolean("ignore_eos", false);
  read_stops(fields, parameters);
  read_logit_bias(fields, vocabulary, parameters);
  // Two names of the same: the text ends with what ended it.
  parameters.keep_stop = fields.boolean("no_stop_trim", false);
  parameters.keep_stop = fields.boolean("include_stop_str_in_output", parameters.keep_stop);
  sampling.choices = fields.integer32("n", 1, 1, kMostChoices);
  sampling.skip_special_tokens = fields.boolean("skip_special_tokens", true);
  // Byte-level tokenizers write the spaces that tokens stand for, whatever this says.
  fields.ignore({"spaces_between_special_tokens"});
  for (const char* key : {"regex", "json_schema", "ebnf", "structural_tag"}) {
    fields.refuse(key, "outputs are not bound to grammars");
  }
  fields.refuse("custom_params", "there are no custom logit processors");
  fields.refuse("lora_path", "adapters are not built");
}

}  // namespace

SamplingFields read_openai_sampling(RequestFields& fields, const load::GenerationConfig& defaults, int32_t vocabulary) {
  SamplingFields sampling;
  engine::SamplingParameters& parameters = sampling.parameters;
  const double temperature = defaults.temperature.value_or(defaults.do_sample.value_or(true) ? 1.0 : 0.0);
  parameters.temperature = fields.number("temperature").value_or(temperature);
  parameters.top_p = fields.number("top_p").value_or(defaults.top_p.value_or(1.0));
  parameters.top_k = fields.integer32("top_k", static_cast<int32_t>(defaults.top_k.value_or(-1)));
  parameters.min_p = fields.number("min_p").value_or(defaults.min_p.value_or(0.0));
  parameters.repetition_penalty =
      fields.number("repetition_penalty").value_or(defaults.repetition_penalty.value_or(1.0));
  if (const auto seed = fields.integer("seed")) parameters.seed = static_cast<uint64_t>(*seed);
  parameters.min_new_tokens = fields.integer32("min_tokens", 0, 0);
  read_response_format(fields);
  fields.explain({"max_new_tokens"}, "Here it is called max_tokens.");
  fields.explain({"min_new_tokens"}, "Here it is called min_tokens.");
  fields.explain({"sampling_seed"}, "Here it is called seed.");
  fields.explain({"sampling_params"}, "It belongs to /generate; here its members are parameters of the request.");
  fields.explain(
      {"text", "input_ids", "return_logprob", "logprob_start_len", "top_logprobs_num", "return_text_in_logprobs"},
      "It belongs to /generate.");
  read_common(fields, vocabulary, sampling);
  check_sampling(sampling, vocabulary);
  return sampling;
}

SamplingFields read_native_sampling(const Json& value, const std::string& path, int32_t vocabulary) {
  RequestFields fields(value, path);
  SamplingFields sampling;
  engine::SamplingParameters& parameters = sampling.parameters;
  parameters.max_new_tokens = fields.integer32("max_new_tokens", 128, 0);
  parameters.temperature = fields.number("temperature").value_or(1.0);
  parameters.top_p = fields.number("top_p").value_or(1.0);
  // 2^30 is how SGLang spells "all".
  parameters.top_k = fields.integer32("top_k", -1);
  parameters.min_p = fields.number("min_p").value_or(0.0);
  parameters.repetition_penalty = fields.number("repetition_penalty").value_or(1.0);
  if (const auto seed = fields.integer("sampling_seed")) parameters.seed = static_cast<uint64_t>(*seed);
  parameters.min_new_tokens = fields.integer32("min_new_tokens", 0, 0, parameters.max_new_tokens);
  read_common(fields, vocabulary, sampling);
  // How often a stream tells what is new is up to the server.
  fields.ignore({"stream_interval"});
  fields.explain({"max_tokens", "max_completion_tokens"}, "Here it is called max_new_tokens.");
  fields.explain({"min_tokens"}, "Here it is called min_new_tokens.");
  fields.explain({"seed"}, "Here it is called sampling_seed.");
  fields.explain({"response_format"}, "It belongs to /v1/chat/completions and /v1/completions.");
  fields.explain({"stream", "rid", "return_logprob", "logprob_start_len", "top_logprobs_num", "priority", "cache_salt"},
                 "It stands beside sampling_params, not in it.");
  fields.finish();
  check_sampling(sampling, vocabulary);
  return sampling;
}

void check_min_tokens(const RequestFields& fields, const SamplingFields& sampling, std::string_view most) {
  const engine::SamplingParameters& parameters = sampling.parameters;
  if (parameters.min_new_tokens <= parameters.max_new_tokens) return;
  fields.fail("min_tokens", fmt::format("min_tokens is {}, but {} is {}.", parameters.min_new_tokens, most,
                                        parameters.max_new_tokens));
}

void check_sampling(const SamplingFields& sampling, int32_t vocabulary) {
  try {
    sampling.parameters.validate(vocabulary);
  } catch (const Error& error) {
    // The message begins with the field's name.
    const std::string message = error.what();
    std::string field = message.substr(0, message.find_first_of(" ["));
    throw RequestError(error.code(), message + ".", std::move(field));
  }
}

SchedulingFields read_scheduling(RequestFields& fields) {
  SchedulingFields scheduling;
  scheduling.priority = fields.integer32("priority", 0);
  scheduling.cache_salt = fields.text("cache_salt").value_or("");
  return scheduling;
}

engine::Request make_engine_request(const std::vector<int32_t>& prompt, const SamplingFields& sampling, int32_t choice,
                                    const SchedulingFields& scheduling, const std::string& label) {
  engine::Request request;
  request.prompt = prompt;
  request.sampling = sampling.parameters;
  // Each of several outputs has a seed of its own, or they would be the same.
  if (request.sampling.seed) *request.sampling.seed += static_cast<uint64_t>(choice);
  request.skip_special_tokens = sampling.skip_special_tokens;
  request.priority = scheduling.priority;
  request.cache_salt = scheduling.cache_salt;
  request.label = label;
  return request;
}

}  // namespace reprise::server
