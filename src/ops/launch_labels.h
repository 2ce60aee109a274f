#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ops/op_def.h"
#include "tensor/tensor.h"

namespace reprise::ops {

/// What an operator call is, as profiles group it.
struct LaunchLabel {
  std::string op;
  std::string shapes;  ///< of the inputs: "[[8, 1024], [3072, 1024]]"; an absent input is []
  friend auto operator<=>(const LaunchLabel&, const LaunchLabel&) = default;
};

/// Numbers for operator calls, which their launches carry (device::Stream::annotate): equal operators with equal input
/// shapes have equal numbers. Thread-safe.
class LaunchLabels {
 public:
  /// 0 once all 65,535 numbers are taken.
  uint16_t of(const OpDef& op, std::span<const Tensor> inputs);
  /// By number, less one.
  std::vector<LaunchLabel> all() const;

 private:
  mutable std::mutex mutex_;
  std::map<LaunchLabel, uint16_t> numbers_;
};

}  // namespace reprise::ops
