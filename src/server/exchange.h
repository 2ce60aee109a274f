#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/http_message.h"

namespace reprise::server {

/// The answer to one request, given now or later and from any thread: as a whole, or as a stream of pieces. Nothing
/// here ever waits for the client.
class Exchange {
 public:
  virtual ~Exchange() = default;

  /// Answers as a whole. Without effect once an answer has begun.
  virtual void respond(HttpResponse response) = 0;

  /// Begins an answer of pieces with status 200. Without effect once an answer has begun.
  virtual void begin_stream(std::string content_type) = 0;
  /// Queues a piece. False when nobody will read it: the client is gone, or has left so much unread for so long that it
  /// was given up (its connection is closed then). A piece with a topic (>= 0) takes the place of an earlier one of
  /// that topic that has not been sent yet: it says all that the other would have said. Who may have more to say than a
  /// client reads at once asks when_room() before.
  virtual bool write(std::string_view bytes, int64_t topic = -1) = 0;
  /// True when a stream has room for more: when nothing of it waits to be sent, or, unless it must be `empty`, no more
  /// than a connection keeps. Else `callback` is called once, on any thread, as soon as there is, or when the client
  /// has gone; it takes the place of an earlier one, and must be quick.
  virtual bool when_room(bool empty, std::function<void()> callback) = 0;
  /// The client is gone: nobody will read what is said.
  virtual bool gone() const = 0;
  /// Ends the stream.
  virtual void end_stream() = 0;

  /// Called once, on any thread, when the client goes before the answer has been given completely; at once if it has
  /// gone already. It must be quick.
  virtual void on_gone(std::function<void()> callback) = 0;
};

/// What ends a stream of events.
inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

/// Answers a request, or sees to it that it will be answered. What it throws becomes the answer.
using Handler = std::function<void(const HttpRequest& request, const std::shared_ptr<Exchange>& exchange)>;

}  // namespace reprise::server
