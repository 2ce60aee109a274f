#include "emulator/runtime/fault.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace reprise::emulator {
namespace {

constexpr size_t kAnyCounter = kCallKinds;
constexpr size_t kKernelCounter = kCallKinds + 1;

struct KindEntry {
  std::string_view name;
  aclError code;  // what a call of the kind answers unless the rule names a code
};

// By value of CallKind.
constexpr std::array<KindEntry, kCallKinds> kKinds = {{
    {"other", ACL_SUCCESS},
    {"context", ACL_ERROR_RT_INVALID_DEVICEID},
    {"malloc", ACL_ERROR_RT_MEMORY_ALLOCATION},
    {"stream", ACL_ERROR_RT_NO_STREAM_RESOURCE},
    {"event", ACL_ERROR_RT_NO_EVENT_RESOURCE},
    {"copy", ACL_ERROR_RT_INTERNAL_ERROR},
    {"launch", ACL_ERROR_RT_STREAM_TASK_FULL},
    {"capture", ACL_ERROR_RT_NO_STREAM_RESOURCE},
    {"replay", ACL_ERROR_RT_MODEL_EXECUTE},
    {"update", ACL_ERROR_RT_INTERNAL_ERROR},
    {"sync", ACL_ERROR_RT_INTERNAL_ERROR},
    {"operator", ACLNN_ERR_INNER},
}};

template <typename Number>
bool parse_number(std::string_view text, Number& number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

std::string grammar() {
  std::string names;
  for (size_t kind = 1; kind < kCallKinds; ++kind) names += fmt::format("{}, ", kKinds[kind].name);
  return fmt::format("write WHAT:N or WHAT:N=CODE, separated by commas; WHAT is one of {}any, device, timeout", names);
}

// The counter that `what` watches, if there is such a word.
std::optional<size_t> counter_of(std::string_view what) {
  if (what == "any") return kAnyCounter;
  if (what == "device" || what == "timeout") return kKernelCounter;
  for (size_t kind = 1; kind < kCallKinds; ++kind) {
    if (kKinds[kind].name == what) return kind;
  }
  return std::nullopt;
}

}  // namespace

std::string_view name_of(CallKind kind) { return kKinds[static_cast<size_t>(kind)].name; }

FaultPlan& FaultPlan::instance() {
  // Workers may ask while the process ends.
  static auto* plan = new FaultPlan;
  return *plan;
}

Status FaultPlan::parse(std::string_view text, std::vector<Rule>& rules) {
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const size_t colon = item.find(':');
    const std::string_view what = item.substr(0, colon);
    const std::optional<size_t> counter = counter_of(what);
    Rule rule;
    bool good = colon != std::string_view::npos && counter.has_value();
    if (good) {
      std::string_view number = item.substr(colon + 1);
      if (const size_t equals = number.find('='); equals != std::string_view::npos) {
        aclError code = 0;
        good = parse_number(number.substr(equals + 1), code) && code != ACL_SUCCESS;
        rule.code = code;
        number = number.substr(0, equals);
      }
      good = parse_number(number, rule.number) && rule.number > 0 && good;
    }
    if (!good) return {ACL_ERROR_INVALID_PARAM, fmt::format("REPRISE_ACL_FAULT: bad item '{}'; {}", item, grammar())};
    rule.counter = *counter;
    rule.never_ends = what == "timeout";
    rule.text = item;
    rules.push_back(std::move(rule));
  }
  return {};
}

Status FaultPlan::load(std::string_view text) {
  std::vector<Rule> rules;
  if (Status status = parse(text, rules); !status.ok()) return status;
  std::lock_guard lock(mutex_);
  rules_ = std::move(rules);
  for (auto& counter : counters_) counter = 0;
  return {};
}

Status FaultPlan::load_environment() {
  const char* text = std::getenv("REPRISE_ACL_FAULT");
  return load(text ? text : "");
}

const FaultPlan::Rule* FaultPlan::find(size_t counter, uint64_t number) const {
  for (const Rule& rule : rules_) {
    if (rule.counter == counter && rule.number == number) return &rule;
  }
  return nullptr;
}

std::optional<Status> FaultPlan::on_call(CallKind kind) {
  if (kind == CallKind::kOther) return std::nullopt;
  const auto index = static_cast<size_t>(kind);
  const uint64_t number = ++counters_[index];
  const uint64_t number_of_any = ++counters_[kAnyCounter];
  std::lock_guard lock(mutex_);
  const Rule* rule = find(index, number);
  if (!rule) rule = find(kAnyCounter, number_of_any);
  if (!rule) return std::nullopt;
  return Status(rule->code.value_or(kKinds[index].code), fmt::format("injected fault ({})", rule->text));
}

std::optional<KernelFault> FaultPlan::on_kernel() {
  const uint64_t number = ++counters_[kKernelCounter];
  std::lock_guard lock(mutex_);
  const Rule* rule = find(kKernelCounter, number);
  if (!rule) return std::nullopt;
  if (rule->never_ends) {
    return KernelFault{KernelFault::Kind::kNeverEnds, rule->code.value_or(ACL_ERROR_RT_AICORE_TIMEOUT)};
  }
  return KernelFault{KernelFault::Kind::kError, rule->code.value_or(ACL_ERROR_RT_AICORE_EXCEPTION)};
}

uint64_t FaultPlan::count(CallKind kind) const { return counters_[static_cast<size_t>(kind)]; }
uint64_t FaultPlan::count_any() const { return counters_[kAnyCounter]; }
uint64_t FaultPlan::count_kernels() const { return counters_[kKernelCounter]; }

std::string FaultPlan::counts_as_json() const {
  std::string text = "{";
  for (size_t kind = 1; kind < kCallKinds; ++kind) {
    text += fmt::format("\"{}\": {}, ", kKinds[kind].name, counters_[kind].load());
  }
  return text + fmt::format("\"any\": {}, \"kernel\": {}}}\n", count_any(), count_kernels());
}

void FaultPlan::tell_unused() {
  std::lock_guard lock(mutex_);
  for (const Rule& rule : rules_) {
    const uint64_t count = counters_[rule.counter];
    if (count >= rule.number) continue;
    std::fprintf(stderr, "REPRISE_ACL_FAULT: %s never happened: there were only %llu\n", rule.text.c_str(),
                 static_cast<unsigned long long>(count));
  }
  rules_.clear();
}

Status FaultPlan::write_counts() const {
  const char* path = std::getenv("REPRISE_ACL_FAULT_COUNT");
  if (!path || !*path) return {};
  std::FILE* file = std::fopen(path, "w");
  if (!file) return {ACL_ERROR_INVALID_PARAM, fmt::format("REPRISE_ACL_FAULT_COUNT: cannot write '{}'", path)};
  const std::string text = counts_as_json();
  const bool good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !good) {
    return {ACL_ERROR_INVALID_PARAM, fmt::format("REPRISE_ACL_FAULT_COUNT: cannot write '{}'", path)};
  }
  return {};
}

}  // namespace reprise::emulator
