#include "kernels/cpu/register_cpu_kernels.h"

#include <fmt/core.h>

#include <memory>
#include <string>
#include <vector>

#include "base/cpu_topology.h"
#include "kernels/cpu/product_tiles.h"
#include "kernels/cpu/register_families.h"

namespace reprise::kernels::cpu {
namespace {

std::vector<std::string> names_of_product_tiles() {
  std::vector<std::string> names;
  for (const ProductTiles& tiles : kProductTiles) {
    names.push_back(fmt::format("panels of {} blocks, {} lines ahead", tiles.panel, tiles.start_lines));
  }
  return names;
}

/// Half of the last cache: keys, values and other programs want some of it too.
ops::CachedWeights cached_weights() { return {kCachedProductTiles, last_level_cache_bytes().value_or(0) / 2}; }

}  // namespace

void register_cpu_kernels(ops::Registry& registry) {
  register_cpu_kernels(registry, instruction_set_from_environment());
}

void register_cpu_kernels(ops::Registry& registry, InstructionSet set) {
  const auto tuning = std::make_shared<ops::ProductTuning>(names_of_product_tiles(), cached_weights(),
                                                           ops::Int8Row{kInt8RowProductTiles});
  register_rows(registry, set);
  register_elementwise(registry, set);
  register_int8_linear(registry, set, tuning);
  register_linear(registry, set, tuning);
  register_attention(registry, set);
  register_convolution(registry, set);
  register_measure(registry, set);
  register_moves(registry);
  register_quantize(registry, set);
  register_fused(registry, set);
  register_moe(registry, set, tuning);
  register_experts(registry, set, tuning);
}

}  // namespace reprise::kernels::cpu
