#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace reprise::client {

/// Takes a text/event-stream apart (https://html.spec.whatwg.org/multipage/server-sent-events.html), however its bytes
/// are cut. Lines may end in LF, CR or CR LF. Comments, which servers send to keep a connection alive, and fields other
/// than `data` yield nothing.
class EventStream {
 public:
  /// Longest event that is accepted, in bytes.
  static constexpr size_t kMaxEventBytes = size_t{64} << 20;

  /// Calls `on_event` with the data of each event that is complete, its lines joined by LF; the view is valid in the
  /// call. kCorruptData for an event that is too long. What the function throws goes through; the rest of `bytes` is
  /// lost then.
  void feed(std::string_view bytes, const std::function<void(std::string_view data)>& on_event);

 private:
  void take_line(std::string_view line, const std::function<void(std::string_view data)>& on_event);

  std::string line_;  ///< begun, its end has not come
  std::string data_;
  bool has_data_ = false;
  bool after_return_ = false;  ///< the last byte was CR: an LF that follows belongs to it
  bool at_start_ = true;       ///< a byte order mark may come
};

}  // namespace reprise::client
