#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_interpreter.h"
#include "text/jinja_value.h"
#include "text/marked_text.h"

namespace reprise::text {

/// What a chat template is asked to render.
struct ChatRequest {
  JinjaValue messages = JinjaValue::none();
  JinjaValue tools = JinjaValue::none();
  bool add_generation_prompt = false;
  /// Further variables of the template, such as `enable_thinking`. They replace what is defined otherwise.
  JinjaVariables variables;
  /// Which of several templates; empty: `tool_use` if there are tools and such a template, else `default`.
  std::string template_name;

  /// Reads `{"messages": [...], "tools": [...], "add_generation_prompt": true, ...}`: every other key is a further
  /// variable. Throws kInvalidArgument, naming the key, for what is not of that form.
  static ChatRequest from_json(std::string_view json);
};

/// The chat templates of a model, parsed. Immutable, shared by threads.
class ChatTemplate {
 public:
  /// Reads `chat_template.jinja` of a model's directory, else `chat_template` of `tokenizer_config.json` (one template,
  /// or a list of named ones), and the special tokens' spellings of the latter, which templates see as `bos_token` ...
  /// None when the model has no template. `file`: a template that takes the place of the model's; empty: none. Throws
  /// kCorruptData and kUnsupported as parse_jinja does, kIo.
  static std::optional<ChatTemplate> load(const std::filesystem::path& directory,
                                          const std::filesystem::path& file = {});
  /// One template; `name` stands for it in messages.
  static ChatTemplate from_source(std::string_view source, std::string_view name = "chat_template");

  /// The prompt, each byte marked as coming from the template or from the request: a tokenizer must not find control
  /// tokens in bytes of the request. Throws as render_jinja does; kInvalidArgument for an unknown template name.
  MarkedText render(const ChatRequest& request, const JinjaOptions& options = {}) const;

  /// Whether the template that renders such a request reads a variable: otherwise setting it changes nothing. False
  /// where there is no such template.
  bool reads(std::string_view variable, const ChatRequest& request) const;

  /// In alphabetical order; a single template is called `default`.
  std::vector<std::string> names() const;

 private:
  /// Null when there is none of that name.
  const JinjaProgram* find(const ChatRequest& request) const;
  const JinjaProgram& choose(const ChatRequest& request) const;

  std::map<std::string, std::shared_ptr<const JinjaProgram>, std::less<>> programs_;
  JinjaVariables special_tokens_;
};

}  // namespace reprise::text
