#include "cli/bench_limits.h"

#include <algorithm>

#include "cli/bench.h"

namespace reprise::cli {
BenchLimits::BenchLimits(Session& session)
    : stream_(session.device().create_stream({0, "limits"})),
      dispatcher_(session.registry(), session.device(), *stream_),
      context_(dispatcher_),
      weight_bytes_(session.model()->decode_weight_bytes()),
      layers_(session.model()->layer_products()),
      head_(session.model()->head_products()),
      model_dtype_(session.model()->info().dtype) {
  if (session.registry().get("read_all").kernel(session.device().name()) == nullptr) return;
  machine_.emplace(session.device(), *stream_, context_, static_cast<int64_t>(weight_bytes_));
}

void BenchLimits::begin() {
  for (std::vector<double>* seconds : {&read_seconds_, &floating_seconds_, &int8_seconds_}) seconds->clear();
}

void BenchLimits::measure(int32_t passes) {
  if (!machine_) return;
  const auto repeat = [passes](std::vector<double>& seconds, auto pass) {
    pass();
    for (int32_t i = 0; i < passes; ++i) seconds.push_back(pass());
  };
  repeat(read_seconds_, [&] { return machine_->read(); });
  if (layers_.floating + head_.floating > 0) {
    repeat(floating_seconds_, [&] { return machine_->multiply(model_dtype_); });
  }
  if (layers_.int8 + head_.int8 > 0) repeat(int8_seconds_, [&] { return machine_->multiply(DType::kI8); });
}

double BenchLimits::read_seconds() const { return read_seconds_.empty() ? 0 : median(read_seconds_); }

double BenchLimits::bytes_per_second() const { return static_cast<double>(weight_bytes_) / read_seconds(); }

double BenchLimits::rate(const std::vector<double>& seconds, DType dtype) const {
  if (seconds.empty()) return 0;
  return static_cast<double>(machine_->products(dtype)) / median(seconds);
}

double BenchLimits::step_seconds(int64_t tokens, int64_t rows, double read, double floating, double int8) const {
  const auto seconds = [&](int64_t of_token, int64_t of_row, double rate) {
    return rate == 0 ? 0 : static_cast<double>(tokens * of_token + rows * of_row) / rate;
  };
  return std::max(read, seconds(layers_.floating, head_.floating, floating) + seconds(layers_.int8, head_.int8, int8));
}

double BenchLimits::step_seconds(int64_t tokens, int64_t rows) const {
  return step_seconds(tokens, rows, read_seconds(), floating_rate(), int8_rate());
}

double BenchLimits::best_step_seconds(int64_t tokens, int64_t rows) const {
  const auto best = [](const std::vector<double>& seconds) {
    return seconds.empty() ? 0 : *std::min_element(seconds.begin(), seconds.end());
  };
  const auto best_rate = [&](const std::vector<double>& seconds, DType dtype) {
    return seconds.empty() ? 0 : static_cast<double>(machine_->products(dtype)) / best(seconds);
  };
  return step_seconds(tokens, rows, best(read_seconds_), best_rate(floating_seconds_, model_dtype_),
                      best_rate(int8_seconds_, DType::kI8));
}

std::string BenchLimits::to_text() const {
  if (!machine_) return "limits are not measured: this device has no operators for that\n";
  std::string text =
      fmt::format("bandwidth: {:.2f} GB/s, reading {:.1f} MB, as much as the weights, in {:.3f} ms",
                  bytes_per_second() / 1e9, static_cast<double>(weight_bytes_) / 1e6, read_seconds() * 1e3);
  if (!floating_seconds_.empty()) {
    text += fmt::format("; products of {}: {:.1f} G/s", name_of(model_dtype_), floating_rate() / 1e9);
  }
  if (!int8_seconds_.empty()) text += fmt::format("; of int8: {:.1f} G/s", int8_rate() / 1e9);
  return text + "\n";
}

}  // namespace reprise::cli
