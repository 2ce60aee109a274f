#include "text/chat_prompt.h"

#include <string_view>
#include <utility>

#include "base/error.h"
#include "text/chat_messages.h"

namespace reprise::text {
namespace {

constexpr std::string_view kWhiteSpace = " \t\n\r";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kWhiteSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kWhiteSpace) + 1 - begin);
}

/// The content that is to be continued.
std::string final_content(const ChatRequest& request) {
  const auto refuse = [](std::string_view what) {
    throw Error(ErrorCode::kInvalidArgument, "continue_final_message: {}", what);
  };
  if (request.add_generation_prompt) refuse("add_generation_prompt would begin a new message");
  const std::vector<JinjaValue>& messages = request.messages.list()->elements();
  if (messages.empty()) refuse("there is no message");
  const JinjaMapping& last = *messages.back().mapping();
  if (last.find("role")->text()->bytes() != "assistant") refuse("the last message is not the assistant's");
  std::string content(trimmed(last.find("content")->text()->bytes()));
  if (content.empty()) refuse("the last message is empty");
  return content;
}

/// Whether all bytes of a range came with the request.
bool is_input(const MarkedText& text, size_t begin, size_t end) {
  size_t run_begin = 0;
  for (const MarkedText::Run& run : text.runs()) {
    if (run.origin == Origin::kTemplate && run_begin < end && begin < run.end) return false;
    run_begin = run.end;
  }
  return true;
}

/// Where the last message's content stands in the prompt. The template's own words may spell the same.
size_t find_content(const MarkedText& prompt, std::string_view content) {
  size_t begin = prompt.bytes().rfind(content);
  while (begin != std::string::npos && !is_input(prompt, begin, begin + content.size())) {
    begin = begin == 0 ? std::string::npos : prompt.bytes().rfind(content, begin - 1);
  }
  return begin;
}

}  // namespace

std::string unread_variable(const ChatTemplate& chat_template, const ChatRequest& request) {
  if (request.tools.truthy() && !chat_template.reads("tools", request)) return "tools";
  for (const auto& [name, _] : request.variables) {
    if (!chat_template.reads(name, request)) return name;
  }
  return "";
}

MarkedText render_chat(const ChatTemplate& chat_template, ChatRequest request, const ChatPromptOptions& options) {
  request.messages = normalize_messages(request.messages);
  if (!options.continue_final_message) return chat_template.render(request);
  const std::string content = final_content(request);
  const MarkedText prompt = chat_template.render(request);
  // Templates may strip white space from a message, and write what ends it behind.
  const size_t begin = find_content(prompt, content);
  if (begin == std::string::npos) {
    throw Error(ErrorCode::kInvalidArgument,
                "continue_final_message: the chat template does not write the last message as it is");
  }
  return prompt.substring(0, begin + content.size());
}

std::vector<int32_t> encode_chat(const Tokenizer& tokenizer, const MarkedText& prompt,
                                 const ChatPromptOptions& options) {
  std::vector<TextRange> literal;
  size_t begin = 0;
  for (const MarkedText::Run& run : prompt.runs()) {
    if (run.origin == Origin::kInput && !options.allow_special_in_content) literal.push_back({begin, run.end});
    begin = run.end;
  }
  EncodeOptions encode;
  encode.literal_ranges = literal;
  encode.add_special_tokens = false;
  return tokenizer.encode(prompt.bytes(), encode);
}

ChatPrompt make_chat_prompt(const ChatTemplate& chat_template, const Tokenizer& tokenizer, ChatRequest request,
                            const ChatPromptOptions& options) {
  ChatPrompt prompt;
  prompt.text = render_chat(chat_template, std::move(request), options);
  prompt.ids = encode_chat(tokenizer, prompt.text, options);
  const std::string_view text = prompt.text.bytes();
  const std::string_view end = trimmed(text);
  // What a message ends with is no block of the template's.
  prompt.opens_reasoning =
      end.ends_with("<think>") &&
      prompt.text.origin_at(static_cast<size_t>(end.data() - text.data()) + end.size() - 1) == Origin::kTemplate;
  return prompt;
}

}  // namespace reprise::text
