#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/exchange.h"

namespace reprise::server {

/// The exchange between handlers, which put an answer in, and a connection, which takes out what it can send. Bounded:
/// a stream is given up when more than `stream_limit` bytes wait for a client that has taken nothing for a second, or
/// more than 16 times as many in any case.
class ConnectionExchange : public Exchange {
 public:
  /// `wake` tells the connection that there is something to take; it is called on any thread, and not again before
  /// the next take(), but for the end.
  ConnectionExchange(size_t stream_limit, std::function<void()> wake);

  void respond(HttpResponse response) override;
  void begin_stream(std::string content_type) override;
  bool write(std::string_view bytes, int64_t topic = -1) override;
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
  bool too_much_unread() const;
  void add_piece(std::string_view bytes, int64_t topic);

  const size_t stream_limit_;
  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  State state_ = State::kOpen;
  std::optional<HttpResponse> head_;
  struct Piece {
    int64_t topic;
    std::string bytes;
  };
  std::vector<Piece> pieces_;
  size_t pending_ = 0;  // bytes of them
  std::chrono::steady_clock::time_point last_take_ = std::chrono::steady_clock::now();
  bool stream_ = false;
  bool gone_ = false;
  bool given_up_ = false;
  bool woken_ = false;
  std::function<void()> gone_callback_;
};

}  // namespace reprise::server
