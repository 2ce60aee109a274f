#include "server/http_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/defer.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <iterator>

#include "base/error.h"
#include "base/log.h"
#include "server/connection_exchange.h"
#include "server/error_response.h"
#include "server/response_head.h"

namespace reprise::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Parser = http::request_parser<http::string_body>;

/// How long a client may take to see the answer to a request that was not read to its end.
constexpr std::chrono::seconds kLinger{2};
/// How long a client may take nothing while more of its stream waits than should.
constexpr std::chrono::seconds kPatience{1};

struct ParseFault {
  int status = 400;
  std::string_view message;
};

ParseFault fault_of(const error_code& failed) {
  if (failed == http::error::header_limit) return {431, "The head of the request is too large."};
  if (failed == http::error::body_limit) return {413, "The body of the request is too large."};
  return {400, "The request is not valid HTTP."};
}

/// Where a body ends is nobody's guess: one that is not chunked last, or chunked and coded besides, could end elsewhere
/// for a proxy in front than here, and what follows it be read as a request.
std::optional<ParseFault> fault_of_coding(const Parser& parser) {
  const auto& message = parser.get();
  const auto fields = message.equal_range(http::field::transfer_encoding);
  if (fields.first == fields.second) return std::nullopt;
  const std::string_view coding(fields.first->value().data(), fields.first->value().size());
  if (message.version() < 11) return ParseFault{400, "HTTP/1.0 has no Transfer-Encoding."};
  if (std::next(fields.first) == fields.second && equal_ignoring_case(coding, "chunked")) return std::nullopt;
  if (!parser.chunked()) return ParseFault{400, "A Transfer-Encoding must end with chunked."};
  return ParseFault{501, "The only Transfer-Encoding is chunked."};
}

/// A request of HTTP/1.1 says once for which host it is.
std::optional<ParseFault> fault_of_host(const Parser& parser) {
  const size_t hosts = parser.get().count(http::field::host);
  if (hosts == 1 || (hosts == 0 && parser.get().version() < 11)) return std::nullopt;
  return ParseFault{400, hosts == 0 ? "The request has no Host." : "The request has several Hosts."};
}

/// The path and query of a target, which may be a whole address: proxies are asked so, and servers must take it.
std::string_view without_origin(std::string_view target) {
  const size_t scheme = target.find("://");
  if (scheme == std::string_view::npos || target.starts_with('/')) return target;
  const bool http =
      equal_ignoring_case(target.substr(0, scheme), "http") || equal_ignoring_case(target.substr(0, scheme), "https");
  if (!http) return target;
  const size_t path = target.find_first_of("/?", scheme + 3);
  return path == std::string_view::npos ? "/" : target.substr(path);
}

/// One connection: a coroutine that reads, one that goes through the requests, both on one strand. Whatever may change
/// while the latter waits is announced by `event_`.
class Connection : public ConnectionControl, public std::enable_shared_from_this<Connection> {
 public:
  Connection(asio::io_context& context, int native_socket, bool is_v6, std::string peer,
             std::shared_ptr<ConnectionHost> host)
      : host_(std::move(host)),
        options_(host_->options),
        socket_(asio::make_strand(context), is_v6 ? tcp::v6() : tcp::v4(), native_socket),
        event_(socket_.get_executor()),
        resume_(socket_.get_executor()),
        write_deadline_(socket_.get_executor()),
        peer_(std::move(peer)) {}

  ~Connection() override {
    const std::lock_guard lock(host_->mutex);
    host_->connections.erase(this);
  }

  void start() {
    {
      const std::lock_guard lock(host_->mutex);
      host_->connections[this] = weak_from_this();
    }
    asio::co_spawn(socket_.get_executor(), [self = shared_from_this()] { return self->read_all(); }, asio::detached);
    asio::co_spawn(socket_.get_executor(), [self = shared_from_this()] { return self->serve_all(); }, asio::detached);
  }

  void end(bool now) override {
    asio::post(socket_.get_executor(), [self = shared_from_this(), now] {
      self->ending_ = true;
      if (now) self->abort();
      self->event_.cancel();
    });
  }

 private:
  // ---- reading

  asio::awaitable<void> read_all() {
    std::array<char, 16 << 10> chunk;
    while (true) {
      if (input_.size() > most_input()) {
        // A client that sends so much ahead waits, and is only seen to go when something is sent to it.
        resume_.expires_at(Clock::time_point::max());
        error_code ignored;
        co_await resume_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
        if (!socket_.is_open()) break;
        continue;
      }
      error_code failed;
      const size_t got =
          co_await socket_.async_read_some(asio::buffer(chunk), asio::redirect_error(asio::use_awaitable, failed));
      if (failed) break;
      if (!discard_) input_.append(chunk.data(), got);
      ++arrivals_;
      event_.cancel();
    }
    gone_ = true;
    if (exchange_ != nullptr) exchange_->set_gone();
    event_.cancel();
  }

  size_t most_input() const { return options_.max_header_bytes + (64 << 10); }

  template <typename Ready>
  asio::awaitable<bool> wait_until(Clock::time_point deadline, Ready ready) {
    while (!ready()) {
      if (Clock::now() >= deadline) co_return false;
      event_.expires_at(deadline);
      error_code ignored;
      co_await event_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    co_return true;
  }

  /// Waits for bytes beyond those that are there. False when none come any more, or not in time.
  asio::awaitable<bool> wait_for_input(Clock::time_point deadline) {
    const int64_t before = arrivals_;
    const bool in_time = co_await wait_until(deadline, [this, before] { return arrivals_ != before || gone_; });
    co_return in_time&& arrivals_ != before;
  }

  /// Feeds the parser with what is there, up to the end of the head or of the body.
  error_code parse(Parser& parser) {
    error_code failed;
    while (!input_.empty()) {
      const size_t used = parser.put(asio::buffer(input_), failed);
      input_.erase(0, used);
      if (failed == http::error::need_more) failed = {};
      if (failed || used == 0 || parser.is_done() || (parser.is_header_done() && !parser.eager())) break;
    }
    resume_.cancel();
    return failed;
  }

  // ---- requests

  asio::awaitable<void> serve_all() {
    try {
      bool again = true;
      while (again && !ending_) again = co_await serve_one();
    } catch (const std::exception& error) {
      log_error("connection of {}: {}", peer_, error.what());
    }
    error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    // Closing with something unread would reset the connection and take the answer from the client.
    discard_ = true;
    input_.clear();
    resume_.cancel();
    if (!ending_) {
      co_await wait_until(Clock::now() + kLinger, [this] { return gone_ || ending_; });
    }
    socket_.close(ignored);
  }

  /// True if the connection goes on.
  asio::awaitable<bool> serve_one() {
    Parser parser;
    parser.header_limit(static_cast<uint32_t>(options_.max_header_bytes));
    parser.body_limit(options_.max_body_bytes);
    const bool has_head = co_await read_head(parser);
    if (!has_head) co_return false;
    ++host_->requests;
    start_ = Clock::now();
    HttpRequest request = head_of(parser);
    const bool keep_alive = parser.get().keep_alive();
    if (std::optional<HttpResponse> answer = host_->gateway->answer_head(request)) {
      co_return co_await answer_now(request, std::move(*answer), keep_alive && parser.is_done());
    }
    const bool has_body = co_await read_body(parser, request);
    if (!has_body) co_return false;
    request.body = std::move(parser.get().body());
    co_return co_await answer_by_handler(std::move(request), keep_alive, parser.get().version());
  }

  asio::awaitable<bool> read_head(Parser& parser) {
    if (input_.empty()) {
      const auto idle = Clock::now() + options_.idle_timeout;
      co_await wait_until(idle, [this] { return !input_.empty() || gone_ || ending_; });
      if (input_.empty()) co_return false;
    }
    const auto deadline = Clock::now() + options_.header_timeout;
    bool blank = false;  // an empty line before the request, which some clients send behind a body
    while (true) {
      if (!blank && input_.starts_with("\r\n")) {
        input_.erase(0, 2);
        blank = true;
      }
      const bool undecided = !blank && input_ == "\r";
      const error_code failed = undecided ? error_code() : parse(parser);
      if (failed) co_return co_await refuse(parser, fault_of(failed));
      if (parser.is_header_done()) {
        auto fault = fault_of_coding(parser);
        if (!fault) fault = fault_of_host(parser);
        if (fault) co_return co_await refuse(parser, *fault);
        co_return true;
      }
      const bool more = co_await wait_for_input(deadline);
      if (!more && gone_) co_return false;
      if (!more) co_return co_await refuse(parser, {408, "The head of the request did not come in time."});
    }
  }

  asio::awaitable<bool> read_body(Parser& parser, const HttpRequest& request) {
    parser.eager(true);
    const auto deadline = Clock::now() + options_.body_timeout;
    bool invited = !equal_ignoring_case(request.header("expect"), "100-continue") || parser.get().version() < 11;
    while (!parser.is_done()) {
      const error_code failed = parse(parser);
      if (failed) co_return co_await refuse(parser, fault_of(failed));
      if (parser.is_done()) break;
      if (!invited) {
        invited = true;
        const bool sent = co_await write("HTTP/1.1 100 Continue\r\n\r\n");
        if (!sent) co_return false;
        continue;  // something may have come meanwhile
      }
      const bool more = co_await wait_for_input(deadline);
      if (!more && gone_) co_return false;
      if (!more) co_return co_await refuse(parser, {408, "The body of the request did not come in time."});
    }
    co_return true;
  }

  HttpRequest head_of(const Parser& parser) {
    const auto& message = parser.get();
    HttpRequest request;
    request.method = std::string(message.method_string());
    const std::string_view target = without_origin({message.target().data(), message.target().size()});
    const size_t question = target.find('?');
    request.path = std::string(target.substr(0, question));
    if (question != std::string_view::npos) request.query = std::string(target.substr(question + 1));
    for (const auto& field : message) {
      request.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
    }
    request.unique_id = new_request_id();
    request.id = proper_request_id(request.header("x-request-id")).value_or(request.unique_id);
    request.peer = peer_;
    return request;
  }

  // ---- answering

  /// Answers what is no proper request. Always false: nobody knows where the next one would begin.
  asio::awaitable<bool> refuse(const Parser& parser, ParseFault fault) {
    HttpRequest request;
    if (parser.is_header_done()) {
      request = head_of(parser);
    } else {
      request.method = "-";
      request.path = "-";
      request.id = request.unique_id = new_request_id();
      request.peer = peer_;
      start_ = Clock::now();
    }
    const bool ignored = co_await answer_now(request, error_response(fault.status, fault.message), false);
    static_cast<void>(ignored);
    co_return false;
  }

  asio::awaitable<bool> answer_now(const HttpRequest& request, HttpResponse response, bool keep_alive) {
    const bool go_on = keep_alive && !ending_;
    const ResponseForm form{.keep_alive = go_on};
    const std::string wire = compose_response(response, host_->gateway->common_headers(request), form,
                                              /*with_body=*/request.method != "HEAD");
    const bool sent = co_await write(wire);
    log_access(request, response.status, wire.size(), sent);
    co_return sent&& go_on;
  }

  asio::awaitable<bool> answer_by_handler(HttpRequest request, bool keep_alive, unsigned version) {
    const Route& route = host_->gateway->route(request);
    answer_changed_ = false;
    exchange_ = std::make_shared<ConnectionExchange>(options_.max_unread_bytes, [weak = weak_from_this()] {
      const auto self = weak.lock();
      // Deferred: from the server's own threads, which come with the pieces of many streams, none other is woken.
      if (self) asio::defer(self->socket_.get_executor(), [self] { self->on_answer_changed(); });
    });
    if (gone_) exchange_->set_gone();
    const auto shared = std::make_shared<const HttpRequest>(std::move(request));
    run_handler(route, shared);
    const bool go_on = co_await send_answer(*shared, keep_alive, version);
    exchange_.reset();
    co_return go_on;
  }

  void run_handler(const Route& route, const std::shared_ptr<const HttpRequest>& request) {
    auto task = [host = host_, &route, request, exchange = exchange_] {
      if (exchange->gone() && route.kind == RouteKind::kWork) return;
      try {
        route.handler(*request, exchange);
      } catch (...) {
        exchange->respond(error_response(std::current_exception()));
        exchange->end_stream();
      }
    };
    if (route.kind == RouteKind::kQuick) {
      task();
    } else {
      host_->work(std::move(task));
    }
  }

  /// Most pieces of a stream go from here to the socket; the coroutine wakes for what is more than that.
  void on_answer_changed() {
    if (sending_.waits && !gone_) {
      take_output();
      if (!sending_.given_up && !sending_.ended && write_at_once()) return;
    }
    answer_changed_ = true;
    event_.cancel();
  }

  ResponseForm form_of(bool stream, bool keep_alive, unsigned version) const {
    ResponseForm form{.keep_alive = keep_alive && !ending_};
    // HTTP/1.0 has no chunks: there the end of the connection is the end of the stream.
    form.chunked = stream && version >= 11;
    form.until_close = stream && version < 11;
    form.keep_alive = form.keep_alive && !form.until_close;
    return form;
  }

  asio::awaitable<bool> send_answer(const HttpRequest& request, bool keep_alive, unsigned version) {
    sending_ = {.request = &request, .keep_alive = keep_alive, .version = version};
    bool complete = false;
    while (true) {
      answer_changed_ = false;
      take_output();
      if (sending_.given_up) break;
      if (!write_at_once()) {
        const bool sent = co_await write(sending_.wire);
        if (!sent) break;
        sending_.sent_bytes += sending_.wire.size();
        sending_.wire.clear();
      }
      complete = sending_.ended;
      if (complete || gone_) break;
      sending_.waits = true;
      co_await wait_until(Clock::time_point::max(), [this] { return answer_changed_ || gone_; });
      sending_.waits = false;
      // What is there already is still sent to a client that only ended its own side.
      if (gone_ && !answer_changed_) break;
    }
    if (!complete) {
      const bool given_up = exchange_->given_up();
      ++(given_up ? host_->given_up : host_->clients_gone);
      exchange_->set_gone();
      if (given_up) abort();
    }
    log_access(request, sending_.status, sending_.sent_bytes, complete);
    co_return complete&& sending_.form.keep_alive && !ending_;
  }

  /// Adds what the exchange has to what is being sent.
  void take_output() {
    if (sending_.ended) return;
    ConnectionExchange::Output output = exchange_->take();
    if (output.head) {
      sending_.status = output.head->status;
      sending_.form = form_of(output.stream, sending_.keep_alive, sending_.version);
      sending_.wire += compose_response(*output.head, host_->gateway->common_headers(*sending_.request), sending_.form,
                                        /*with_body=*/sending_.request->method != "HEAD");
    }
    if (sending_.form.chunked) append_chunk(sending_.wire, output.bytes, output.ended);
    if (sending_.form.until_close) sending_.wire += output.bytes;
    sending_.ended = output.ended;
    sending_.given_up = output.given_up;
  }

  /// Gives the system what it takes without waiting. False when something is left, also when the connection is broken.
  bool write_at_once() {
    std::string& wire = sending_.wire;
    if (wire.empty()) return true;
    const ssize_t taken = ::send(socket_.native_handle(), wire.data(), wire.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (taken <= 0) return false;
    sending_.sent_bytes += static_cast<size_t>(taken);
    wire.erase(0, static_cast<size_t>(taken));
    return wire.empty();
  }

  /// False when the client is gone or takes nothing in time.
  asio::awaitable<bool> write(std::string_view wire) {
    while (!wire.empty()) {
      watch_write(Clock::now() + options_.write_timeout);
      error_code failed;
      const size_t written =
          co_await socket_.async_write_some(asio::buffer(wire), asio::redirect_error(asio::use_awaitable, failed));
      ++write_number_;
      write_deadline_.cancel();
      if (failed) co_return false;
      wire.remove_prefix(written);
    }
    co_return true;
  }

  /// Sees to it that the client takes something of the write under way until `deadline`, or within kPatience when too
  /// much waits behind it.
  void watch_write(Clock::time_point deadline) {
    write_deadline_.expires_at(std::min(deadline, Clock::now() + kPatience));
    write_deadline_.async_wait([weak = weak_from_this(), number = write_number_, deadline](error_code cancelled) {
      const auto self = weak.lock();
      if (cancelled || !self || self->write_number_ != number || !self->socket_.is_open()) return;
      if (self->client_reads()) {  // it is this thread that is late
        self->watch_write(Clock::now() + self->options_.write_timeout);
      } else if (self->exchange_ != nullptr && self->exchange_->full()) {
        self->exchange_->give_up();
        self->abort();
      } else if (Clock::now() >= deadline) {
        self->abort();
      } else {
        self->watch_write(deadline);
      }
    });
  }

  /// Whether the system would take more for the client.
  bool client_reads() {
    pollfd wanted{socket_.native_handle(), POLLOUT, 0};
    return ::poll(&wanted, 1, 0) > 0 && (wanted.revents & POLLOUT) != 0 && (wanted.revents & (POLLERR | POLLHUP)) == 0;
  }

  /// Closes at once; what the system still holds for the client is dropped.
  void abort() {
    error_code ignored;
    socket_.set_option(asio::socket_base::linger(true, 0), ignored);
    socket_.close(ignored);
    resume_.cancel();
    event_.cancel();
  }

  void log_access(const HttpRequest& request, int status, size_t bytes, bool complete) const {
    if (!options_.access_log) return;
    const double milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - start_).count();
    log_info("{} {} {} {}{} {} bytes {:.1f} ms {}", request.peer, for_log(request.method, 16),
             for_log(request.path, 100), status, complete ? "" : " (client gone)", bytes, milliseconds, request.id);
  }

  const std::shared_ptr<ConnectionHost> host_;
  const HttpServerOptions& options_;
  tcp::socket socket_;
  asio::steady_timer event_;
  asio::steady_timer resume_;
  asio::steady_timer write_deadline_;
  const std::string peer_;
  std::string input_;
  int64_t arrivals_ = 0;
  int64_t write_number_ = 0;
  bool gone_ = false;  ///< nothing more will be read
  bool ending_ = false;
  bool discard_ = false;
  bool answer_changed_ = false;
  std::shared_ptr<ConnectionExchange> exchange_;  ///< of the request that is being answered
  Clock::time_point start_;
  /// How far the answer has been sent.
  struct Sending {
    const HttpRequest* request = nullptr;
    bool keep_alive = false;
    unsigned version = 11;
    ResponseForm form = {};
    int status = 0;
    size_t sent_bytes = 0;
    std::string wire = {};  ///< what is to be sent next
    bool ended = false;     ///< nothing comes behind it
    bool given_up = false;
    bool waits = false;  ///< all that there was is sent
  } sending_;
};

}  // namespace

void serve_connection(asio::io_context& context, int native_socket, bool is_v6, std::string peer,
                      const std::shared_ptr<ConnectionHost>& host) {
  std::make_shared<Connection>(context, native_socket, is_v6, std::move(peer), host)->start();
}

}  // namespace reprise::server
