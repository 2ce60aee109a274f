#include "client/report.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace reprise::client {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kReportWidth = 50;

/// A title in the middle of a rule, as Python's format does it: an odd rest goes to the right.
std::string rule(std::string_view title, char fill) {
  const size_t left = (kReportWidth - title.size()) / 2;
  return std::string(left, fill) + std::string(title) + std::string(kReportWidth - title.size() - left, fill) + "\n";
}

std::string row(std::string_view label, std::string_view value) { return fmt::format("{:<40} {}\n", label, value); }
std::string row(std::string_view label, int64_t value) { return row(label, fmt::format("{}", value)); }
std::string row(std::string_view label, double value) { return row(label, fmt::format("{:.2f}", value)); }

std::string seeds_lines(const ServingReport& report) {
  const ServingMeasures& m = report.measures;
  std::string text = "\n" + rule(" Serving Benchmark Result ", '=');
  text += row("Backend:", report.backend);
  text += row("Traffic request rate:",
              std::isinf(report.request_rate) ? std::string("inf") : fmt::format("{}", report.request_rate));
  text += row("Max request concurrency:",
              report.max_concurrency ? fmt::format("{}", *report.max_concurrency) : std::string("not set"));
  text += row("Successful requests:", m.completed);
  text += row("Benchmark duration (s):", m.seconds);
  text += row("Total input tokens:", m.input_tokens);
  text += row("Total generated tokens:", m.output_tokens);
  text += report.retokenized ? row("Total generated tokens (retokenized):", *report.retokenized)
                             : row("Total generated tokens (retokenized):", "not known (no --tokenizer)");
  text += row("Request throughput (req/s):", m.requests_per_second());
  text += row("Input token throughput (tok/s):", m.input_throughput());
  text += row("Output token throughput (tok/s):", m.output_throughput());
  text += row("Total token throughput (tok/s):", m.input_throughput() + m.output_throughput());
  text += row("Concurrency:", m.concurrency);
  if (report.accept_length) text += row("Accept length:", *report.accept_length);
  text += rule("End-to-End Latency", '-');
  text += row("Mean E2E Latency (ms):", m.latency.mean);
  text += row("Median E2E Latency (ms):", m.latency.median);
  text += rule("Time to First Token", '-');
  text += row("Mean TTFT (ms):", m.first.mean);
  text += row("Median TTFT (ms):", m.first.median);
  text += row("P99 TTFT (ms):", m.first.p99);
  text += rule("Inter-Token Latency", '-');
  text += row("Mean ITL (ms):", m.between.mean);
  text += row("Median ITL (ms):", m.between.median);
  text += row("P95 ITL (ms):", m.between.p95);
  text += row("P99 ITL (ms):", m.between.p99);
  text += row("Max ITL (ms):", m.between.max);
  return text + rule("", '=');
}

std::string percentile_lines(const ServingMeasures& m) {
  std::string text = fmt::format("{:<26}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "Milliseconds", "mean", "p50", "p90",
                                 "p95", "p99", "max");
  for (const auto& [name, d] : {std::pair("E2E latency", &m.latency),
                                {"TTFT", &m.first},
                                {"TPOT", &m.per_token},
                                {"ITL", &m.between},
                                {"due to sent", &m.send_delay}}) {
    text += fmt::format("{:<26}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}\n", name, d->mean, d->median,
                        d->p90, d->p95, d->p99, d->max);
  }
  return text;
}

double cached_share(const ServingMeasures& m) {
  return m.input_tokens == 0 ? 0
                             : static_cast<double>(m.cached_tokens.value_or(0)) / static_cast<double>(m.input_tokens);
}

/// Why prompts were in the cache, and what helps.
std::string cache_reason(const ServingReport& report) {
  const ServingMeasures& m = report.measures;
  const int64_t requests = m.completed + m.failed;
  if (report.file_texts && *report.file_texts < requests) {
    return fmt::format(
        ": the file has {} texts for {} requests, so that they repeat. Times are not those of a cold cache: give more "
        "texts or fewer --num-prompts{}.\n",
        *report.file_texts, requests, report.cache_flushed ? "" : ", and --flush-cache");
  }
  if (report.cache_flushed) {
    return ", though it was emptied before: prompts begin alike. Times are not those of a cold cache.\n";
  }
  if (report.file_texts) {
    return ", as a second run with the same file has, or texts that begin alike. Times are not those of a cold cache: "
           "give --flush-cache.\n";
  }
  return ", as a second run with the same seed has. Times are not those of a cold cache: give --flush-cache, or "
         "another "
         "--seed.\n";
}

std::string cache_lines(const ServingReport& report) {
  const ServingMeasures& m = report.measures;
  const char* before = report.cache_flushed ? "emptied before" : "not emptied before (--flush-cache)";
  if (!m.cached_tokens) return row("Cache hit tokens:", fmt::format("not told by the server; {}", before));
  std::string text = row("Cache hit tokens:", fmt::format("{} of {} input tokens ({:.1f} %); {}", *m.cached_tokens,
                                                          m.input_tokens, 100 * cached_share(m), before));
  if (cached_share(m) > kNotableCacheShare) {
    text += fmt::format("Flagged: the server had {:.1f} % of the prompts in its cache", 100 * cached_share(m)) +
            cache_reason(report);
  }
  return text;
}

std::string steps_line(const ServingReport& report) {
  if (!report.before.steps || !report.after.steps) {
    return row("Decode steps by mode:", "not told by the server (no reprise_decode_steps_total in /metrics)");
  }
  return row("Decode steps by mode:", steps_text(difference(*report.after.steps, *report.before.steps))) +
         row("  before / after this run:",
             fmt::format("{} / {}", steps_text(*report.before.steps), steps_text(*report.after.steps)));
}

/// What the server's decode steps have come to in the run.
std::optional<DecodeWork> decode_work(const ServingReport& report) {
  if (!report.before.work || !report.after.work) return std::nullopt;
  const DecodeWork& before = *report.before.work;
  const DecodeWork& after = *report.after.work;
  return DecodeWork{after.tokens - before.tokens, after.step_seconds - before.step_seconds,
                    after.wall_seconds - before.wall_seconds};
}

int64_t decode_step_count(const ServingReport& report) {
  if (!report.before.steps || !report.after.steps) return 0;
  int64_t count = 0;
  for (const auto& [key, steps] : difference(*report.after.steps, *report.before.steps)) count += steps;
  return count;
}

double per(double amount, double whole) { return whole > 0 ? amount / whole : 0; }

/// Without the time in which prompts were read: what `bench batch` calls decode throughput.
std::string decode_line(const ServingReport& report) {
  const std::optional<DecodeWork> work = decode_work(report);
  if (!work) return row("Decode throughput (tok/s):", "not told by the server");
  const auto tokens = static_cast<double>(work->tokens);
  return row("Decode throughput (tok/s):",
             fmt::format("{:.2f} while decoding, {:.2f} in decode steps alone (the server's clock)",
                         per(tokens, work->wall_seconds), per(tokens, work->step_seconds))) +
         row("Tokens of a decode step:",
             fmt::format(
                 "{:.2f} in {:.3f} ms, {:.3f} ms between steps (means)",
                 per(tokens, static_cast<double>(decode_step_count(report))),
                 1e3 * per(work->step_seconds, static_cast<double>(decode_step_count(report))),
                 1e3 * per(work->wall_seconds - work->step_seconds, static_cast<double>(decode_step_count(report)))));
}

std::string counting_lines(const ServingReport& report) {
  const ServingMeasures& m = report.measures;
  std::string text;
  if (m.estimated > 0) {
    text += fmt::format(
        "Of {} requests the server told the number of tokens at the end only: ITL deals them out evenly over the "
        "events.\n",
        m.estimated);
  }
  if (m.uncounted > 0) {
    text += fmt::format("Of {} requests the server told no number of tokens: each event counts as one.\n", m.uncounted);
  }
  return text + (std::isinf(report.request_rate)
                     ? "Latencies count from when a request could be sent: there is no request rate.\n"
                     : "Latencies count from a request's scheduled arrival, with the time in which it could not be "
                       "sent.\n");
}

void put_distribution(Json& json, const std::string& name, const Distribution& d) {
  json["mean_" + name] = d.mean;
  json["median_" + name] = d.median;
  json["std_" + name] = d.deviation;
  json["p90_" + name] = d.p90;
  json["p95_" + name] = d.p95;
  json["p99_" + name] = d.p99;
  json["max_" + name] = d.max;
}

Json steps_json(const std::optional<DecodeSteps>& steps) {
  if (!steps) return nullptr;
  Json json = Json::object();
  for (const auto& [key, count] : *steps) json[key.first][key.second] = count;
  return json;
}

void put_details(Json& json, const LoadResult& result) {
  for (const char* key : {"input_lens", "output_lens", "ttfts", "itls", "generated_texts", "errors", "dues", "sents",
                          "latencies", "cached_tokens_of_requests"}) {
    json[key] = Json::array();
  }
  for (const RequestRecord& request : result.requests) {
    json["input_lens"].push_back(request.prompt_tokens);
    json["output_lens"].push_back(request.output_tokens);
    json["ttfts"].push_back(request.times.first);
    json["itls"].push_back(request.times.gaps);
    json["generated_texts"].push_back(request.text);
    json["errors"].push_back(request.error);
    json["dues"].push_back(request.due);
    json["sents"].push_back(request.sent);
    json["latencies"].push_back(request.times.last);
    json["cached_tokens_of_requests"].push_back(request.cached_tokens ? Json(*request.cached_tokens) : Json());
  }
}

}  // namespace

std::string report_text(const ServingReport& report) {
  std::string text = seeds_lines(report);
  text += row("Failed requests:", report.measures.failed);
  text += cache_lines(report);
  text += steps_line(report);
  text += decode_line(report);
  text += percentile_lines(report.measures);
  return text + counting_lines(report);
}

std::string report_json(const ServingReport& report, const LoadResult* requests) {
  const ServingMeasures& m = report.measures;
  Json json;
  json["backend"] = report.backend;
  json["dataset_name"] = report.dataset;
  // JSON has no infinity; bench_serving's readers take the word.
  json["request_rate"] = std::isinf(report.request_rate) ? Json("inf") : Json(report.request_rate);
  json["max_concurrency"] = report.max_concurrency ? Json(*report.max_concurrency) : Json();
  json["random_input_len"] = report.lengths.input;
  json["random_output_len"] = report.lengths.output;
  json["random_range_ratio"] = report.lengths.range_ratio;
  json["seed"] = report.seed;
  json["model"] = report.model;
  json["duration"] = m.seconds;
  json["completed"] = m.completed;
  json["failed"] = m.failed;
  json["total_input_tokens"] = m.input_tokens;
  json["total_output_tokens"] = m.output_tokens;
  json["total_output_tokens_retokenized"] = report.retokenized ? Json(*report.retokenized) : Json();
  json["request_throughput"] = m.requests_per_second();
  json["input_throughput"] = m.input_throughput();
  json["output_throughput"] = m.output_throughput();
  put_distribution(json, "e2e_latency_ms", m.latency);
  put_distribution(json, "ttft_ms", m.first);
  put_distribution(json, "tpot_ms", m.per_token);
  put_distribution(json, "itl_ms", m.between);
  put_distribution(json, "send_delay_ms", m.send_delay);
  json["concurrency"] = m.concurrency;
  json["accept_length"] = report.accept_length ? Json(*report.accept_length) : Json();
  json["cached_tokens"] = m.cached_tokens ? Json(*m.cached_tokens) : Json();
  json["cache_flushed"] = report.cache_flushed;
  json["cache_flagged"] = cached_share(m) > kNotableCacheShare;
  json["requests_with_estimated_itl"] = m.estimated;
  json["requests_without_usage"] = m.uncounted;
  json["decode_steps_before"] = steps_json(report.before.steps);
  json["decode_steps_after"] = steps_json(report.after.steps);
  const std::optional<DecodeWork> work = decode_work(report);
  json["decode_tokens"] = work ? Json(work->tokens) : Json();
  json["decode_step_seconds"] = work ? Json(work->step_seconds) : Json();
  json["decode_wall_seconds"] = work ? Json(work->wall_seconds) : Json();
  if (requests != nullptr) put_details(json, *requests);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace reprise::client
