#include "server/api_context.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/request_error.h"

namespace reprise::server {

void ApiContext::require_ready() const {
  switch (service.state()) {
    case engine::ServiceState::kReady:
      return;
    case engine::ServiceState::kLoading:
      throw RequestError(ErrorCode::kFailedPrecondition, "The model is being loaded.", {}, "loading");
    case engine::ServiceState::kFailed:
      throw RequestError(ErrorCode::kFailedPrecondition,
                         fmt::format("The engine has failed: {}", service.snapshot().failure), {}, "failed");
    default:
      throw RequestError(ErrorCode::kFailedPrecondition, "The server is shutting down.", {}, "shutting_down");
  }
}

const text::Tokenizer& ApiContext::tokenizer() const {
  const text::Tokenizer* tokenizer = service.tokenizer();
  if (tokenizer == nullptr) throw RequestError(ErrorCode::kUnsupported, "The model has no tokenizer.");
  return *tokenizer;
}

int32_t ApiContext::vocabulary() const { return static_cast<int32_t>(service.info()->model.vocabulary); }

int64_t ApiContext::max_context() const {
  const engine::ServiceInfo& info = *service.info();
  return std::min<int64_t>(info.options.max_context, info.kv_tokens_capacity);
}

int64_t unix_time() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace reprise::server
