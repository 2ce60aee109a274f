#include "client/http_loop.h"

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <exception>
#include <optional>
#include <set>

namespace reprise::client {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr size_t kMaxFetchedBytes = size_t{256} << 20;
constexpr auto kAsTuple = asio::as_tuple(asio::use_awaitable);

using WireRequest = http::request<http::string_body>;
using Parser = http::response_parser<http::buffer_body>;

/// Collects a whole response.
class WholeResponse final : public HttpReceiver {
 public:
  void on_status(int status, std::string_view /*content_type*/) override { response.status = status; }
  void on_body(std::string_view bytes, Clock::time_point /*at*/) override {
    if (response.body.size() + bytes.size() > kMaxFetchedBytes) {
      throw Error(ErrorCode::kCorruptData, "the server's answer is longer than {} bytes", kMaxFetchedBytes);
    }
    response.body += bytes;
  }
  void on_end(const Error* error, Clock::time_point /*at*/) override {
    if (error != nullptr) failure = *error;
  }

  HttpResponse response;
  std::optional<Error> failure;
};

}  // namespace

struct HttpLoop::Implementation {
  Endpoint endpoint;
  HttpOptions options;
  asio::io_context context{1};
  tcp::resolver::results_type addresses;
  std::set<beast::tcp_stream*> open;
  std::set<asio::steady_timer*> timers;
  bool cancelled = false;

  [[noreturn]] void fail(const error_code& error, std::string_view doing) const {
    if (cancelled) throw Error(ErrorCode::kCancelled, "interrupted");
    if (error == beast::error::timeout) {
      throw Error(ErrorCode::kIo, "{}: nothing came from {} for too long", doing, endpoint.authority());
    }
    throw Error(ErrorCode::kIo, "{} {}: {}", doing, endpoint.authority(), error.message());
  }

  WireRequest wire_request(const HttpRequest& request) const {
    WireRequest wire(http::string_to_verb(request.method), endpoint.prefix + request.target, 11);
    wire.set(http::field::host, endpoint.authority());
    wire.set(http::field::user_agent, "reprise");
    wire.set(http::field::accept, "*/*");
    wire.set(http::field::connection, "close");
    if (!request.body.empty()) wire.set(http::field::content_type, "application/json");
    if (!options.api_key.empty()) wire.set(http::field::authorization, "Bearer " + options.api_key);
    for (const auto& [name, value] : request.headers) wire.set(name, value);
    wire.body() = request.body;
    wire.prepare_payload();
    return wire;
  }

  asio::awaitable<void> exchange(beast::tcp_stream& stream, const HttpRequest& request, HttpReceiver& receiver) {
    stream.expires_after(options.connect_timeout);
    if (auto [error, _] = co_await stream.async_connect(addresses, kAsTuple); error) fail(error, "connecting to");
    stream.socket().set_option(tcp::no_delay(true));
    const WireRequest wire = wire_request(request);
    stream.expires_after(options.idle_timeout);
    if (auto [error, _] = co_await http::async_write(stream, wire, kAsTuple); error) fail(error, "sending to");

    Parser parser;
    parser.body_limit(boost::none);
    parser.header_limit(size_t{64} << 10);
    parser.eager(true);
    bool told = false;
    std::string input;  // what the parser has not taken
    std::string body;   // what came with one read
    std::array<char, 16384> part;
    while (!parser.is_done()) {
      stream.expires_after(options.idle_timeout);
      auto [error, got] = co_await stream.async_read_some(asio::buffer(part), kAsTuple);
      const auto at = Clock::now();
      if (error && error != asio::error::eof) fail(error, "reading from");
      input.append(part.data(), got);
      body.clear();
      error_code wrong = parse(parser, input, body);
      if (!wrong && error == asio::error::eof && !parser.is_done()) parser.put_eof(wrong);
      if (parser.is_header_done() && !std::exchange(told, true)) {
        const auto type = parser.get()[http::field::content_type];
        receiver.on_status(parser.get().result_int(), {type.data(), type.size()});
      }
      if (!body.empty()) receiver.on_body(body, at);
      if (wrong) fail(wrong, "reading from");
    }
  }

  /// Takes from `input` what is complete, and appends the body's bytes to `body`.
  static error_code parse(Parser& parser, std::string& input, std::string& body) {
    error_code failed;
    std::array<char, 16384> part;
    std::string_view rest = input;
    while (!rest.empty() && !parser.is_done()) {
      parser.get().body().data = part.data();
      parser.get().body().size = part.size();
      parser.get().body().more = true;
      const size_t taken = parser.put(asio::buffer(rest), failed);
      rest.remove_prefix(taken);
      const size_t bytes = part.size() - parser.get().body().size;
      body.append(part.data(), bytes);
      if (failed == http::error::need_buffer || failed == http::error::need_more) {
        failed = {};
        if (taken == 0 && bytes == 0) break;
      }
      if (failed) break;
    }
    input.erase(0, input.size() - rest.size());
    return failed;
  }

  asio::awaitable<void> exchange_to_end(HttpRequest request, std::shared_ptr<HttpReceiver> receiver) {
    std::optional<Error> failure;
    beast::tcp_stream stream(context);
    open.insert(&stream);
    try {
      if (cancelled) throw Error(ErrorCode::kCancelled, "interrupted");
      co_await exchange(stream, request, *receiver);
    } catch (const Error& error) {
      failure = error;
    } catch (const std::exception& error) {
      failure = Error(ErrorCode::kIo, std::string(error.what()));
    }
    open.erase(&stream);
    stream.close();
    receiver->on_end(failure ? &*failure : nullptr, Clock::now());
  }

  asio::awaitable<void> call_at(Clock::time_point when, std::function<void()> function) {
    asio::steady_timer timer(context, when);
    timers.insert(&timer);
    co_await timer.async_wait(kAsTuple);
    timers.erase(&timer);
    if (!cancelled) function();
  }

  /// What a function of at() throws ends run().
  static void rethrow(std::exception_ptr failure) {
    if (failure) std::rethrow_exception(failure);
  }
};

HttpLoop::HttpLoop(const Endpoint& endpoint, HttpOptions options)
    : implementation_(std::make_unique<Implementation>()) {
  implementation_->endpoint = endpoint;
  implementation_->options = std::move(options);
  error_code error;
  tcp::resolver resolver(implementation_->context);
  implementation_->addresses = resolver.resolve(endpoint.host, endpoint.port, error);
  if (error) throw Error(ErrorCode::kNotFound, "cannot look up the server '{}': {}", endpoint.host, error.message());
}

HttpLoop::~HttpLoop() = default;

void HttpLoop::at(Clock::time_point when, std::function<void()> function) {
  asio::co_spawn(implementation_->context, implementation_->call_at(when, std::move(function)),
                 Implementation::rethrow);
}

void HttpLoop::start(HttpRequest request, std::shared_ptr<HttpReceiver> receiver) {
  asio::co_spawn(implementation_->context, implementation_->exchange_to_end(std::move(request), std::move(receiver)),
                 Implementation::rethrow);
}

void HttpLoop::run() {
  implementation_->cancelled = false;
  implementation_->context.restart();
  implementation_->context.run();
}

void HttpLoop::cancel() {
  implementation_->cancelled = true;
  for (beast::tcp_stream* stream : implementation_->open) stream->cancel();
  for (asio::steady_timer* timer : implementation_->timers) timer->cancel();
}

HttpResponse HttpLoop::fetch(HttpRequest request) {
  const auto receiver = std::make_shared<WholeResponse>();
  start(std::move(request), receiver);
  run();
  if (receiver->failure) throw std::move(*receiver->failure);
  return std::move(receiver->response);
}

}  // namespace reprise::client
