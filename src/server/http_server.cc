#include "server/http_server.h"

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "server/http_connection.h"

namespace reprise::server {

namespace asio = boost::asio;
using asio::ip::tcp;

class HttpServer::Core : public std::enable_shared_from_this<HttpServer::Core> {
 public:
  Core(std::shared_ptr<const Gateway> gateway, const HttpServerOptions& options)
      : guard_(asio::make_work_guard(context_)),
        relay_(asio::make_strand(context_)),
        acceptor_(asio::make_strand(context_)),
        retry_(acceptor_.get_executor()),
        workers_(static_cast<size_t>(std::max(options.workers, 1))),
        host_(std::make_shared<ConnectionHost>()) {
    host_->options = options;
    host_->gateway = std::move(gateway);
    host_->work = [this](std::function<void()> task) { asio::post(workers_, std::move(task)); };
    listen(options);
  }

  ~Core() { stop(std::chrono::milliseconds(0)); }

  void start() {
    const std::lock_guard lock(stop_mutex_);
    if (!threads_.empty() || host_->ending) return;
    asio::post(acceptor_.get_executor(), [this] { accept(); });
    for (int32_t i = 0; i < host_->options.threads; ++i) threads_.emplace_back([this] { context_.run(); });
  }

  void stop(std::chrono::milliseconds limit) {
    const std::lock_guard lock(stop_mutex_);
    if (threads_.empty()) return;
    host_->ending = true;
    asio::post(acceptor_.get_executor(), [this] {
      boost::system::error_code ignored;
      retry_.cancel(ignored);
      acceptor_.close(ignored);
    });
    end_connections(false);
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (open_connections() > 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    end_connections(true);
    workers_.stop();
    workers_.join();
    guard_.reset();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  int64_t open_connections() const {
    const std::lock_guard lock(host_->mutex);
    return static_cast<int64_t>(host_->connections.size());
  }

  const tcp::endpoint& endpoint() const { return endpoint_; }
  ConnectionHost& host() { return *host_; }
  void post(std::function<void()> task) { asio::post(relay_, std::move(task)); }
  void post_after(std::chrono::milliseconds time, std::function<void()> task) {
    auto timer = std::make_unique<asio::steady_timer>(relay_, time);
    asio::steady_timer& waiting = *timer;
    waiting.async_wait([timer = std::move(timer), task = std::move(task)](boost::system::error_code cancelled) {
      if (!cancelled) task();
    });
  }

 private:
  void listen(const HttpServerOptions& options) {
    if (options.port < 0 || options.port > 65535) {
      throw Error(ErrorCode::kInvalidArgument, "port is {}, must be 0 to 65535", options.port);
    }
    if (options.threads < 1) throw Error(ErrorCode::kInvalidArgument, "a server needs at least one thread");
    boost::system::error_code failed;
    tcp::resolver resolver(context_);
    const auto found = resolver.resolve(options.host, fmt::format("{}", options.port),
                                        tcp::resolver::passive | tcp::resolver::numeric_service, failed);
    if (failed || found.empty()) {
      throw Error(ErrorCode::kIo, "cannot listen on '{}': {}", options.host, failed.message());
    }
    const tcp::endpoint wanted = found.begin()->endpoint();
    acceptor_.open(wanted.protocol(), failed);
    if (!failed) acceptor_.set_option(tcp::acceptor::reuse_address(true), failed);
    if (!failed) acceptor_.bind(wanted, failed);
    if (!failed) acceptor_.listen(asio::socket_base::max_listen_connections, failed);
    if (failed) {
      throw Error(ErrorCode::kIo, "cannot listen on {} port {}: {}", options.host, options.port, failed.message());
    }
    endpoint_ = acceptor_.local_endpoint();
  }

  void accept() {
    if (host_->ending) return;
    acceptor_.async_accept([this](boost::system::error_code failed, tcp::socket socket) {
      if (failed == asio::error::operation_aborted || host_->ending) return;
      if (failed) {
        // Out of descriptors, most likely: some will be free again, and a loop without a pause would only burn a core.
        log_warning("cannot accept a connection: {}", failed.message());
        retry_.expires_after(std::chrono::milliseconds(100));
        retry_.async_wait([this](boost::system::error_code cancelled) {
          if (!cancelled) accept();
        });
        return;
      }
      take(std::move(socket));
      accept();
    });
  }

  void take(tcp::socket socket) {
    boost::system::error_code failed;
    const tcp::endpoint peer = socket.remote_endpoint(failed);
    if (failed) return;
    if (open_connections() >= static_cast<int64_t>(host_->options.max_connections)) {
      log_warning("a connection was refused: there are {} already", host_->options.max_connections);
      return;
    }
    socket.set_option(tcp::no_delay(true), failed);
    const bool is_v6 = peer.address().is_v6();
    std::string name = is_v6 ? fmt::format("[{}]:{}", peer.address().to_string(), peer.port())
                             : fmt::format("{}:{}", peer.address().to_string(), peer.port());
    const auto native = socket.release(failed);
    if (failed) return;
    ++host_->accepted;
    serve_connection(context_, native, is_v6, std::move(name), host_);
  }

  void end_connections(bool now) {
    std::vector<std::shared_ptr<ConnectionControl>> all;
    {
      const std::lock_guard lock(host_->mutex);
      for (const auto& [_, connection] : host_->connections) {
        if (auto held = connection.lock()) all.push_back(std::move(held));
      }
    }
    for (const auto& connection : all) connection->end(now);
  }

  asio::io_context context_;
  asio::executor_work_guard<asio::io_context::executor_type> guard_;
  asio::strand<asio::io_context::executor_type> relay_;
  tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  tcp::endpoint endpoint_;
  asio::thread_pool workers_;
  std::shared_ptr<ConnectionHost> host_;
  std::mutex stop_mutex_;
  std::vector<std::thread> threads_;
};

HttpServer::HttpServer(std::shared_ptr<const Gateway> gateway, const HttpServerOptions& options)
    : core_(std::make_shared<Core>(std::move(gateway), options)) {}

HttpServer::~HttpServer() { core_->stop(std::chrono::milliseconds(0)); }

void HttpServer::start() { core_->start(); }

uint16_t HttpServer::port() const { return core_->endpoint().port(); }

std::string HttpServer::url() const {
  const auto& address = core_->endpoint().address();
  return address.is_v6() ? fmt::format("http://[{}]:{}", address.to_string(), port())
                         : fmt::format("http://{}:{}", address.to_string(), port());
}

HttpCounters HttpServer::counters() const {
  ConnectionHost& host = core_->host();
  HttpCounters counters;
  counters.open_connections = core_->open_connections();
  counters.accepted_connections = host.accepted;
  counters.requests = host.requests;
  counters.given_up = host.given_up;
  counters.clients_gone = host.clients_gone;
  return counters;
}

void HttpServer::post(std::function<void()> task) { core_->post(std::move(task)); }

void HttpServer::post_after(std::chrono::milliseconds time, std::function<void()> task) {
  core_->post_after(time, std::move(task));
}

void HttpServer::work(std::function<void()> task) { core_->host().work(std::move(task)); }

void HttpServer::stop(std::chrono::milliseconds limit) { core_->stop(limit); }

}  // namespace reprise::server
