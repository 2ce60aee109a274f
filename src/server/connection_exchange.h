#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/exchange.h"

namespace reprise::server {

/// The exchange between handlers, which put an answer in, and a connection, which takes out what it can send. A stream
/// has room as long as `stream_limit` bytes at most wait to be taken. Whether a client reads is for the connection to
/// say: what waits here may wait for the server's own threads.
class ConnectionExchange : public Exchange {
 public:
  /// `wake` tells the connection that there is something to take; it is called on any thread, and not again before
  /// the next take(), but for the end.
  ConnectionExchange(size_t stream_limit, std::function<void()> wake);

  void respond(HttpResponse response) override;
  void begin_stream(std::string content_type) override;
  bool write(std::string_view bytes, int64_t topic = -1) override;
  bool when_room(bool empty, std::function<void()> callback) override;
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
  bool gone() const override;
  bool ended() const;
  /// More waits than there should.
  bool full() const;
  /// The client does not read: it is gone, and that is why.
  void give_up();
  bool given_up() const;

 private:
  enum class State { kOpen, kStreaming, kEnded };

  /// Calls `wake_` unless it was called since the last take(), or always. The lock must not be held.
  void wake(bool always = false);
  void end_client(bool given_up);
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
  bool stream_ = false;
  std::atomic<bool> gone_{false};  // changed under the lock; the engine's thread asks without it
  bool given_up_ = false;
  bool woken_ = false;
  std::function<void()> gone_callback_;
  std::function<void()> room_callback_;
};

}  // namespace reprise::server
