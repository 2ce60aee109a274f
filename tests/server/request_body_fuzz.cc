// Any bytes either fail to parse as a body with a RequestError of status 400, or give an object whose fields are read
// or refused; what is written again is the same value. Errors are valid JSON, whatever the body held.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "server/chat_request.h"
#include "server/error_response.h"
#include "server/json.h"
#include "server/openai_answer.h"
#include "server/request_error.h"
#include "server/sampling_fields.h"
#include "text/chat_messages.h"

namespace {

using namespace reprise;

constexpr int32_t kVocabulary = 2048;

/// Runs one reader; its refusals must be answers with status 400.
template <typename Read>
void expect_refusal(Read read) {
  try {
    read();
  } catch (const Error& error) {
    if (server::http_status(error) != 400 && error.code() != ErrorCode::kResourceExhausted) __builtin_trap();
    if (!nlohmann::json::accept(server::error_json(error))) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  expect_refusal([&] {
    const server::Json body = server::parse_json_body({reinterpret_cast<const char*>(data), size});
    if (server::parse_json_body(server::to_text(body)) != body) __builtin_trap();
    expect_refusal([&] {
      server::RequestFields fields(body);
      server::read_openai_sampling(fields, {}, kVocabulary);
      server::read_scheduling(fields);
      server::OpenAiAnswerOptions answer;
      server::read_stream_fields(fields, answer);
      fields.finish();
    });
    expect_refusal([&] { server::read_native_sampling(body, "sampling_params", kVocabulary); });
    expect_refusal([&] {
      server::RequestFields fields(body);
      const server::ChatFields chat = server::read_chat_fields(fields);
      text::normalize_messages(chat.chat.messages);
    });
    expect_refusal([&] { server::read_token_ids(body, "prompt"); });
  });
  return 0;
}
