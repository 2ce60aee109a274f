#include "ops/device_under_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "ops/host_tensor.h"
#include "ops/int8_linear.h"
#include "ops/linear.h"
#include "ops/reference_dispatcher.h"
#include "ops/weight_stack.h"

namespace reprise::ops {
namespace {

std::vector<HostList> lists_of(const ConformanceCase& one) {
  return std::vector<HostList>(one.lists.begin(), one.lists.end());
}

Results results_of(const OpDef& op, const std::vector<Tensor>& inputs, std::vector<Tensor> outputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (op.schema().tensors[i].mutated && inputs[i].defined()) outputs.push_back(inputs[i]);
  }
  return outputs;
}

bool is_float(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16; }

bool within(float expected, float got, const Bound& bound) {
  if (std::memcmp(&expected, &got, sizeof(float)) == 0) return true;
  if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) && std::isnan(got);
  if (bound.absolute == 0 && bound.relative == 0) return false;
  return std::abs(static_cast<double>(expected) - got) <= bound.absolute + bound.relative * std::abs(expected);
}

}  // namespace

Results run_reference(const Registry& registry, const ConformanceCase& one) {
  const OpDef& op = registry.get(one.op);
  ReferenceDispatcher dispatcher(registry);
  std::vector<Tensor> inputs;
  for (const Tensor& input : one.inputs) inputs.push_back(input.defined() ? clone_with(input, std::memcpy) : input);
  std::vector<Tensor> outputs(op.schema().outputs.size());
  dispatcher.dispatch(one.op, inputs, lists_of(one), one.attributes, outputs, std::source_location::current());
  return results_of(op, inputs, std::move(outputs));
}

DeviceUnderTest::DeviceUnderTest(
    std::unique_ptr<device::Device> device,
    const std::function<void(Registry& registry, device::Device& device)>& register_kernels)
    : device_(std::move(device)), stream_(device_->create_stream()) {
  register_kernels(registry_, *device_);
}

Results DeviceUnderTest::run(const ConformanceCase& one) {
  const OpDef& op = registry_.get(one.op);
  std::vector<Tensor> inputs;
  for (const Tensor& input : one.inputs) inputs.push_back(input.defined() ? upload(input) : input);
  if (one.pack_weight && inputs[1].rank() == 2 && !one.op.ends_with("moe_experts")) inputs[1] = pack(inputs[1]);
  for (Tensor& input : inputs) {
    if (one.pack_weight && input.defined() && input.rank() == 3 && &input != &inputs[0]) input = pack(input);
  }
  std::vector<Tensor> outputs(op.schema().outputs.size());
  dispatcher_.dispatch(one.op, inputs, lists_of(one), one.attributes, outputs, std::source_location::current());
  Results results;
  for (const Tensor& result : results_of(op, inputs, std::move(outputs))) results.push_back(download(result));
  return results;
}

Tensor DeviceUnderTest::pack(const Tensor& weight) {
  if (weight.rank() == 2) return pack_linear_weight(context_, weight);
  WeightStack stack(*device_, weight.size(0));
  for (int64_t i = 0; i < weight.size(0); ++i) {
    const TensorMeta one(weight.dtype(), {weight.shape()[1], weight.shape()[2]});
    const Tensor packed =
        pack_linear_weight(context_, weight.with_meta(one, static_cast<size_t>(i) * one.contiguous_bytes()));
    stream_->synchronize();
    stack.add(packed);
  }
  return stack.finish();
}

Tensor DeviceUnderTest::upload(const Tensor& host) {
  const size_t bytes = span_bytes(host.meta());
  const std::shared_ptr<Storage> storage = device_->allocate(std::max<size_t>(bytes, 1));
  if (bytes > 0) device_->copy(storage->data(), host.data(), bytes, device::CopyKind::kHostToDevice);
  return Tensor(host.meta(), storage);
}

Tensor DeviceUnderTest::download(const Tensor& tensor) {
  if (!tensor.format().is_plain()) return unpack(tensor);
  stream_->synchronize();
  return clone_with(tensor, [&](void* to, const void* from, size_t bytes) {
    device_->copy(to, from, bytes, device::CopyKind::kDeviceToHost);
  });
}

/// A packed weight [N, K] in plain memory, without knowing its format: multiplying the identity by it is exact.
Tensor DeviceUnderTest::unpack(const Tensor& weight) {
  const int64_t outputs = weight.size(0);
  const int64_t inputs = weight.size(1);
  if (weight.dtype() == DType::kI8) return unpack_int8(weight);
  const Tensor identity = empty_tensor(DType::kF32, {inputs, inputs});
  for (int64_t i = 0; i < inputs; ++i) identity.data_as<float>()[i * inputs + i] = 1.0f;
  const Tensor transposed = download(linear(context_, upload(identity), {.weight = weight, .bias = {}}));
  const Tensor plain = empty_tensor(DType::kF32, {outputs, inputs});
  for (int64_t n = 0; n < outputs; ++n) {
    for (int64_t k = 0; k < inputs; ++k) {
      plain.data_as<float>()[n * inputs + k] = transposed.data_as<float>()[k * outputs + n];
    }
  }
  return plain;
}

Tensor DeviceUnderTest::unpack_int8(const Tensor& weight) {
  const int64_t outputs = weight.size(0);
  const int64_t inputs = weight.size(1);
  const Tensor identity = empty_tensor(DType::kI8, {inputs, inputs});
  for (int64_t i = 0; i < inputs; ++i) identity.data_as<int8_t>()[i * inputs + i] = 1;
  const Tensor ones = float_tensor(DType::kF32, {outputs}, std::vector<float>(static_cast<size_t>(outputs), 1.0f));
  const Int8LinearTerms terms{.scale = upload(ones), .row_scales = {}, .quant_bias = {}, .bias = {}};
  const Tensor transposed = download(int8_linear(context_, upload(identity), weight, terms, DType::kF32));
  const Tensor plain = empty_tensor(DType::kI8, {outputs, inputs});
  for (int64_t n = 0; n < outputs; ++n) {
    for (int64_t k = 0; k < inputs; ++k) {
      plain.data_as<int8_t>()[n * inputs + k] = static_cast<int8_t>(transposed.data_as<float>()[k * outputs + n]);
    }
  }
  return plain;
}

void expect_within(const Tensor& expected, const Tensor& got, const Bound& bound) {
  ASSERT_EQ(got.shape(), expected.shape());
  if (!is_float(expected.dtype())) {
    ASSERT_TRUE(expected.is_contiguous() && got.is_contiguous());
    if (expected.dtype() == DType::kI8 && bound.absolute > 0) {
      for (int64_t i = 0; i < expected.shape().elements(); ++i) {
        const int difference = expected.data_as<int8_t>()[i] - got.data_as<int8_t>()[i];
        ASSERT_LE(std::abs(difference), bound.absolute) << "element " << i << " of " << got.meta().to_string();
      }
      return;
    }
    EXPECT_EQ(std::memcmp(expected.data(), got.data(), expected.meta().contiguous_bytes()), 0);
    return;
  }
  const std::vector<float> expected_values = values_of(expected);
  const std::vector<float> values = values_of(got);
  ASSERT_EQ(values.size(), expected_values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (within(expected_values[i], values[i], bound)) continue;
    FAIL() << "element " << i << " of " << got.meta().to_string() << " is " << values[i] << ", expected "
           << expected_values[i];
  }
}

}  // namespace reprise::ops
