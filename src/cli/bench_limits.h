#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cli/machine_passes.h"
#include "cli/session.h"
#include "ops/eager_dispatcher.h"

namespace reprise::cli {

/// The least time that a step can take on this machine, from what the same threads read and multiply in the same run.
/// A device without operators for that has no limits: all times and rates are 0.
class BenchLimits {
 public:
  explicit BenchLimits(Session& session);

  /// Forgets what was measured: what is compared is measured in the same rounds.
  void begin();
  /// So many passes over memory as large as the weights that a token reads, and over the multipliers of each kind that
  /// the model uses. One more before them is not counted.
  void measure(int32_t passes);

  size_t weight_bytes() const { return weight_bytes_; }
  /// The time of a pass over memory.
  double read_seconds() const;
  double bytes_per_second() const;
  /// Multiply-adds per second; 0 for what the model does not use.
  double floating_rate() const { return rate(floating_seconds_, model_dtype_); }
  double int8_rate() const { return rate(int8_seconds_, DType::kI8); }

  /// The least time of a step of `tokens` tokens, `rows` of which logits are wanted: its weights are read, and every
  /// product is made. Of experts those of one token are read at least.
  double step_seconds(int64_t tokens, int64_t rows) const;
  /// The same by the fastest passes in place of the medians: what the machine has shown that it can do.
  double best_step_seconds(int64_t tokens, int64_t rows) const;
  /// "bandwidth: 40.00 GB/s, ...; products: 235.0 Gmadd/s bfloat16": a line.
  std::string to_text() const;

 private:
  double rate(const std::vector<double>& seconds, DType dtype) const;
  double step_seconds(int64_t tokens, int64_t rows, double read, double floating, double int8) const;

  std::unique_ptr<device::Stream> stream_;
  ops::EagerDispatcher dispatcher_;
  ops::ForwardContext context_;
  size_t weight_bytes_;
  model::WeightProducts layers_, head_;
  DType model_dtype_;
  std::optional<MachinePasses> machine_;
  std::vector<double> read_seconds_, floating_seconds_, int8_seconds_;
};

}  // namespace reprise::cli
