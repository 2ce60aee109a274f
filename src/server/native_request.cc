#include "server/native_request.h"

#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "server/request_error.h"

namespace reprise::server {
namespace {

/// A field that is the same for all prompts, or a list with a value for each.
class PerItem {
 public:
  PerItem(RequestFields& fields, std::string key, size_t items) : key_(std::move(key)), value_(fields.find(key_)) {
    if (value_ == nullptr || !value_->is_array() || value_->size() == items) return;
    fields.fail(key_, fmt::format("{} has {} values for {} prompts.", fields.name_of(key_), value_->size(), items));
  }
  /// Null for a value that is absent.
  const Json* at(size_t item) const {
    const Json* value = value_ != nullptr && value_->is_array() ? &(*value_)[item] : value_;
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  bool boolean(size_t item, bool otherwise) const {
    const Json* value = at(item);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) fail(*value, "true or false");
    return value->get<bool>();
  }
  int32_t integer(size_t item, int32_t otherwise, int32_t least, int32_t most) const {
    const Json* value = at(item);
    if (value == nullptr) return otherwise;
    const std::string expected = fmt::format("an integer between {} and {}", least, most);
    if (!value->is_number_integer()) fail(*value, expected);
    const bool fits = !value->is_number_unsigned() || value->get<uint64_t>() <= INT32_MAX;
    if (!fits || value->get<int64_t>() < least || value->get<int64_t>() > most) fail(*value, expected);
    return value->get<int32_t>();
  }

 private:
  [[noreturn]] void fail(const Json& value, const std::string& expected) const {
    const std::string shown = value.is_number() ? to_text(value) : value.type_name();
    throw RequestError::parameter_error(key_, fmt::format("{} is {}, but must be {}.", key_, shown, expected));
  }

  const std::string key_;
  const Json* value_;
};

void read_input(const ApiContext& context, RequestFields& fields, GenerateRequest& request) {
  fields.refuse("input_embeds", "only text and input_ids are");
  const Json* text = fields.find("text");
  const Json* ids = fields.find("input_ids");
  if ((text == nullptr) == (ids == nullptr)) {
    fields.fail("text", text == nullptr ? "Either text or input_ids must be provided."
                                        : "text and input_ids cannot be provided both.");
  }
  const Json& input = text != nullptr ? *text : *ids;
  const std::string key = text != nullptr ? "text" : "input_ids";
  request.input_key = key;
  const bool is_list_of_numbers = input.is_array() && !input.empty() && input.front().is_number();
  if (text != nullptr && !input.is_string() && (!input.is_array() || is_list_of_numbers)) {
    fields.fail(key, "text must be a string or a list of strings.");
  }
  if (text == nullptr && !input.is_array()) fields.fail(key, "input_ids must be a list of token ids or of such lists.");
  request.batch = input.is_array() && !is_list_of_numbers;
  if (request.batch && !input.empty() && input.front().is_string() != (text != nullptr)) {
    fields.fail(key, fmt::format("{} holds values of the wrong type.", key));
  }
  for (Prompt& prompt : read_prompts(context, input, key))
    request.items.push_back({.prompt = std::move(prompt), .sampling = {}, .names = {}});
}

void read_names(RequestFields& fields, const std::string& request_id, GenerateRequest& request) {
  const Json* rid = fields.find("rid");
  const size_t count = request.items.size();
  if (rid != nullptr && rid->is_array()) {
    const std::vector<std::string> names = fields.texts("rid");
    if (names.size() != count)
      fields.fail("rid", fmt::format("rid has {} values for {} prompts.", names.size(), count));
    std::set<std::string_view> seen;
    for (const std::string& name : names) {
      if (!seen.insert(name).second) fields.fail("rid", fmt::format("rid holds {} more than once.", quote_text(name)));
    }
    for (size_t i = 0; i < count; ++i) request.items[i].names = {names[i]};
    return;
  }
  const std::string name = fields.text("rid").value_or(request_id);
  for (size_t i = 0; i < count; ++i) {
    if (request.batch) request.items[i].names = {fmt::format("{}_{}", name, i)};
    request.items[i].names.push_back(name);
  }
}

void read_logprobs(RequestFields& fields, GenerateRequest& request) {
  const size_t count = request.items.size();
  const PerItem wanted(fields, "return_logprob", count);
  const PerItem start(fields, "logprob_start_len", count);
  const PerItem top(fields, "top_logprobs_num", count);
  for (size_t i = 0; i < count; ++i) {
    GenerateItem& item = request.items[i];
    item.logprobs = wanted.boolean(i, false);
    const auto length = static_cast<int32_t>(item.prompt.ids.size());
    item.logprob_start = start.integer(i, -1, -1, std::max(length - 1, 0));
    item.top_logprobs = top.integer(i, 0, 0, engine::SamplingParameters::kMaxLogprobs);
    if (item.logprobs) item.sampling.parameters.logprobs = item.top_logprobs;
  }
  fields.refuse("token_ids_logprob", "top_logprobs_num is");
  request.text_in_logprobs = fields.boolean("return_text_in_logprobs", false);
}

void read_sampling(const ApiContext& context, RequestFields& fields, GenerateRequest& request) {
  const PerItem parameters(fields, "sampling_params", request.items.size());
  const Json* all = fields.find("sampling_params");
  for (size_t i = 0; i < request.items.size(); ++i) {
    const std::string path =
        all != nullptr && all->is_array() ? fmt::format("sampling_params[{}]", i) : "sampling_params";
    const Json* given = parameters.at(i);
    request.items[i].sampling =
        read_native_sampling(given != nullptr ? *given : Json::object(), path, context.vocabulary());
  }
}

}  // namespace

std::vector<std::string> GenerateItem::names_of(int32_t choice) const {
  std::vector<std::string> all = names;
  if (sampling.choices > 1) all.insert(all.begin(), fmt::format("{}_{}", names.front(), choice));
  return all;
}

size_t GenerateRequest::choices() const {
  size_t sum = 0;
  for (const GenerateItem& item : items) sum += static_cast<size_t>(item.sampling.choices);
  return sum;
}

GenerateRequest read_generate_request(const ApiContext& context, const Json& body, const std::string& request_id) {
  RequestFields fields(body);
  GenerateRequest request;
  read_input(context, fields, request);
  read_names(fields, request_id, request);
  read_sampling(context, fields, request);
  read_logprobs(fields, request);
  request.scheduling = read_scheduling(fields);
  request.stream = fields.boolean("stream", false);
  for (const char* key : {"image_data", "video_data", "audio_data", "modalities"}) {
    fields.refuse(key, "the model reads text");
  }
  for (const char* key : {"lora_path", "session_params", "custom_logit_processor", "return_hidden_states",
                          "bootstrap_host", "bootstrap_port", "bootstrap_room", "data_parallel_rank"}) {
    fields.refuse(key, "not built");
  }
  // Whether a request is counted, and by which name a model calls it, changes no answer.
  fields.ignore({"log_metrics", "model"});
  fields.explain({"max_new_tokens", "min_new_tokens", "temperature", "top_p", "top_k", "min_p", "repetition_penalty",
                  "presence_penalty", "frequency_penalty", "stop", "stop_token_ids", "ignore_eos", "logit_bias", "n",
                  "sampling_seed", "no_stop_trim", "include_stop_str_in_output", "skip_special_tokens"},
                 "It belongs into sampling_params.");
  fields.explain({"max_tokens", "max_completion_tokens"}, "Here it is sampling_params.max_new_tokens.");
  fields.explain({"min_tokens"}, "Here it is sampling_params.min_new_tokens.");
  fields.explain({"seed"}, "Here it is sampling_params.sampling_seed.");
  fields.explain({"prompt"}, "Here it is called text, or input_ids for token ids.");
  fields.explain({"messages", "tools"}, "It belongs to /v1/chat/completions.");
  fields.explain({"echo", "response_format"}, "It belongs to /v1/completions.");
  fields.explain({"logprobs"}, "Here it is called return_logprob.");
  fields.explain({"top_logprobs"}, "Here it is called top_logprobs_num.");
  fields.finish();
  for (const GenerateItem& item : request.items) {
    check_prompt(context, item.prompt.ids, item.sampling.parameters.max_new_tokens, request.input_key);
  }
  if (request.choices() > kMostRequestsAtOnce) {
    fields.fail("n", fmt::format("There may be {} outputs at most.", kMostRequestsAtOnce));
  }
  // With several outputs of one prompt the answer is a list as well.
  if (request.choices() > 1) request.batch = true;
  return request;
}

}  // namespace reprise::server
