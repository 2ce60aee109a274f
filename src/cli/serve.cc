#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <ctime>
#include <exception>
#include <future>
#include <memory>
#include <thread>

#include "api/devices.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/engine_hold.h"
#include "cli/input.h"
#include "cli/print_settings.h"
#include "cli/serve_arguments.h"
#include "cli/server_options.h"
#include "cli/session.h"
#include "cli/statement.h"
#include "engine/engine_service.h"
#include "load/model_config.h"
#include "server/api_server.h"
#include "server/step_report.h"
#include "text/tokenizer.h"

namespace reprise::cli {
namespace {

/// The largest batch that is captured unless an option says so.
constexpr int32_t kMostGraphRows = 256;

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

constexpr double kGigabyte = 1 << 30;
/// A capture that takes longer does not stand in front of a step: clients would see it.
constexpr double kCaptureAtOnceMilliseconds = 20;

double available_gigabytes(device::Device& device) {
  return static_cast<double>(device.memory_info().available_bytes) / kGigabyte;
}

/// The same of a device that may be lost by now: 0.
double known_gigabytes(device::Device& device) noexcept {
  try {
    return available_gigabytes(device);
  } catch (const std::exception&) {
    return 0;
  }
}

/// Whoever reads the output may go: that is no reason to end.
void tell(const std::string& line) {
  try {
    write_output(line);
  } catch (const Error& error) {
    log_warning("{}", error.what());
  }
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
    tell(fmt::format("Listening on {}\n", api_->url()));
    int signal = 0;
    while (signal == 0 && service_.state() == engine::ServiceState::kLoading) signal = signals.wait();
    // Loading cannot be interrupted, and nobody waits for an answer yet.
    if (service_.state() == engine::ServiceState::kLoading) std::_Exit(exit_code(ErrorCode::kCancelled));
    if (failure_) std::rethrow_exception(failure_);
    if (service_.state() == engine::ServiceState::kFailed) {
      throw Error(ErrorCode::kInternal, "{}", service_.snapshot().failure);
    }
    const server::StepReporter reporter(service_, {graph_label(), options_.decode_log_interval,
                                                   [this] { return known_gigabytes(session_->device()); }});
    if (signal == 0) tell(fmt::format("The server is fired up and ready to roll! {}\n", api_->url()));
    EngineHold hold(service_);
    while (signal == 0) {
      hold.check();
      signal = signals.wait();
    }
    drain(signals);
    if (service_.state() == engine::ServiceState::kFailed) return exit_code(ErrorCode::kInternal);
    tell_statement();
    return 0;
  }

 private:
  std::unique_ptr<engine::Engine> make_engine() {
    may_load_.get_future().get();  // a fault of the options must not cost the loading of a model
    try {
      // A model without one is refused before its weights are read.
      auto tokenizer = text::load_tokenizer(load::model_directory(options_.session.model));
      double before = 0;
      session_ = std::make_unique<Session>(options_.session, false, [&before](device::Device& device) {
        log_info("Device: {}", api::describe(device));
        before = available_gigabytes(device);
        log_info("Load weight begin. avail mem={:.2f} GB", before);
      });
      const model::ModelInfo& info = session_->model()->info();
      log_info("Load weight end. type={}, dtype={}, avail mem={:.2f} GB, mem usage={:.2f} GB.", info.architecture,
               name_of(info.dtype), available_gigabytes(session_->device()),
               std::max(0.0, before - available_gigabytes(session_->device())));
      engine::EngineOptions engine_options =
          session_->engine_options(options_.max_running_requests, 0, options_.session.max_context);
      // Sizes are captured as traffic needs them, so that a large one costs nothing until it comes.
      if (engine_options.buckets.sizes.empty() && engine_options.buckets.max_size == 0) {
        engine_options.buckets.max_size = std::min(options_.max_running_requests, kMostGraphRows);
      }
      engine_options.prefix_cache = !options_.disable_radix_cache;
      if (options_.disable_overlap_schedule) engine_options.overlap = false;
      engine_options.capture_at_once_milliseconds = kCaptureAtOnceMilliseconds;
      if (options_.random_seed) engine_options.seed = *options_.random_seed;
      auto engine = engine::Engine::create(session_->device(), session_->registry(), session_->model(),
                                           std::move(tokenizer), std::move(engine_options));
      log_memory(*engine);
      if (const AutotuneReport* tuned = session_->autotune_report()) log_info("Tuned: {}", tuned->text());
      if (options_.capture_before_ready || options_.session.profile_capture) capture(*engine);
      return engine;
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
  }

  /// The lines that tools look for in the logs of SGLang.
  void log_memory(engine::Engine& engine) const {
    const engine::KvPool& pool = engine.kv_pool();
    const int64_t tokens = pool.usable_tokens();
    const double gigabytes = static_cast<double>(pool.bytes()) / kGigabyte;
    log_info("KV Cache is allocated. #tokens: {}, K size: {:.2f} GB, V size: {:.2f} GB", tokens, gigabytes / 2,
             gigabytes / 2);
    log_info("Memory pool end. avail mem={:.2f} GB", available_gigabytes(session_->device()));
    const engine::EngineOptions& options = engine.options();
    log_info(
        "max_total_num_tokens={}, chunked_prefill_size={}, max_prefill_tokens={}, max_running_requests={}, "
        "context_len={}, available_gpu_mem={:.2f} GB",
        tokens, options.max_prefill_tokens, options.max_prefill_tokens, options.max_running, options.max_context,
        available_gigabytes(session_->device()));
  }

  std::string graph_label() const { return fmt::format("{} graph", session_->device().name()); }

  void capture(engine::Engine& engine) const {
    const auto start = std::chrono::steady_clock::now();
    const double before = available_gigabytes(session_->device());
    log_info("Capture {} begin. This can take up to several minutes. avail mem={:.2f} GB", graph_label(), before);
    log_info("Capture {} bs [{}]", graph_label(), fmt::join(engine.runner().buckets(), ", "));
    engine.capture();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const replay::CaptureReport& report = engine.runner().capture_report();
    log_info("Capture {} end. Time elapsed: {:.2f} s. mem usage={:.2f} GB. avail mem={:.2f} GB.", graph_label(),
             seconds, static_cast<double>(report.graph_bytes + report.arena_bytes) / kGigabyte,
             available_gigabytes(session_->device()));
  }

  void drain(const Signals& signals) {
    // Nobody waits for an engine that has failed.
    if (service_.state() == engine::ServiceState::kFailed) return;
    log_info("draining: requests have {} s to end; another signal ends the server at once", options_.drain_seconds);
    using Clock = std::chrono::steady_clock;
    using Seconds = std::chrono::duration<double>;
    const Clock::time_point deadline =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(options_.drain_seconds));
    std::atomic<bool> done = false;
    std::thread worker([&] {
      api_->drain(std::chrono::milliseconds(static_cast<int64_t>(options_.drain_seconds * 1000)));
      done = true;
    });
    while (!done) {
      if (signals.wait() != 0) std::_Exit(exit_code(ErrorCode::kCancelled));
      if (Clock::now() < deadline) continue;
      const Seconds unseen = Clock::now() - service_.snapshot().heartbeat;
      if (unseen.count() < options_.health_timeout_seconds) continue;
      // It waits for the device, which may be for ever.
      log_error("the engine was not seen for {:.1f} s: the server ends without it", unseen.count());
      std::_Exit(exit_code(ErrorCode::kInternal));
    }
    worker.join();
  }

  /// What was done, as other commands say it at their end.
  void tell_statement() {
    std::string text;
    try {
      service_
          .run([&](engine::Engine& engine) {
            text = fmt::format("{}\n{}", api::describe(session_->device()),
                               statement_text(engine, session_->autotune_report()));
          })
          .get();
    } catch (const Error& error) {
      log_warning("there is no statement of what was done: {}", error.what());
    }
    if (!text.empty()) log_info("The server has ended; what it did:\n{}", text);
  }

  const ServerOptions& options_;
  std::exception_ptr failure_;  // of make_engine(); read once the service is no longer loading
  std::unique_ptr<Session> session_;
  std::promise<void> may_load_;
  engine::EngineService service_;
  std::unique_ptr<server::ApiServer> api_;
};

LogLevel log_level_of(const std::string& name) {
  return name == "debug"     ? LogLevel::kDebug
         : name == "info"    ? LogLevel::kInfo
         : name == "warning" ? LogLevel::kWarning
         : name == "error"   ? LogLevel::kError
                             : LogLevel::kOff;
}

int run_serve(const ServerOptions& options, const CommandLine& command) {
  if (!options.log_level.empty()) set_log_level(log_level_of(options.log_level));
  options.check();
  options.session.check(ops::make_catalogue());  // what is printed must start a server
  if (options.print_config) {
    write_output(settings_yaml(command, {"api-key"}, {"config", "print-config"}));
    return 0;
  }
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
  options->session.add_profile(command);
  command.footer(
      "Prints its address at once and 'The server is fired up and ready to roll!' when requests are taken. SIGTERM "
      "and\n"
      "SIGINT let requests end, see --drain-seconds. There is no TLS: put a proxy in front. See docs/serving.md.");
  command.on_arguments([&command](const std::vector<std::string>& arguments) {
    ServeArguments read = resolve_serve_arguments(arguments, [&command](const std::string& name) {
      return KnownOption{command.long_name(name), command.default_of(name), command.is_flag(name)};
    });
    return CommandLine::Arguments{std::move(read.tokens), std::move(read.places)};
  });
  command.on_run([options, &command] { return run_serve(*options, command); });
}

}  // namespace reprise::cli
