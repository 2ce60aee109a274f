#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/json.h"
#include "text/assistant_parser.h"

namespace reprise::server {

/// One choice of a chat that is streamed: from text to the deltas that clients get.
class ChatChoiceStream {
 public:
  struct Options {
    text::AssistantParserOptions parser;
    bool stream_reasoning = true;  ///< false: reasoning comes as a whole, when it has ended
    std::string id;                ///< what ids of tool calls begin with
  };

  explicit ChatChoiceStream(Options options) : options_(std::move(options)), parser_(options_.parser) {}

  /// JSON objects of deltas that have become certain. `last`: the text is over.
  std::vector<std::string> push(std::string_view text, bool last);
  bool has_calls() const { return calls_ > 0; }

 private:
  void add(const text::AssistantDelta& delta, std::vector<std::string>& deltas);
  void flush_reasoning(std::vector<std::string>& deltas);

  const Options options_;
  text::AssistantParser parser_;
  std::string reasoning_;  // held back
  int calls_ = 0;
};

/// The id of the n-th call of an answer.
std::string tool_call_id(std::string_view answer_id, int number);

/// The message of a finished choice.
Json chat_message(const text::AssistantMessage& message, std::string_view answer_id);

}  // namespace reprise::server
