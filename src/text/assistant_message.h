#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace reprise::text {

/// A call of a tool, as a model asks for it.
struct ToolCall {
  std::string name;
  std::string arguments;  ///< text of a JSON object, spelled as the model did

  bool operator==(const ToolCall&) const = default;
};

/// What comes next in an answer.
struct AssistantDelta {
  enum class Kind {
    kReasoning,  ///< `text` goes on with the model's reasoning
    kContent,    ///< `text` goes on with the answer proper
    kToolCall,   ///< `call` is complete
  };

  Kind kind = Kind::kContent;
  std::string text = {};  ///< not empty; empty with a call
  ToolCall call = {};
};

/// An answer taken apart.
struct AssistantMessage {
  std::string reasoning;
  std::string content;
  std::vector<ToolCall> calls;

  void add(const AssistantDelta& delta);
  bool operator==(const AssistantMessage&) const = default;
};

/// Reads the body of a call in Qwen3's form, `{"name": "...", "arguments": {...}}`: the arguments may also be called
/// `parameters`, be the text of a JSON object, or be missing. False for anything else.
bool read_tool_call(std::string_view body, ToolCall& call);

}  // namespace reprise::text
