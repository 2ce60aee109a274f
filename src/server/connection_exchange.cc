#include "server/connection_exchange.h"

#include <utility>

namespace reprise::server {

ConnectionExchange::ConnectionExchange(size_t stream_limit, std::function<void()> wake)
    : stream_limit_(stream_limit), wake_(std::move(wake)) {}

void ConnectionExchange::respond(HttpResponse response) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kOpen) return;
    state_ = State::kEnded;
    head_ = std::move(response);
    gone_callback_ = nullptr;
  }
  wake();
}

void ConnectionExchange::begin_stream(std::string content_type) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kOpen) return;
    state_ = State::kStreaming;
    stream_ = true;
    head_ = HttpResponse{.status = 200, .body = {}, .content_type = std::move(content_type), .headers = {}};
  }
  wake();
}

bool ConnectionExchange::write(std::string_view bytes, int64_t topic) {
  {
    const std::lock_guard lock(mutex_);
    if (gone_ || state_ != State::kStreaming) return false;
    add_piece(bytes, topic);
  }
  wake();
  return true;
}

bool ConnectionExchange::when_room(bool empty, std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  if (gone_ || pending_ <= (empty ? 0 : stream_limit_)) return true;
  room_callback_ = std::move(callback);
  return false;
}

void ConnectionExchange::add_piece(std::string_view bytes, int64_t topic) {
  pending_ += bytes.size();
  if (topic >= 0) {
    for (Piece& piece : pieces_) {
      if (piece.topic != topic) continue;
      pending_ -= piece.bytes.size();
      piece.bytes = bytes;
      return;
    }
  } else if (!pieces_.empty() && pieces_.back().topic < 0) {
    pieces_.back().bytes += bytes;
    return;
  }
  pieces_.push_back({topic, std::string(bytes)});
}

void ConnectionExchange::end_stream() {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kStreaming) return;
    state_ = State::kEnded;
    gone_callback_ = nullptr;
  }
  wake(true);
}

void ConnectionExchange::on_gone(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kEnded) return;
    if (!gone_) {
      gone_callback_ = std::move(callback);
      return;
    }
  }
  callback();
}

ConnectionExchange::Output ConnectionExchange::take() {
  Output output;
  std::function<void()> tell_room;
  {
    const std::lock_guard lock(mutex_);
    woken_ = false;
    output.head = std::exchange(head_, std::nullopt);
    output.stream = stream_;
    for (Piece& piece : pieces_) {
      if (output.bytes.empty()) {
        output.bytes = std::move(piece.bytes);
      } else {
        output.bytes += piece.bytes;
      }
    }
    pieces_.clear();
    pending_ = 0;
    output.ended = state_ == State::kEnded;
    output.given_up = given_up_;
    tell_room = std::exchange(room_callback_, nullptr);
  }
  if (tell_room) tell_room();
  return output;
}

void ConnectionExchange::set_gone() { end_client(/*given_up=*/false); }

void ConnectionExchange::give_up() { end_client(/*given_up=*/true); }

void ConnectionExchange::end_client(bool given_up) {
  std::function<void()> tell_gone;
  std::function<void()> tell_room;
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    if (given_up) given_up_ = true;
    pieces_.clear();
    pending_ = 0;
    tell_gone = std::exchange(gone_callback_, nullptr);
    tell_room = std::exchange(room_callback_, nullptr);
  }
  if (tell_gone) tell_gone();
  if (tell_room) tell_room();
}

bool ConnectionExchange::gone() const { return gone_; }

bool ConnectionExchange::ended() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::kEnded;
}

bool ConnectionExchange::full() const {
  const std::lock_guard lock(mutex_);
  return pending_ > stream_limit_;
}

bool ConnectionExchange::given_up() const {
  const std::lock_guard lock(mutex_);
  return given_up_;
}

void ConnectionExchange::wake(bool always) {
  {
    const std::lock_guard lock(mutex_);
    if (woken_ && !always) return;
    woken_ = true;
  }
  wake_();
}

}  // namespace reprise::server
