#include "compile/trace_general.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"

namespace reprise::compile {
namespace {

/// What of an argument may be symbolic.
std::optional<int64_t> dynamic_size(const MethodSpec& spec, std::span<const Argument> arguments, size_t index) {
  const auto argument = static_cast<int32_t>(index);
  switch (spec.kinds[index]) {
    case ArgumentKind::kTensor:
      return read_integer({Quantity::Kind::kSize, argument, 0}, arguments);
    case ArgumentKind::kHostList:
      return read_integer({Quantity::Kind::kLength, argument, 0}, arguments);
    case ArgumentKind::kDimension:
      return read_integer({Quantity::Kind::kValue, argument, 0}, arguments);
    default:
      return std::nullopt;
  }
}

/// Dynamic arguments of one size: operators that ask for equal sizes may need all of them symbolic, or none.
std::vector<std::vector<size_t>> groups_of_equal_size(const MethodSpec& spec, std::span<const Argument> arguments,
                                                      const DynamicArguments& dynamic) {
  std::map<int64_t, std::vector<size_t>> groups;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!dynamic.dynamic[i]) continue;
    if (const auto size = dynamic_size(spec, arguments, i)) groups[*size].push_back(i);
  }
  std::vector<std::vector<size_t>> result;
  for (auto& [_, group] : groups) result.push_back(std::move(group));
  // In the order of the arguments, so that traces of other sizes make the same choices.
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace

GeneralTrace trace_general(const ops::Registry& registry, const MethodSpec& spec, std::span<const Argument> arguments,
                           const DynamicArguments& dynamic, bool frozen_parameters, int64_t& runs) {
  const auto attempt = [&](const DynamicArguments& wanted) {
    ++runs;
    return GeneralTrace{trace_method(registry, spec, arguments, wanted, frozen_parameters), wanted};
  };
  try {
    return attempt(dynamic);
  } catch (const Error& error) {
    const bool any = std::find(dynamic.dynamic.begin(), dynamic.dynamic.end(), true) != dynamic.dynamic.end();
    // Shapes that do not fit, or sizes that only numbers can be computed with, such as the sum of two symbols.
    const bool by_sizes = error.code() == ErrorCode::kInvalidArgument || error.code() == ErrorCode::kUnsupported;
    if (!any || !by_sizes) throw;
  }
  const std::vector<bool> nowhere(arguments.size(), false);
  GeneralTrace best = attempt({.dynamic = nowhere, .own_symbol = nowhere});
  for (const std::vector<size_t>& group : groups_of_equal_size(spec, arguments, dynamic)) {
    DynamicArguments wanted = best.dynamic;
    for (const size_t argument : group) wanted.dynamic[argument] = true;
    try {
      best = attempt(wanted);
    } catch (const Error& error) {
      for (const size_t argument : group) {
        log_info("{}: the size of {} stays a number: {}", spec.name, spec.names[argument], error.message());
      }
    }
  }
  return best;
}

}  // namespace reprise::compile
