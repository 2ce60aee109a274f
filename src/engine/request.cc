#include "engine/request.h"

namespace reprise::engine {

std::string_view name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  throw Error(ErrorCode::kInternal, "unknown finish reason {}", static_cast<int>(reason));
}

}  // namespace reprise::engine
