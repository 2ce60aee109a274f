#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <ctime>
#include <exception>
#include <future>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/server_options.h"
#include "cli/session.h"
#include "engine/engine_service.h"
#include "server/api_server.h"
#include "text/tokenizer.h"

namespace reprise::cli {
namespace {

/// SIGINT and SIGTERM wait until they are asked for. Threads that are made later inherit that.
class Signals {
 public:
  Signals() {
    ::sigemptyset(&set_);
    ::sigaddset(&set_, SIGINT);
    ::sigaddset(&set_, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    // A reader of the log that goes must not end the server.
    std::signal(SIGPIPE, SIG_IGN);
  }
  /// The signal that has come, 0 after 50 ms without.
  int wait() const {
    const timespec limit{.tv_sec = 0, .tv_nsec = 50'000'000};
    const int signal = ::sigtimedwait(&set_, nullptr, &limit);
    return signal > 0 ? signal : 0;
  }

 private:
  sigset_t set_;
};

/// Each connection takes a descriptor, and the usual soft limit is 1,024 of them.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 65536);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

class Server {
 public:
  explicit Server(const ServerOptions& options)
      : options_(options), service_([this] { return make_engine(); }, {.max_queued = options.max_queued_requests}) {
    try {
      api_ = std::make_unique<server::ApiServer>(service_, options.served_model(), options.api_options());
    } catch (...) {
      may_load_.set_exception(std::current_exception());
      throw;
    }
    may_load_.set_value();
  }

  int run(const Signals& signals) {
    write_output(fmt::format("Listening on {}\n", api_->url()));
    int signal = 0;
    while (signal == 0 && service_.state() == engine::ServiceState::kLoading) signal = signals.wait();
    // Loading cannot be interrupted, and nobody waits for an answer yet.
    if (service_.state() == engine::ServiceState::kLoading) std::_Exit(exit_code(ErrorCode::kCancelled));
    if (failure_) std::rethrow_exception(failure_);
    if (signal == 0) write_output(fmt::format("The server is fired up and ready to roll! {}\n", api_->url()));
    while (signal == 0) signal = signals.wait();
    drain(signals);
    return 0;
  }

 private:
  std::unique_ptr<engine::Engine> make_engine() {
    may_load_.get_future().get();  // a fault of the options must not cost the loading of a model
    try {
      session_ = std::make_unique<Session>(options_.session);
      auto engine = session_->make_engine(text::load_tokenizer(session_->directory()), options_.max_running_requests,
                                          options_.kv_tokens, options_.session.max_context);
      if (options_.capture_before_ready) engine->capture();
      return engine;
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
  }

  void drain(const Signals& signals) {
    log_info("draining: requests have {:.0f} s to end; another signal ends the server at once", options_.drain_seconds);
    std::atomic<bool> done = false;
    std::thread worker([&] {
      api_->drain(std::chrono::milliseconds(static_cast<int64_t>(options_.drain_seconds * 1000)));
      done = true;
    });
    while (!done) {
      if (signals.wait() != 0) std::_Exit(exit_code(ErrorCode::kCancelled));
    }
    worker.join();
  }

  const ServerOptions& options_;
  std::exception_ptr failure_;  // of make_engine(); read once the service is no longer loading
  std::unique_ptr<Session> session_;
  std::promise<void> may_load_;
  engine::EngineService service_;
  std::unique_ptr<server::ApiServer> api_;
};

int run_serve(const ServerOptions& options) {
  options.check();
  raise_descriptor_limit();
  const Signals signals;
  return std::make_unique<Server>(options)->run(signals);
}

}  // namespace

void add_serve(CommandLine& program) {
  CommandLine& command = program.command("serve", "Answer requests over HTTP: OpenAI's and SGLang's interfaces");
  const auto options = std::make_shared<ServerOptions>();
  options->add(command);
  options->session.add_device(command);
  options->session.add_engine(command);
  options->session.add_graph(command);
  command.footer(
      "Prints its address at once and 'The server is fired up and ready to roll!' when requests are taken. SIGTERM "
      "and\n"
      "SIGINT let requests end, see --drain-seconds. There is no TLS: put a proxy in front. See docs/serving.md.");
  command.on_run([options] { return run_serve(*options); });
}

}  // namespace reprise::cli
