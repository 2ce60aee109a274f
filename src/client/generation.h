#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/http_loop.h"

namespace reprise::client {

/// How a server is asked for text.
enum class Interface {
  kGenerate,     ///< SGLang's own: POST /generate
  kCompletions,  ///< OpenAI's POST /v1/completions
  kChat,         ///< OpenAI's POST /v1/chat/completions
};

/// A kind of server, under the name that SGLang's bench_serving has for it.
struct Backend {
  std::string name;
  Interface interface = Interface::kGenerate;
};

/// "sglang", "sglang-oai", "sglang-oai-chat", "vllm", "vllm-chat".
const std::vector<std::string>& backend_names();
/// kInvalidArgument for another name.
Backend backend_from_name(const std::string& name);

/// What one request asks for.
struct Prompt {
  std::string text;
  std::vector<int32_t> ids = {};  ///< sent instead of the text unless empty; chat has no place for them
  int32_t tokens = 0;             ///< as far as is known here; 0: not known
  int32_t output_tokens = 128;    ///< most that are asked for
};

struct GenerationSettings {
  std::string model;
  double temperature = 0;
  bool ignore_eos = false;
  std::vector<std::string> stop = {};
  /// Asks the OpenAI interfaces for the usage in every event and not in the last one only; some servers refuse that.
  bool continuous_usage = true;
  bool incremental_text = false;  ///< /generate streams what is new and not all text so far
  std::string extra_body;         ///< a JSON object, whose fields are put over those of the request; empty: none
};

/// The request for a streamed answer. kInvalidArgument for ids in a chat and for an extra body that is no object.
HttpRequest generation_request(const Backend& backend, const Prompt& prompt, const GenerationSettings& settings);

/// What one event of an answer brings. Counts are of the whole request so far.
struct AnswerUpdate {
  std::string text;          ///< new
  bool has_content = false;  ///< text, reasoning or a tool call: a role alone is none
  std::optional<int64_t> output_tokens, prompt_tokens, cached_tokens;
  std::string finish_reason;  ///< empty: it goes on
};

/// Reads the events of one answer.
class AnswerReader {
 public:
  AnswerReader(Interface interface, bool incremental_text)
      : interface_(interface), incremental_text_(incremental_text) {}

  /// `event`: the data of one event, not "[DONE]". kCorruptData when it is not what the interface has; kIo with the
  /// server's words when it reports an error.
  AnswerUpdate read(std::string_view event);

 private:
  Interface interface_;
  bool incremental_text_;
  size_t read_bytes_ = 0;  ///< of the text so far
};

/// An error that a server sends, for people: the message in its JSON, or the beginning of whatever it sent.
std::string error_message(std::string_view body);

}  // namespace reprise::client
