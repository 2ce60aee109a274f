#include "kernels/cpu/measure.h"
#include "kernels/cpu/register_common.h"
#include "kernels/cpu/register_families.h"
#include "ops/measure.h"

namespace reprise::kernels::cpu {
namespace {

template <InstructionSet kSet>
void run_read_all(const ops::OpCall& call) {
  static constexpr std::string_view kVariants[1] = {"i32"};
  static const NamedKernels<1> kernels("read_all", kSet, measure_kernels(kSet).read_all, kVariants);
  const ReadAllArguments arguments{.words = call.inputs[0].data_as<const uint32_t>(),
                                   .sums = call.outputs[0].data_as<uint32_t>(),
                                   .count = call.inputs[0].size(0),
                                   .block = ops::kReadBlockWords};
  stream_of(call).launch(kernels[0], read_all_tiles(arguments.count, arguments.block), arguments);
}

}  // namespace

void register_measure(ops::Registry& registry, InstructionSet set) {
  with_instruction_set(set, [&](auto constant) {
    registry.get("read_all").set_kernel(std::string(kDeviceName), {.run = run_read_all<decltype(constant)::value>});
  });
}

}  // namespace reprise::kernels::cpu
