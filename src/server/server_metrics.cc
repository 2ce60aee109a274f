#include "server/server_metrics.h"

#include <fmt/format.h>

#include <algorithm>

#include "replay/step_counters.h"

namespace reprise::server {
namespace {

constexpr double kFirstTokenBounds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25,
                                        0.5,   0.75,  1,    2.5,  5,    7.5,  10,   30,  60};
constexpr double kTokenBounds[] = {0.0001, 0.0005, 0.001, 0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02,
                                   0.03,   0.04,   0.05,  0.075, 0.1,   0.15,  0.2,   0.5,  1,     2};
constexpr double kRequestBounds[] = {0.01, 0.05, 0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60};

std::string label_value(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

/// Writes families one after the other.
class Page {
 public:
  explicit Page(std::string_view model) : labels_(fmt::format("model_name=\"{}\"", label_value(model))) {}

  void family(std::string_view name, std::string_view type, std::string_view help) {
    text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  void sample(std::string_view name, double value, std::string_view more_labels = "") {
    text += fmt::format("{}{{{}{}{}}} {}\n", name, labels_, more_labels.empty() ? "" : ",", more_labels, value);
  }
  void gauge(std::string_view name, std::string_view help, double value) {
    family(name, "gauge", help);
    sample(name, value);
  }
  void counter(std::string_view name, std::string_view help, int64_t value) {
    family(name, "counter", help);
    sample(name, static_cast<double>(value));
  }
  void seconds(std::string_view name, std::string_view help, double value) {
    family(name, "counter", help);
    sample(name, value);
  }
  void histogram(std::string_view name, std::string_view help, const Histogram& histogram) {
    family(name, "histogram", help);
    histogram.append_text(text, name, labels_);
  }

  std::string text;

 private:
  std::string labels_;
};

double share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

void add_sglang(Page& page, const ServerMetrics& metrics, const engine::ServiceSnapshot& snapshot, bool plain) {
  const auto name = [plain](std::string_view own) { return fmt::format("sglang{}{}", plain ? '_' : ':', own); };
  page.gauge(name("num_running_reqs"), "Requests that run.", snapshot.running);
  page.gauge(name("num_queue_reqs"), "Requests that wait.", snapshot.waiting);
  page.gauge(name("num_used_tokens"), "Tokens of the KV cache that requests hold, in whole pages.",
             static_cast<double>(snapshot.kv_tokens_used));
  page.gauge(name("token_usage"), "Share of the KV cache that requests hold.",
             share(snapshot.kv_tokens_used, snapshot.kv_tokens_capacity));
  page.gauge(name("gen_throughput"), "Tokens produced in each of the last seconds.",
             snapshot.generated_tokens_per_second);
  page.gauge(name("cache_hit_rate"), "Share of prompt tokens that were found in the prefix cache.",
             share(metrics.cached_tokens, metrics.prompt_tokens));
  page.counter(name("prompt_tokens_total"), "Prompt tokens of requests that have ended, of each output of n.",
               metrics.prompt_tokens);
  page.counter(name("generation_tokens_total"), "Tokens produced.", metrics.generated_tokens);
  page.counter(name("cached_tokens_total"), "Those of them that were found in the prefix cache.",
               metrics.cached_tokens);
  page.counter(name("num_requests_total"), "Requests that were taken; each output of n is one.", metrics.requests);
  page.counter(name("num_aborted_requests_total"), "Requests that were cancelled, or whose clients went.",
               metrics.aborted);
  page.histogram(name("time_to_first_token_seconds"), "From the request to its first token.",
                 metrics.time_to_first_token);
  page.histogram(name("inter_token_latency_seconds"), "From one token of a request to the next.",
                 metrics.inter_token_latency);
  page.histogram(name("e2e_request_latency_seconds"), "From a request to its end.", metrics.request_latency);
}

void add_steps(Page& page, const engine::ServiceSnapshot& snapshot) {
  const auto add = [&](std::string_view name, replay::StepKind kind) {
    for (const replay::StepReason reason : replay::kAllStepReasons) {
      const bool replayed = reason == replay::StepReason::kReplayed;
      // The mode in which the steps ran: a fallback is eager, whatever the chosen mode.
      const bool as_chosen = replayed || reason == replay::StepReason::kModeEager;
      page.sample(name, static_cast<double>(snapshot.counters.steps(kind, reason)),
                  fmt::format("mode=\"{}\",reason=\"{}\"", as_chosen ? replay::name_of(snapshot.mode) : "eager",
                              replay::name_of(reason)));
    }
  };
  page.family("reprise_decode_steps_total", "counter", "Decode steps by how they ran, and why.");
  add("reprise_decode_steps_total", replay::StepKind::kDecode);
  page.family("reprise_prefill_steps_total", "counter", "Steps that read prompts, by how they ran, and why.");
  add("reprise_prefill_steps_total", replay::StepKind::kPrefill);
  const engine::Statistics& statistics = snapshot.statistics;
  page.counter("reprise_decode_tokens_total", "Tokens that decode steps have produced.", statistics.decode_tokens);
  page.seconds("reprise_decode_step_seconds_total", "Time in decode steps: forming, running, sampling.",
               statistics.decode_seconds);
  page.seconds("reprise_decode_wall_seconds_total",
               "The same with the time in front of each step, while there was work.", statistics.decode_wall_seconds);
  page.family("reprise_prepared_steps_total", "counter",
              "Decode steps whose batch was formed while the step before ran: used as it was, or dropped.");
  page.sample("reprise_prepared_steps_total", static_cast<double>(statistics.prepared_steps), "result=\"used\"");
  page.sample("reprise_prepared_steps_total", static_cast<double>(statistics.dropped_preparations),
              "result=\"dropped\"");
  page.counter("reprise_prefill_tokens_total", "Prompt tokens that steps have read.", statistics.prefill_tokens);
  page.seconds("reprise_prefill_step_seconds_total", "Time in steps that read prompts.", statistics.prefill_seconds);
}

void add_reprise(Page& page, const ServerMetrics& metrics, const engine::ServiceSnapshot& snapshot,
                 const HttpCounters& http) {
  add_steps(page, snapshot);
  page.counter("reprise_captures_total", "Graphs that were captured.", snapshot.captures);
  page.counter("reprise_recaptures_total", "Graphs that were captured once more.", snapshot.recaptures);
  page.gauge("reprise_capture_seconds", "Time that captures have taken.", snapshot.capture_seconds);
  page.gauge("reprise_graph_pool_bytes", "Memory of captured graphs.", static_cast<double>(snapshot.graph_bytes));
  page.gauge("reprise_arena_bytes", "Memory of their intermediates.", static_cast<double>(snapshot.arena_bytes));
  page.gauge("reprise_kv_tokens_capacity", "Tokens that the KV cache can hold.",
             static_cast<double>(snapshot.kv_tokens_capacity));
  page.gauge("reprise_kv_tokens_cached", "Tokens that are kept for later requests with the same beginning.",
             static_cast<double>(snapshot.kv_tokens_cached));
  page.gauge("reprise_step_gap_seconds", "Median time between two replayed steps, of the last 512 steps.",
             snapshot.gap_milliseconds_median / 1000);
  page.counter("reprise_preemptions_total", "Times that requests lost their pages for others.",
               snapshot.statistics.preemptions);
  page.counter("reprise_failed_requests_total", "Requests whose steps failed.", metrics.failed);
  page.gauge("reprise_http_connections", "Open connections.", static_cast<double>(http.open_connections));
  page.counter("reprise_http_requests_total", "HTTP requests.", http.requests);
  page.counter("reprise_http_clients_gone_total", "Clients that went before their answers were complete.",
               http.clients_gone);
  page.counter("reprise_http_slow_clients_total", "Streams that were given up because their clients did not read.",
               http.given_up);
  page.family("reprise_server_ready", "gauge", "1 while requests are taken.");
  page.sample("reprise_server_ready", snapshot.state == engine::ServiceState::kReady ? 1 : 0,
              fmt::format("state=\"{}\"", engine::name_of(snapshot.state)));
}

}  // namespace

Histogram::Histogram(std::span<const double> bounds) : bounds_(bounds.first(std::min(bounds.size(), kMaxBounds))) {}

void Histogram::observe(double value) {
  const size_t index = static_cast<size_t>(std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin());
  counts_[index].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

void Histogram::append_text(std::string& out, std::string_view name, std::string_view labels) const {
  int64_t below = 0;
  for (size_t i = 0; i <= bounds_.size(); ++i) {
    below += counts_[i].load(std::memory_order_relaxed);
    const std::string bound = i < bounds_.size() ? fmt::format("{}", bounds_[i]) : "+Inf";
    out += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bound, below);
  }
  out += fmt::format("{}_sum{{{}}} {}\n", name, labels, sum_.load(std::memory_order_relaxed));
  out += fmt::format("{}_count{{{}}} {}\n", name, labels, below);
}

ServerMetrics::ServerMetrics()
    : time_to_first_token(kFirstTokenBounds), inter_token_latency(kTokenBounds), request_latency(kRequestBounds) {}

std::string metrics_text(const ServerMetrics& metrics, const engine::ServiceSnapshot& snapshot,
                         const HttpCounters& http, std::string_view model_name, bool plain) {
  Page page(model_name);
  add_sglang(page, metrics, snapshot, plain);
  add_reprise(page, metrics, snapshot, http);
  return std::move(page.text);
}

}  // namespace reprise::server
