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
  std::function<void()> tell_gone;
  bool taken = false;
  {
    const std::lock_guard lock(mutex_);
    if (gone_ || state_ != State::kStreaming) return false;
    // Looked at before: one piece may be as large as it is, what counts is that the client does not read.
    if (too_much_unread()) {
      given_up_ = true;
      tell_gone = give_up_locked();
    } else {
      add_piece(bytes, topic);
      taken = true;
    }
  }
  if (tell_gone) tell_gone();
  wake(!taken);
  return taken;
}

bool ConnectionExchange::too_much_unread() const {
  // On a busy machine it may be the server's own threads that have not come to it for a while.
  constexpr std::chrono::seconds kPatience{1};
  constexpr size_t kMostTimes = 16;
  if (pending_ <= stream_limit_) return false;
  return pending_ > kMostTimes * stream_limit_ || std::chrono::steady_clock::now() - last_take_ > kPatience;
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
  const std::lock_guard lock(mutex_);
  woken_ = false;
  Output output;
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
  last_take_ = std::chrono::steady_clock::now();
  output.ended = state_ == State::kEnded;
  output.given_up = given_up_;
  return output;
}

void ConnectionExchange::set_gone() {
  std::function<void()> tell_gone;
  {
    const std::lock_guard lock(mutex_);
    tell_gone = give_up_locked();
  }
  if (tell_gone) tell_gone();
}

bool ConnectionExchange::gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

bool ConnectionExchange::ended() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::kEnded;
}

bool ConnectionExchange::given_up() const {
  const std::lock_guard lock(mutex_);
  return given_up_;
}

std::function<void()> ConnectionExchange::give_up_locked() {
  gone_ = true;
  pieces_.clear();
  pending_ = 0;
  return std::exchange(gone_callback_, nullptr);
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
