#include "kernels/cpu/measure.h"
#include "kernels/cpu/register_common.h"
#include "kernels/cpu/register_families.h"
#include "ops/measure.h"

namespace reprise::kernels::cpu {
namespace {

template <InstructionSet kSet>
void run_read_all(const ops::OpCall& call) {
  static constexpr std::string_view kVariants[1] = {"i32"};
  static const NamedKernels<1> kernels("read_all", kSet, measure_kernels(kSet, false).read_all, kVariants);
  const ReadAllArguments arguments{.words = call.inputs[0].data_as<const uint32_t>(),
                                   .sums = call.outputs[0].data_as<uint32_t>(),
                                   .count = call.inputs[0].size(0),
                                   .block = ops::kReadBlockWords};
  stream_of(call).launch(kernels[0], read_all_tiles(arguments.count, arguments.block), arguments);
}

template <InstructionSet kSet>
void run_multiply_adds(const ops::OpCall& call) {
  static constexpr std::string_view kVariants[3] = {"f32", "bf16", "i8"};
  static const MeasureKernels functions = measure_kernels(kSet, has_int8_dot_products(kSet));
  static const NamedKernels<3> kernels("multiply_adds", kSet, functions.multiply_adds, kVariants);
  const MultiplyAddsArguments arguments{.factors = call.inputs[0].data_as<const int32_t>(),
                                        .sums = call.outputs[0].data_as<int32_t>(),
                                        .count = call.inputs[0].size(0)};
  const DType dtype = std::get<DType>(call.attributes[0]);
  const size_t variant = dtype == DType::kF32 ? 0 : dtype == DType::kBF16 ? 1 : 2;
  stream_of(call).launch(kernels[variant], multiply_adds_tiles(arguments.count), arguments);
}

}  // namespace

void register_measure(ops::Registry& registry, InstructionSet set) {
  with_instruction_set(set, [&](auto constant) {
    registry.get("read_all").set_kernel(std::string(kDeviceName), {.run = run_read_all<decltype(constant)::value>});
    registry.get("multiply_adds")
        .set_kernel(std::string(kDeviceName), {.run = run_multiply_adds<decltype(constant)::value>});
  });
}

}  // namespace reprise::kernels::cpu
