#include "cli/bench_limits.h"

#include <algorithm>

#include "cli/bench.h"
#include "ops/measure.h"

namespace reprise::cli {
namespace {

/// Factors of one core for products of bytes: a pass takes some milliseconds.
constexpr int64_t kFactorsOfCore = 128;

Tensor filled(device::Device& device, int64_t words, unsigned char value) {
  const TensorMeta meta(DType::kI32, {words});
  Tensor tensor(meta, device.allocate(meta.contiguous_bytes()));
  device.fill(tensor.data(), value, meta.contiguous_bytes());
  return tensor;
}

}  // namespace

BenchLimits::BenchLimits(Session& session)
    : stream_(session.device().create_stream({0, "limits"})),
      dispatcher_(session.registry(), session.device(), *stream_),
      context_(dispatcher_),
      weight_bytes_(session.model()->decode_weight_bytes()),
      layers_(session.model()->layer_products()),
      head_(session.model()->head_products()),
      model_dtype_(session.model()->info().dtype),
      buffer_(filled(session.device(), static_cast<int64_t>(weight_bytes_ / sizeof(int32_t)), 0x5A)),
      factors_(filled(session.device(), kFactorsOfCore * session.device().capabilities().cores, 0)) {}

double BenchLimits::seconds_of_read() {
  return seconds_of([&] {
    ops::read_all(context_, buffer_);
    stream_->synchronize();
  });
}

/// Wider elements take longer: fewer of them take as long.
Tensor BenchLimits::factors_for(DType dtype) const {
  return factors_.with_meta(TensorMeta(DType::kI32, {factors_.size(0) / static_cast<int64_t>(size_of(dtype))}));
}

double BenchLimits::seconds_of_products(DType dtype) {
  return seconds_of([&] {
    ops::multiply_adds(context_, factors_for(dtype), dtype);
    stream_->synchronize();
  });
}

void BenchLimits::begin() {
  for (std::vector<double>* seconds : {&read_seconds_, &floating_seconds_, &int8_seconds_}) seconds->clear();
}

void BenchLimits::measure(int32_t passes) {
  const auto repeat = [passes](std::vector<double>& seconds, auto pass) {
    pass();
    for (int32_t i = 0; i < passes; ++i) seconds.push_back(pass());
  };
  repeat(read_seconds_, [&] { return seconds_of_read(); });
  if (layers_.floating + head_.floating > 0) {
    repeat(floating_seconds_, [&] { return seconds_of_products(model_dtype_); });
  }
  if (layers_.int8 + head_.int8 > 0) repeat(int8_seconds_, [&] { return seconds_of_products(DType::kI8); });
}

double BenchLimits::read_seconds() const { return median(read_seconds_); }

double BenchLimits::bytes_per_second() const { return static_cast<double>(weight_bytes_) / read_seconds(); }

double BenchLimits::rate(const std::vector<double>& seconds, DType dtype) const {
  if (seconds.empty()) return 0;
  return static_cast<double>(factors_for(dtype).size(0) * ops::kProductsOfFactor) / median(seconds);
}

double BenchLimits::step_seconds(int64_t tokens, int64_t rows) const {
  const auto seconds = [&](int64_t of_token, int64_t of_row, double rate) {
    return rate == 0 ? 0 : static_cast<double>(tokens * of_token + rows * of_row) / rate;
  };
  return std::max(read_seconds(), seconds(layers_.floating, head_.floating, floating_rate()) +
                                      seconds(layers_.int8, head_.int8, int8_rate()));
}

std::string BenchLimits::to_text() const {
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
