// Every operator on the device, with the kernels of every instruction set that this machine has, against its reference.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "device/cpu/cpu_device.h"
#include "kernels/cpu/register_cpu_kernels.h"
#include "ops/conformance_cases.h"
#include "ops/eager_dispatcher.h"
#include "ops/host_tensor.h"
#include "ops/int8_linear.h"
#include "ops/linear.h"
#include "ops/reference_dispatcher.h"
#include "ops/weight_stack.h"

namespace reprise::ops {
namespace {

using kernels::cpu::InstructionSet;

/// What a call leaves: its results, then the arguments that it changes.
using Results = std::vector<Tensor>;

std::vector<HostList> lists_of(const ConformanceCase& one) {
  return std::vector<HostList>(one.lists.begin(), one.lists.end());
}

Results results_of(const OpDef& op, const std::vector<Tensor>& inputs, std::vector<Tensor> outputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (op.schema().tensors[i].mutated && inputs[i].defined()) outputs.push_back(inputs[i]);
  }
  return outputs;
}

Results run_reference(const Registry& registry, const ConformanceCase& one) {
  const OpDef& op = registry.get(one.op);
  ReferenceDispatcher dispatcher(registry);
  std::vector<Tensor> inputs;
  for (const Tensor& input : one.inputs) inputs.push_back(input.defined() ? clone_with(input, std::memcpy) : input);
  std::vector<Tensor> outputs(op.schema().outputs.size());
  dispatcher.dispatch(one.op, inputs, lists_of(one), one.attributes, outputs, std::source_location::current());
  return results_of(op, inputs, std::move(outputs));
}

/// One device with its kernels, and calls on it.
class DeviceUnderTest {
 public:
  DeviceUnderTest(InstructionSet set, device::cpu::CpuOptions options)
      : device_(device::cpu::create_cpu_device(options)), stream_(device_->create_stream()) {
    kernels::cpu::register_cpu_kernels(registry_, set);
  }

  Results run(const ConformanceCase& one) {
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

 private:
  Tensor pack(const Tensor& weight) {
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

  Tensor upload(const Tensor& host) {
    const size_t bytes = span_bytes(host.meta());
    const std::shared_ptr<Storage> storage = device_->allocate(std::max<size_t>(bytes, 1));
    if (bytes > 0) device_->copy(storage->data(), host.data(), bytes, device::CopyKind::kHostToDevice);
    return Tensor(host.meta(), storage);
  }

  Tensor download(const Tensor& tensor) {
    if (!tensor.format().is_plain()) return unpack(tensor);
    stream_->synchronize();
    return clone_with(tensor, [&](void* to, const void* from, size_t bytes) {
      device_->copy(to, from, bytes, device::CopyKind::kDeviceToHost);
    });
  }

  /// A packed weight [N, K] in plain memory, without knowing its format: multiplying the identity by it is exact.
  Tensor unpack(const Tensor& weight) {
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

  Tensor unpack_int8(const Tensor& weight) {
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

  Registry registry_ = make_catalogue();
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  EagerDispatcher dispatcher_{registry_, *device_, *stream_};
  ForwardContext context_{dispatcher_};
};

bool is_float(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16; }

bool within(float expected, float got, const Bound& bound) {
  if (std::memcmp(&expected, &got, sizeof(float)) == 0) return true;
  if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) && std::isnan(got);
  if (bound.absolute == 0 && bound.relative == 0) return false;
  return std::abs(static_cast<double>(expected) - got) <= bound.absolute + bound.relative * std::abs(expected);
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

std::vector<std::string> operator_names() {
  const Registry registry = make_catalogue();
  std::vector<std::string> names;
  for (const OpDef* op : registry.list()) {
    if (!op->traits().control) names.push_back(op->name());
  }
  return names;
}

class Conformance : public ::testing::TestWithParam<std::tuple<std::string, InstructionSet>> {};

TEST_P(Conformance, AgreesWithTheReferenceForAnyNumberOfThreads) {
  const auto& [op, set] = GetParam();
  const Registry registry = make_catalogue();
  DeviceUnderTest one_thread(set, {.threads = 1});
  // Its memory is closed to host code, which shows that nothing but kernels and copies dereferences it.
  DeviceUnderTest three_threads(set, {.threads = 3, .discrete = true});
  for (const ConformanceCase& one : conformance_cases(op)) {
    SCOPED_TRACE(one.op + " " + one.name);
    const Results expected = run_reference(registry, one);
    const Results results = one_thread.run(one);
    ASSERT_EQ(results.size(), expected.size());
    for (size_t i = 0; i < results.size(); ++i) expect_within(expected[i], results[i], one.bound);
    const Results threaded = three_threads.run(one);
    for (size_t i = 0; i < results.size(); ++i) expect_within(results[i], threaded[i], {});
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, Conformance,
                         ::testing::Combine(::testing::ValuesIn(operator_names()),
                                            ::testing::ValuesIn(kernels::cpu::available_instruction_sets())),
                         [](const auto& case_info) {
                           return std::get<0>(case_info.param) + "_" +
                                  std::string(name_of(std::get<1>(case_info.param)));
                         });

TEST(Catalogue, EveryOperatorIsComplete) {
  Registry registry = make_catalogue();
  kernels::cpu::register_cpu_kernels(registry);
  for (const OpDef* op : registry.list()) {
    SCOPED_TRACE(op->name());
    EXPECT_TRUE(op->has_shape_function());
    if (op->traits().control) continue;  // nothing to compute
    EXPECT_FALSE(conformance_cases(op->name()).empty());
    if (op->traits().view) {
      EXPECT_EQ(op->traits().rounding, Rounding::kNone);
      EXPECT_EQ(op->kernel("cpu"), nullptr);
      continue;
    }
    EXPECT_NE(op->reference(), nullptr);
    const OpKernel* kernel = op->kernel("cpu");
    ASSERT_NE(kernel, nullptr);
    EXPECT_NE(kernel->run, nullptr);
    EXPECT_EQ(kernel->plan != nullptr, op->traits().host_tiled);
    const auto& lists = op->schema().lists;
    EXPECT_EQ(op->traits().host_tiled,
              std::any_of(lists.begin(), lists.end(), [](const HostListSpec& list) { return list.updatable; }));
  }
}

}  // namespace
}  // namespace reprise::ops
