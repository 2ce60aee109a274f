#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "server/exchange.h"

namespace reprise::server {

/// The exchange between handlers, which put an answer in, and a connection, which takes out what it can send. Bounded:
/// a stream whose client leaves more than `stream_limit` bytes unread is given up.
class ConnectionExchange : public Exchange {
 public:
  /// `wake` tells the connection that there is something to take; it is called on any thread, and not again before
  /// the next take(), but for the end.
  ConnectionExchange(size_t stream_limit, std::function<void()> wake);

  void respond(HttpResponse response) override;
  void begin_stream(std::string content_type) override;
  bool write(std::string_view bytes) override;
  void end_stream() override;
  void on_gone(std::function<void()> callback) override;

  /// What the connection finds.
  struct Output {
    std::optional<HttpResponse> head;  ///< once: with its body when `stream` is false
    bool stream = false;
    std::string bytes;  ///< of the stream
    bool ended = false;
    bool given_up = false;  ///< the client left too much unread
  };
  Output take();
  /// The client is gone: the handlers are told.
  void set_gone();
  bool gone() const;
  bool ended() const;
  bool given_up() const;

 private:
  enum class State { kOpen, kStreaming, kEnded };

  /// Calls `wake_` unless it was called since the last take(), or always. The lock must not be held.
  void wake(bool always = false);
  std::function<void()> give_up_locked();

  const size_t stream_limit_;
  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  State state_ = State::kOpen;
  std::optional<HttpResponse> head_;
  std::string bytes_;
  bool stream_ = false;
  bool gone_ = false;
  bool given_up_ = false;
  bool woken_ = false;
  std::function<void()> gone_callback_;
};

}  // namespace reprise::server
