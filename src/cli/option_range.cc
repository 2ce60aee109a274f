#include "cli/option_range.h"

#include "base/error.h"

namespace reprise::cli {

void require_range(const char* option, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return;
  if (most == std::numeric_limits<int64_t>::max()) {
    throw Error(ErrorCode::kInvalidArgument, "{} is {}, must be at least {}", option, value, least);
  }
  throw Error(ErrorCode::kInvalidArgument, "{} is {}, must be between {} and {}", option, value, least, most);
}

}  // namespace reprise::cli
