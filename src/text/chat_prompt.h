#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/chat_template.h"
#include "text/marked_text.h"
#include "text/tokenizer.h"

namespace reprise::text {

struct ChatPromptOptions {
  /// Text of the request may be read as control tokens (`<|im_end|>` ...). By default none of it is, wherever the
  /// template puts it; what the template itself writes always may.
  bool allow_special_in_content = false;
  /// The prompt ends with the content of the last message, which is the assistant's: the model goes on with it.
  bool continue_final_message = false;
};

/// What a model is given for a chat.
struct ChatPrompt {
  MarkedText text;
  std::vector<int32_t> ids;
  /// The template has left a `<think>` open at the end: for AssistantParserOptions::starts_in_reasoning.
  bool opens_reasoning = false;
};

/// A variable that the request sets, tools among them, and that the template which renders it does not read, so that
/// the model would not be told of it; empty when it reads all.
std::string unread_variable(const ChatTemplate& chat_template, const ChatRequest& request);

/// Renders a request, whose messages are normalised first (see normalize_messages). Throws what ChatTemplate::render
/// and normalize_messages throw; kInvalidArgument where the last message cannot be continued.
MarkedText render_chat(const ChatTemplate& chat_template, ChatRequest request, const ChatPromptOptions& options = {});

/// The ids of a rendered prompt: without those that a tokenizer adds by itself, which templates write where they
/// belong.
std::vector<int32_t> encode_chat(const Tokenizer& tokenizer, const MarkedText& prompt,
                                 const ChatPromptOptions& options = {});

/// Both: from a request to ids. Thread-safe.
ChatPrompt make_chat_prompt(const ChatTemplate& chat_template, const Tokenizer& tokenizer, ChatRequest request,
                            const ChatPromptOptions& options = {});

}  // namespace reprise::text
