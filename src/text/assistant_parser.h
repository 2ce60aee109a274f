#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/assistant_message.h"
#include "text/tokenizer.h"

namespace reprise::text {

struct AssistantParserOptions {
  bool reasoning = true;  ///< false: `<think>` blocks stay in the content as they are
  bool tools = true;      ///< false: `<tool_call>` blocks stay in the content as they are
  /// The prompt ended with an open `<think>`, so the answer begins inside the block: ChatPrompt::opens_reasoning.
  bool starts_in_reasoning = false;
};

/// Takes a model's answer apart while it comes, in the form of Qwen3 and of the many that took it over:
///
///   <think> reasoning </think> content <tool_call> {"name": ..., "arguments": ...} </tool_call> ...
///
/// The result does not depend on how the text is cut into pieces.
/// - A think block is one only at the beginning of the answer (or open from the prompt); later `<think>` is content.
///   A block that never ends is reasoning up to the end.
/// - A call is told when it is complete. One whose JSON is malformed, or that never ends, becomes content as it stands.
///   `</tool_call>` within a string of a call's JSON does not end the call.
/// - White space beside these markers is dropped (models write line breaks there); all other text is passed on, at once
///   but for what may still become a marker, or white space before one.
///
/// The markers have to be in the text. A token that the tokenizer marks special is left out of it by default: when
/// markers_are_special(), set Request::skip_special_tokens to false. In Qwen3's tokenizer they are added tokens that
/// are not special, so nothing is to be done; `<|im_end|>`, which is special, ends the answer and is never in its text.
class AssistantParser {
 public:
  explicit AssistantParser(AssistantParserOptions options = {});

  /// What has become certain with this piece.
  std::vector<AssistantDelta> push(std::string_view piece);
  /// The answer is over: what was held back. Only the destructor may follow.
  std::vector<AssistantDelta> finish();

  /// The whole of an answer.
  static AssistantMessage parse(std::string_view answer, AssistantParserOptions options = {});
  /// Whether one of the markers is a token that decoding leaves out together with special ones.
  static bool markers_are_special(const Tokenizer& tokenizer);

 private:
  enum class State {
    kStart,           ///< nothing but white space so far
    kOpenReasoning,   ///< the same, in a block that the prompt has opened
    kReasoningStart,  ///< behind `<think>`, nothing but white space so far
    kReasoning,
    kContentStart,  ///< behind a marker, nothing but white space so far
    kContent,
    kCall,  ///< behind `<tool_call>`
  };

  std::vector<AssistantDelta> take(bool last);
  /// Handles what is certain of rest(); false when more text is needed. `last`: there is none.
  bool advance(bool last, std::vector<AssistantDelta>& deltas);
  bool advance_start(bool last);
  bool advance_space(State next);
  bool advance_reasoning(bool last, std::vector<AssistantDelta>& deltas);
  bool advance_content(bool last, std::vector<AssistantDelta>& deltas);
  bool advance_call(bool last, std::vector<AssistantDelta>& deltas);
  /// At `</tool_call>` in rest(): whether the call ends here, as one or as content.
  bool end_call(size_t begin, std::vector<AssistantDelta>& deltas);
  /// Reads one byte of a call's JSON, or two of an escape; false when the second is still to come.
  bool scan_json();
  /// There is no call: the text up to `end` is content.
  void give_up_call(size_t end, std::vector<AssistantDelta>& deltas);

  std::string_view rest() const { return std::string_view(text_).substr(taken_); }
  void drop(size_t size) { taken_ += size; }
  void emit(AssistantDelta::Kind kind, size_t size, std::vector<AssistantDelta>& deltas);

  AssistantParserOptions options_;
  State state_;
  std::string text_;
  size_t taken_ = 0;  ///< bytes of text_ that were passed on or dropped
  // Of the call that is read, as offsets in rest(), which begins with the white space before it:
  size_t call_body_ = 0;
  size_t scanned_ = 0;      ///< up to here the JSON is known
  size_t first_end_ = 0;    ///< behind the first `</tool_call>`; 0: there is none so far
  bool in_string_ = false;  ///< at scanned_
  bool broken_ = false;     ///< it cannot be JSON
};

}  // namespace reprise::text
