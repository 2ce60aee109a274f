#include "text/chat_template.h"

#include <fmt/ranges.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/jinja_parser.h"

namespace reprise::text {

namespace {

using nlohmann::json;

constexpr std::string_view kDefault = "default";
constexpr std::string_view kToolUse = "tool_use";

std::string read_text_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorCode::kIo, "{}: cannot be read", path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

json read_tokenizer_config(const std::filesystem::path& path) {
  json config = json::parse(read_text_file(path), nullptr, false);
  if (!config.is_object()) throw Error(ErrorCode::kCorruptData, "{}: not a JSON object", path.string());
  return config;
}

/// The spellings of bos_token, eos_token ..., each a string or an object with `content`.
JinjaVariables special_tokens_of(const json& config) {
  JinjaVariables tokens;
  for (const char* name :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    const auto found = config.find(name);
    if (found == config.end() || found->is_null()) continue;
    const json& content = found->is_object() ? found->value("content", json()) : *found;
    if (!content.is_string()) throw Error(ErrorCode::kCorruptData, "tokenizer_config.json: {}: not a string", name);
    tokens.emplace_back(name, JinjaValue(content.get<std::string>(), Origin::kTemplate));
  }
  return tokens;
}

/// Name and source of each template of a tokenizer_config.json.
std::vector<std::pair<std::string, std::string>> templates_of(const json& config) {
  std::vector<std::pair<std::string, std::string>> templates;
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return templates;
  if (found->is_string()) return {{std::string(kDefault), found->get<std::string>()}};
  const auto refuse = [] {
    throw Error(ErrorCode::kCorruptData,
                "tokenizer_config.json: chat_template: neither a string nor a list of objects with name and template");
  };
  if (!found->is_array()) refuse();
  for (const json& entry : *found) {
    const auto field = [&](const char* name) -> std::string {
      if (!entry.is_object() || !entry.contains(name) || !entry.at(name).is_string()) refuse();
      return entry.at(name).get<std::string>();
    };
    templates.emplace_back(field("name"), field("template"));
  }
  return templates;
}

}  // namespace

ChatRequest ChatRequest::from_json(std::string_view json_text) {
  const JinjaValue root = jinja_value_from_json(json_text, "the request");
  if (!root.mapping()) throw Error(ErrorCode::kInvalidArgument, "the request: not a JSON object");
  ChatRequest request;
  for (const auto& [key, value] : root.mapping()->entries()) {
    const std::string& name = key.text()->bytes();
    const auto expect = [&](bool holds, std::string_view what) {
      if (!holds) throw Error(ErrorCode::kInvalidArgument, "{}: expected {}, found {}", name, what, value.type_name());
    };
    if (name == "messages") {
      expect(value.list(), "a list");
      request.messages = value;
    } else if (name == "tools") {
      expect(value.list() || value.is_none(), "a list or null");
      request.tools = value;
    } else if (name == "add_generation_prompt") {
      expect(value.boolean(), "true or false");
      request.add_generation_prompt = *value.boolean();
    } else {
      request.variables.emplace_back(name, value);
    }
  }
  if (request.messages.is_none()) throw Error(ErrorCode::kInvalidArgument, "messages: missing");
  return request;
}

std::optional<ChatTemplate> ChatTemplate::load(const std::filesystem::path& directory,
                                               const std::filesystem::path& file) {
  const std::filesystem::path config_path = directory / "tokenizer_config.json";
  const std::filesystem::path template_path = file.empty() ? directory / "chat_template.jinja" : file;
  ChatTemplate loaded;
  std::vector<std::pair<std::string, std::string>> templates;
  if (std::filesystem::exists(config_path)) {
    const json config = read_tokenizer_config(config_path);
    loaded.special_tokens_ = special_tokens_of(config);
    templates = templates_of(config);
  }
  const bool in_config = file.empty() && !std::filesystem::exists(template_path);
  if (!in_config) templates = {{std::string(kDefault), read_text_file(template_path)}};
  if (templates.empty()) return std::nullopt;
  for (const auto& [name, source] : templates) {
    const std::string shown = !in_config         ? template_path.filename().string()
                              : name == kDefault ? "chat_template"
                                                 : fmt::format("chat_template '{}'", name);
    loaded.programs_[name] = parse_jinja(source, shown);
  }
  return loaded;
}

ChatTemplate ChatTemplate::from_source(std::string_view source, std::string_view name) {
  ChatTemplate made;
  made.programs_[std::string(kDefault)] = parse_jinja(source, name);
  return made;
}

std::vector<std::string> ChatTemplate::names() const {
  std::vector<std::string> all;
  for (const auto& [name, program] : programs_) all.push_back(name);
  return all;
}

const JinjaProgram* ChatTemplate::find(const ChatRequest& request) const {
  std::string name = request.template_name;
  if (name.empty()) name = request.tools.truthy() && programs_.contains(kToolUse) ? kToolUse : kDefault;
  const auto found = programs_.find(name);
  return found == programs_.end() ? nullptr : found->second.get();
}

const JinjaProgram& ChatTemplate::choose(const ChatRequest& request) const {
  if (const JinjaProgram* program = find(request)) return *program;
  throw Error(ErrorCode::kInvalidArgument, "there is no chat template '{}'",
              request.template_name.empty() ? kDefault : request.template_name)
      .remedy(fmt::format("the model has: {}", fmt::join(names(), ", ")));
}

bool ChatTemplate::reads(std::string_view variable, const ChatRequest& request) const {
  const JinjaProgram* program = find(request);
  return program != nullptr && program->names.contains(variable);
}

MarkedText ChatTemplate::render(const ChatRequest& request, const JinjaOptions& options) const {
  JinjaVariables variables = special_tokens_;
  // Hugging Face's apply_chat_template defines these always.
  variables.emplace_back("messages", request.messages);
  variables.emplace_back("tools", request.tools);
  variables.emplace_back("documents", JinjaValue::none());
  variables.emplace_back("add_generation_prompt", JinjaValue(request.add_generation_prompt));
  variables.insert(variables.end(), request.variables.begin(), request.variables.end());
  return render_jinja(choose(request), variables, options);
}

}  // namespace reprise::text
