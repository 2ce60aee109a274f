// What a trace says of itself: keys in words, the limit that is reached, guards.
#include "api/method_variant.h"

#include <fmt/ranges.h>

#include <set>

#include "base/error.h"
#include "base/log.h"

namespace reprise::api {

std::vector<MethodVariant::KeyPart> MethodVariant::parts_of(std::span<const int64_t> key) const {
  const std::vector<std::string>& names = state_.spec.names;
  const std::span<const int64_t> symbols = key.first(symbols_.size());
  std::vector<KeyPart> parts;
  const auto take = [&](std::string name, int64_t count) {
    const auto values = key.first(static_cast<size_t>(count));
    parts.push_back({std::move(name), {values.begin(), values.end()}});
    key = key.subspan(values.size());
  };
  for (const compile::Quantity& symbol : traced_.symbols) take(compile::to_text(symbol, names), 1);
  for (size_t i = 0; i < traced_.lists.size(); ++i) {
    if (!list_in_key_[i]) continue;
    const Dim& length = traced_.graph.value(traced_.graph.lists()[i]).length;
    take(names[static_cast<size_t>(traced_.lists[i])], length.at(symbols));
  }
  for (const Input& input : inputs_) {
    if (input.kind != InputKind::kParameter) continue;
    take(fmt::format("address of {}", names[static_cast<size_t>(input.argument)]), 1);
  }
  return parts;
}

std::string MethodVariant::describe_key(std::span<const int64_t> key) const {
  std::string text;
  for (const KeyPart& part : parts_of(key)) {
    const bool address = part.name.starts_with("address");
    const std::string values =
        address ? fmt::format("{:#x}", part.values[0]) : fmt::format("{}", fmt::join(part.values, " "));
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", part.name, values);
  }
  return text.empty() ? "one key" : text;
}

void MethodVariant::report_limit() {
  if (limit_reported_) return;
  limit_reported_ = true;
  std::string varying;
  const std::vector<KeyPart> parts = parts_of(key_);
  for (size_t i = 0; i < parts.size(); ++i) {
    std::set<std::vector<int64_t>> values = {parts[i].values};
    for (const auto& [key, _] : entries_) values.insert(parts_of(key)[i].values);
    if (values.size() == 1) continue;
    varying += fmt::format("{}{} ({} values)", varying.empty() ? "" : ", ", parts[i].name, values.size());
  }
  const auto keys = static_cast<int64_t>(entries_.size());
  if (const int64_t more = captured_graphs() - keys; more > 0) {
    varying += fmt::format("{}what kernels choose for the lists ({} graphs more than keys)",
                           varying.empty() ? "" : ", ", more);
  }
  log_warning(
      "{}: capture_limit of {} graphs is reached, further keys run node by node; what varies: {}. Pass fewer different "
      "values, keep weights where they are, or raise capture_limit",
      state_.spec.name, state_.options.compile.capture_limit, varying);
}

std::string MethodVariant::guards_text() const { return compile::to_text(guards(), state_.spec.names); }

std::string MethodVariant::keys_text() const {
  constexpr std::string_view kKinds[] = {"copied", "bound to the address of the first call",
                                         "written: its address is fixed", "parameter: its address is part of the key"};
  std::string text;
  for (const Input& input : inputs_) {
    text += fmt::format("input {}: {}\n", state_.spec.names[static_cast<size_t>(input.argument)],
                        kKinds[static_cast<size_t>(input.kind)]);
  }
  for (const auto& [argument, address] : traced_.frozen) {
    text += fmt::format("input {}: parameter, frozen\n", state_.spec.names[static_cast<size_t>(argument)]);
  }
  for (size_t i = 0; i < traced_.lists.size(); ++i) {
    text += fmt::format("list {}: {}\n", state_.spec.names[static_cast<size_t>(traced_.lists[i])],
                        list_in_key_[i] ? "part of the key" : "updatable");
  }
  for (const auto& [key, entry] : entries_) {
    text += fmt::format("captured: {}", describe_key(key));
    if (const size_t more = entry.captured->variants.size(); more > 0) {
      text += fmt::format("; {} more for other choices of kernels", more);
    }
    const int64_t eager = entry.captured->eager_nodes();
    if (eager > 0) {
      const int64_t pieces = static_cast<int64_t>(entry.captured->pieces.size()) - eager;
      text += fmt::format("; {} pieces, {} operators run eagerly between them", pieces, eager);
    }
    text += '\n';
  }
  return text;
}

}  // namespace reprise::api
