#include "cli/machine_passes.h"

#include "cli/bench.h"
#include "ops/measure.h"

namespace reprise::cli {
namespace {

/// Factors of one core for products of bytes.
constexpr int64_t kFactorsOfCore = 128;

Tensor filled(device::Device& device, int64_t words, unsigned char value) {
  const TensorMeta meta(DType::kI32, {words});
  Tensor tensor(meta, device.allocate(meta.contiguous_bytes()));
  device.fill(tensor.data(), value, meta.contiguous_bytes());
  return tensor;
}

}  // namespace

MachinePasses::MachinePasses(device::Device& device, device::Stream& stream, ops::ForwardContext& context,
                             int64_t bytes)
    : stream_(stream),
      context_(context),
      buffer_(filled(device, bytes / static_cast<int64_t>(sizeof(int32_t)), 0x5A)),
      factors_(filled(device, kFactorsOfCore * device.capabilities().cores, 0)) {}

double MachinePasses::read() {
  return seconds_of([&] {
    ops::read_all(context_, buffer_);
    stream_.synchronize();
  });
}

Tensor MachinePasses::factors_for(DType dtype) const {
  return factors_.with_meta(TensorMeta(DType::kI32, {factors_.size(0) / static_cast<int64_t>(size_of(dtype))}));
}

double MachinePasses::multiply(DType dtype) {
  const Tensor factors = factors_for(dtype);
  return seconds_of([&] {
    ops::multiply_adds(context_, factors, dtype);
    stream_.synchronize();
  });
}

int64_t MachinePasses::products(DType dtype) const { return factors_for(dtype).size(0) * ops::kProductsOfFactor; }

}  // namespace reprise::cli
