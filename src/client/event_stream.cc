#include "client/event_stream.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace reprise::client {

void EventStream::feed(std::string_view bytes, const std::function<void(std::string_view)>& on_event) {
  while (!bytes.empty()) {
    if (after_return_ && bytes.front() == '\n') bytes.remove_prefix(1);
    after_return_ = false;
    // find_first_of() would search the set for each byte.
    const size_t feed = bytes.find('\n');
    const size_t end = std::min(feed, bytes.substr(0, feed).find('\r'));
    if (line_.size() + data_.size() + std::min(end, bytes.size()) > kMaxEventBytes) {
      throw Error(ErrorCode::kCorruptData, "the server sent an event of more than {} bytes", kMaxEventBytes);
    }
    if (end == std::string_view::npos) {
      line_ += bytes;
      return;
    }
    after_return_ = bytes[end] == '\r';
    const std::string_view rest = bytes.substr(end + 1);
    if (line_.empty()) {
      take_line(bytes.substr(0, end), on_event);
    } else {
      line_ += bytes.substr(0, end);
      const std::string line = std::exchange(line_, {});
      take_line(line, on_event);
    }
    bytes = rest;
  }
}

void EventStream::take_line(std::string_view line, const std::function<void(std::string_view)>& on_event) {
  if (std::exchange(at_start_, false) && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
  if (line.empty()) {
    if (!std::exchange(has_data_, false)) return;
    const std::string data = std::exchange(data_, {});
    on_event(data);
    return;
  }
  const size_t colon = line.find(':');
  if (line.substr(0, colon) != "data") return;
  std::string_view value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (std::exchange(has_data_, true)) data_ += '\n';
  data_ += value;
}

}  // namespace reprise::client
