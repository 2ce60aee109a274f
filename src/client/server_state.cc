#include "client/server_state.h"

#include <charconv>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "client/generation.h"

namespace reprise::client {
namespace {

using Json = nlohmann::ordered_json;

/// Walks over one line of a Prometheus text.
class MetricLine {
 public:
  explicit MetricLine(std::string_view line) : rest_(line) {}

  std::optional<MetricSample> read() {
    MetricSample sample;
    const size_t end = rest_.find_first_of("{ \t");
    if (end == 0 || end == std::string_view::npos) return std::nullopt;
    sample.name = rest_.substr(0, end);
    rest_.remove_prefix(end);
    if (rest_.front() == '{' && !read_labels(sample.labels)) return std::nullopt;
    skip_blanks();
    const std::string number(rest_.substr(0, rest_.find_first_of(" \t\r")));
    char* after = nullptr;
    sample.value = std::strtod(number.c_str(), &after);
    if (number.empty() || *after != '\0') return std::nullopt;
    return sample;
  }

 private:
  void skip_blanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t')) rest_.remove_prefix(1);
  }
  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool read_labels(std::map<std::string, std::string>& labels) {
    take('{');
    for (skip_blanks(); !take('}'); skip_blanks()) {
      const size_t equals = rest_.find('=');
      if (equals == std::string_view::npos) return false;
      const std::string name(rest_.substr(0, equals));
      rest_.remove_prefix(equals + 1);
      std::string value;
      if (!read_quoted(value)) return false;
      labels[name] = std::move(value);
      skip_blanks();
      take(',');
    }
    return true;
  }
  bool read_quoted(std::string& value) {
    if (!take('"')) return false;
    while (!rest_.empty() && rest_.front() != '"') {
      char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == '\\' && !rest_.empty()) {
        c = rest_.front() == 'n' ? '\n' : rest_.front();
        rest_.remove_prefix(1);
      }
      value += c;
    }
    return take('"');
  }

  std::string_view rest_;
};

std::optional<double> number_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

}  // namespace

std::vector<MetricSample> parse_metrics(std::string_view text) {
  std::vector<MetricSample> samples;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    if (std::optional<MetricSample> sample = MetricLine(line).read()) samples.push_back(std::move(*sample));
  }
  return samples;
}

std::optional<std::string> ServerState::model() {
  const HttpResponse response = loop_.fetch({"GET", "/v1/models", {}});
  const Json json = Json::parse(response.body, nullptr, false);
  if (!response.is_success() || !json.is_object() || !json.contains("data")) return std::nullopt;
  const Json& data = json["data"];
  if (!data.is_array() || data.empty() || !data[0].is_object() || !data[0].contains("id")) return std::nullopt;
  const Json& id = data[0]["id"];
  return id.is_string() ? std::optional(id.get<std::string>()) : std::nullopt;
}

ServerInfo ServerState::info() {
  ServerInfo info;
  const HttpResponse response = loop_.fetch({"GET", "/get_server_info", {}});
  const Json json = Json::parse(response.body, nullptr, false);
  if (!response.is_success() || !json.is_object()) return info;
  for (const char* key : {"stream_output", "incremental_streaming_output"}) {
    info.incremental_text = info.incremental_text || (json.contains(key) && json[key] == true);
  }
  if (const std::optional<double> size = number_at(json, "vocab_size")) info.vocabulary = static_cast<int64_t>(*size);
  const auto states = json.find("internal_states");
  if (states != json.end() && states->is_array() && !states->empty() && states->front().is_object()) {
    info.last_throughput = number_at(states->front(), "last_gen_throughput");
    info.accept_length = number_at(states->front(), "avg_spec_accept_length");
  }
  return info;
}

DecodeCounters ServerState::decode_counters() {
  DecodeCounters counters;
  const HttpResponse response = loop_.fetch({"GET", "/metrics", {}});
  if (!response.is_success()) return counters;
  DecodeWork work;
  for (const MetricSample& sample : parse_metrics(response.body)) {
    if (sample.name == "reprise_decode_tokens_total") work.tokens = static_cast<int64_t>(sample.value);
    if (sample.name == "reprise_decode_step_seconds_total") work.step_seconds = sample.value;
    if (sample.name == "reprise_decode_wall_seconds_total") {
      work.wall_seconds = sample.value;
      counters.work.emplace();
    }
    if (sample.name != "reprise_decode_steps_total") continue;
    if (!counters.steps) counters.steps.emplace();
    const auto label = [&](const char* name) {
      const auto found = sample.labels.find(name);
      return found == sample.labels.end() ? std::string() : found->second;
    };
    (*counters.steps)[{label("mode"), label("reason")}] += static_cast<int64_t>(sample.value);
  }
  if (counters.work) counters.work = work;
  return counters;
}

void ServerState::flush_cache() {
  const HttpResponse response = loop_.fetch({"POST", "/flush_cache", {}});
  if (response.status == 404 || response.status == 405) {
    throw Error(ErrorCode::kUnsupported, "the server has no /flush_cache").remedy("leave --flush-cache out");
  }
  if (!response.is_success()) {
    throw Error(ErrorCode::kIo, "the server did not empty its cache (HTTP status {}): {}", response.status,
                error_message(response.body));
  }
}

DecodeSteps difference(const DecodeSteps& later, const DecodeSteps& earlier) {
  DecodeSteps result;
  for (const auto& [key, count] : later) {
    const auto before = earlier.find(key);
    const int64_t moved = count - (before == earlier.end() ? 0 : before->second);
    if (moved != 0) result[key] = moved;
  }
  return result;
}

std::string steps_text(const DecodeSteps& steps) {
  std::map<std::string, int64_t> totals;
  for (const auto& [key, count] : steps) totals[key.first] += count;
  std::string text;
  for (const auto& [mode, total] : totals) {
    if (total == 0) continue;  // servers name what they may count, before it happens
    const auto replayed = steps.find({mode, "replayed"});
    const int64_t count = replayed == steps.end() ? 0 : replayed->second;
    text += fmt::format("{}{}: {} of {} replayed ({:.1f} %)", text.empty() ? "" : "; ", mode, count, total,
                        100.0 * static_cast<double>(count) / static_cast<double>(total));
    for (const auto& [key, others] : steps) {
      if (key.first == mode && key.second != "replayed" && others != 0)
        text += fmt::format(", {} {}", others, key.second);
    }
  }
  return text.empty() ? "none" : text;
}

}  // namespace reprise::client
