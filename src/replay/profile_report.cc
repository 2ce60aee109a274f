#include "replay/profile_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/escape_json.h"

namespace reprise::replay {
namespace {

constexpr size_t kRows = 10;
constexpr size_t kNameWidth = 55, kNumberWidth = 12, kShapesWidth = 80;

std::string cut(const std::string& text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 3) + "...";
}

/// "94.192ms", in the unit that torch's profiler would take.
std::string time_text(int64_t nanoseconds) {
  const auto microseconds = static_cast<double>(nanoseconds) / 1e3;
  if (microseconds >= 1e6) return fmt::format("{:.3f}s", microseconds / 1e6);
  if (microseconds >= 1e3) return fmt::format("{:.3f}ms", microseconds / 1e3);
  return fmt::format("{:.3f}us", microseconds);
}

std::string share_text(int64_t part, int64_t whole) {
  return fmt::format("{:.2f}%", whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole));
}

int64_t average(int64_t sum, int64_t count) { return count == 0 ? 0 : sum / count; }

std::string json_text(std::string_view text) { return fmt::format("\"{}\"", escape_json(text)); }

constexpr const char* kind_name(device::MemoryRecord::Kind kind) {
  switch (kind) {
    case device::MemoryRecord::Kind::kAllocate:
      return "allocate";
    case device::MemoryRecord::Kind::kFree:
      return "free";
    case device::MemoryRecord::Kind::kCommit:
      return "commit";
  }
  return "";
}

}  // namespace

ProfileReport::ProfileReport(const Profile& profile, std::vector<ops::LaunchLabel> labels)
    : profile_(profile), labels_(std::move(labels)) {
  add_rows();
  add_idle();
}

const ops::LaunchLabel* ProfileReport::label(uint16_t number) const {
  return number == 0 || number > labels_.size() ? nullptr : &labels_[number - 1];
}

void ProfileReport::add_rows() {
  enum class Kind { kHost, kDevice };
  std::map<std::tuple<Kind, std::string, std::string>, ProfileRow> rows;
  std::map<uint16_t, int64_t> device_by_label;
  const auto row_of = [&](Kind kind, std::string name, uint16_t number) -> ProfileRow& {
    const ops::LaunchLabel* known = label(number);
    std::string shapes = known == nullptr ? "[]" : known->shapes;
    ProfileRow& row = rows[{kind, name, shapes}];
    row.name = std::move(name);
    row.shapes = std::move(shapes);
    ++row.calls;
    return row;
  };
  for (const device::WorkRecord& work : profile_.work()) {
    const int64_t took = work.end - work.begin;
    ProfileRow& row = row_of(Kind::kDevice, work.name, work.label);
    row.self_device += took;
    row.total_device += took;
    device_total_ += took;
    device_by_label[work.label] += took;
  }
  for (const Profile::Span& span : profile_.spans()) {
    const int64_t took = span.end - span.begin;
    // Steps of every size are rows of their own in the report of idle time.
    ProfileRow& row = row_of(Kind::kHost, span.name, span.label);
    row.total_host += took;
    row.self_host += took - span.inner;
    host_total_ += took - span.inner;
    if (span.label != 0) row.total_device = device_by_label[span.label];
  }
  for (auto& [_, row] : rows) rows_.push_back(std::move(row));
}

/// A device may be timed by nobody: then nothing is known of when it was idle.
bool ProfileReport::lacks_kernel_times() const { return profile_.work().empty() && !profile_.spans().empty(); }

void ProfileReport::add_idle() {
  if (lacks_kernel_times()) return;
  // What ran, as intervals in order that do not overlap.
  std::vector<std::pair<int64_t, int64_t>> busy;
  for (const device::WorkRecord& work : profile_.work()) busy.emplace_back(work.begin, work.end);
  std::sort(busy.begin(), busy.end());
  std::vector<std::pair<int64_t, int64_t>> merged;
  for (const auto& interval : busy) {
    if (!merged.empty() && interval.first <= merged.back().second) {
      merged.back().second = std::max(merged.back().second, interval.second);
    } else {
      merged.push_back(interval);
    }
  }
  std::map<std::string, std::vector<std::pair<int64_t, int64_t>>> steps;  // by name: nanoseconds, of them busy
  for (const Profile::Span& span : profile_.spans()) {
    if (!is_step_span(span.name)) continue;
    int64_t sum = 0;
    const auto first = std::lower_bound(merged.begin(), merged.end(), span.begin,
                                        [](const auto& interval, int64_t at) { return interval.second <= at; });
    for (auto interval = first; interval != merged.end() && interval->first < span.end; ++interval) {
      sum += std::min(interval->second, span.end) - std::max(interval->first, span.begin);
    }
    steps[span.name].emplace_back(span.end - span.begin, sum);
  }
  for (auto& [name, times] : steps) {
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    idle_.push_back({name, static_cast<int64_t>(times.size()), static_cast<double>(middle->first) / 1e6,
                     static_cast<double>(middle->second) / 1e6});
  }
}

std::string ProfileReport::table(std::vector<ProfileRow> rows) const {
  constexpr std::array<const char*, 10> kNumbers = {"Self CPU %",      "Self CPU",    "CPU total %",   "CPU total",
                                                    "CPU time avg",    "Self Device", "Self Device %", "Device total",
                                                    "Device time avg", "# of Calls"};
  // A column is as wide as its title where that is wider than usual.
  std::array<size_t, 10> widths{};
  std::string dashes = std::string(kNameWidth, '-');
  std::string header = fmt::format("{:>{}}", "Name", kNameWidth);
  for (size_t i = 0; i < kNumbers.size(); ++i) {
    widths[i] = std::max(kNumberWidth, std::string_view(kNumbers[i]).size());
    dashes += "  " + std::string(widths[i], '-');
    header += fmt::format("  {:>{}}", kNumbers[i], widths[i]);
  }
  dashes += "  " + std::string(kShapesWidth, '-') + "\n";
  header += fmt::format("  {:>{}}\n", "Input Shapes", kShapesWidth);
  std::string text = dashes + header + dashes;
  rows.resize(std::min(rows.size(), kRows));
  for (const ProfileRow& row : rows) {
    const std::array<std::string, 10> values = {
        share_text(row.self_host, host_total_),          time_text(row.self_host),
        share_text(row.total_host, host_total_),         time_text(row.total_host),
        time_text(average(row.total_host, row.calls)),   time_text(row.self_device),
        share_text(row.self_device, device_total_),      time_text(row.total_device),
        time_text(average(row.total_device, row.calls)), fmt::format("{}", row.calls)};
    text += fmt::format("{:>{}}", cut(row.name, kNameWidth), kNameWidth);
    for (size_t i = 0; i < values.size(); ++i) text += fmt::format("  {:>{}}", values[i], widths[i]);
    text += fmt::format("  {:>{}}\n", cut(row.shapes, kShapesWidth), kShapesWidth);
  }
  return text + dashes +
         fmt::format("Self CPU time total: {}\nSelf Device time total: {}\n", time_text(host_total_),
                     lacks_kernel_times() ? "not known" : time_text(device_total_));
}

std::string ProfileReport::tables() const {
  std::vector<ProfileRow> by_device = rows_, by_host = rows_;
  const auto sort_by = [](std::vector<ProfileRow>& rows, int64_t ProfileRow::* time) {
    std::stable_sort(rows.begin(), rows.end(),
                     [time](const ProfileRow& a, const ProfileRow& b) { return a.*time > b.*time; });
  };
  sort_by(by_device, &ProfileRow::self_device);
  sort_by(by_host, &ProfileRow::total_host);
  std::string text;
  if (lacks_kernel_times()) {
    text = "This device gives no times of kernels: its columns are 0, and how long it was idle is not known.\n";
  } else {
    text = "Sorted by Device Time:\n" + table(std::move(by_device));
  }
  text += "\nSorted by CPU Time:\n" + table(std::move(by_host)) + "\n";
  for (const StepIdle& step : idle_) {
    text += fmt::format("Idle share of a {}: {:.1f}% ({:.3f} ms, kernels {:.3f} ms; the middle one of {})\n", step.name,
                        100 * step.idle_share(), step.milliseconds, step.kernel_milliseconds, step.steps);
  }
  if (profile_.dropped() > 0) {
    text += fmt::format("{} records came when there was no room for more\n", profile_.dropped());
  }
  return text;
}

std::string ProfileReport::trace_json() const {
  const auto microseconds = [&](int64_t at) { return static_cast<double>(at - profile_.begin()) / 1e3; };
  std::string json = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  json += R"({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "host"}},)"
          "\n";
  json += R"({"ph": "M", "pid": 2, "name": "process_name", "args": {"name": "device"}})";
  std::set<std::pair<int, uint32_t>> named;
  const auto add = [&](int process, uint32_t thread, const std::string& name, int64_t begin, int64_t end,
                       uint16_t number) {
    if (named.emplace(process, thread).second) {
      json += fmt::format(
          ",\n{{\"ph\": \"M\", \"pid\": {}, \"tid\": {}, \"name\": \"thread_name\", \"args\": "
          "{{\"name\": \"{} {}\"}}}}",
          process, thread, process == 1 ? "thread" : "lane", thread);
    }
    json += fmt::format(
        ",\n{{\"ph\": \"X\", \"cat\": \"{}\", \"pid\": {}, \"tid\": {}, \"name\": {}, \"ts\": {:.3f}, \"dur\": {:.3f}",
        process == 1 ? "host" : "device", process, thread, json_text(name), microseconds(begin),
        static_cast<double>(end - begin) / 1e3);
    if (const ops::LaunchLabel* known = label(number)) {
      json += fmt::format(", \"args\": {{\"operator\": {}, \"Input Dims\": {}}}", json_text(known->op),
                          json_text(known->shapes));
    }
    json += "}";
  };
  for (const Profile::Span& span : profile_.spans()) {
    add(1, span.thread, span.name, span.begin, span.end, span.label);
  }
  for (const device::WorkRecord& work : profile_.work()) {
    add(2, work.lane, work.name, work.begin, work.end, work.label);
  }
  for (const Profile::Memory& change : profile_.memory()) {
    json += fmt::format(
        ",\n{{\"ph\": \"C\", \"cat\": \"device\", \"pid\": 2, \"name\": \"allocated bytes\", \"ts\": {:.3f}, \"args\": "
        "{{\"bytes\": {}}}}}",
        microseconds(change.at), change.total);
  }
  return json + "\n]}\n";
}

std::string ProfileReport::memory_json() const {
  std::string json =
      fmt::format("{{\"allocated_before\": {}, \"milliseconds\": {:.3f}, \"events\": [", profile_.allocated_before(),
                  static_cast<double>(profile_.end() - profile_.begin()) / 1e6);
  bool first = true;
  for (const Profile::Memory& change : profile_.memory()) {
    json += fmt::format(
        "{}\n{{\"time_us\": {:.3f}, \"action\": \"{}\", \"address\": \"{:#x}\", \"bytes\": {}, "
        "\"allocated\": {}}}",
        first ? "" : ",", static_cast<double>(change.at - profile_.begin()) / 1e3, kind_name(change.kind),
        reinterpret_cast<uintptr_t>(change.address), change.bytes, change.total);
    first = false;
  }
  return json + "\n]}\n";
}

}  // namespace reprise::replay
