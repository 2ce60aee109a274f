#include "kernels/cpu/moe.h"

#define REPRISE_KERNELS "kernels/cpu/moe_inl.h"
#include "kernels/cpu/foreach_instruction_set.h"
#include "kernels/cpu/select_inl.h"

namespace reprise::kernels::cpu {

int64_t gating_tiles(int64_t tokens) { return tokens; }

int64_t route_tiles() { return 1; }

int64_t combine_tiles(int64_t tokens, int64_t columns) {
  return tokens * ((columns + kCombineColumns - 1) / kCombineColumns);
}

void route(const void* arguments, int64_t first, int64_t last) {
  if (first >= last) return;
  const RouteArguments& a = *static_cast<const RouteArguments*>(arguments);
  const int64_t rows = a.token_count * a.top_k;
  const auto is_expert = [&](int32_t expert) { return expert >= 0 && expert < a.expert_count; };
  // First the rows of each expert, one to the right; then their sums: where each expert begins.
  memset(a.offsets, 0, static_cast<size_t>(a.expert_count + 1) * sizeof(int32_t));
  for (int64_t i = 0; i < rows; ++i) {
    if (is_expert(a.experts[i])) ++a.offsets[a.experts[i] + 1];
  }
  for (int64_t e = 0; e < a.expert_count; ++e) a.offsets[e + 1] += a.offsets[e];
  const int64_t routed = a.offsets[a.expert_count];
  int64_t i = 0;
  for (int64_t token = 0; token < a.token_count; ++token) {
    for (int64_t j = 0; j < a.top_k; ++j, ++i) {
      if (!is_expert(a.experts[i])) {
        a.places[i] = -1;
        continue;
      }
      // The beginning moves along while an expert fills.
      const int32_t place = a.offsets[a.experts[i]]++;
      a.tokens[place] = static_cast<int32_t>(token);
      a.places[i] = place;
    }
  }
  // Each beginning is now where its expert ends, which is where the next one begins.
  for (int64_t e = a.expert_count; e > 0; --e) a.offsets[e] = a.offsets[e - 1];
  a.offsets[0] = 0;
  for (int64_t row = routed; row < rows; ++row) a.tokens[row] = -1;
}

int64_t place_tiles(int64_t tokens) { return tokens; }

namespace {

/// As ops/moe_place.h writes it: rows and positions of a prompt grow together, and a sum of them would not spread.
uint32_t hash_of(uint32_t token, uint32_t position) {
  uint32_t hash = position * 0x9E3779B1u + token * 0x85EBCA77u;
  hash = (hash ^ (hash >> 15)) * 0x2C1B3C6Du;
  return hash ^ (hash >> 12);
}

}  // namespace

void place(const void* arguments, int64_t first, int64_t last) {
  const PlaceArguments& a = *static_cast<const PlaceArguments*>(arguments);
  for (int64_t token = first; token < last; ++token) {
    const int32_t* experts = a.experts + token * a.top_k;
    int32_t* places = a.places + token * a.top_k;
    const uint64_t hash =
        a.positions == nullptr ? 0 : hash_of(static_cast<uint32_t>(token), static_cast<uint32_t>(a.positions[token]));
    for (int64_t j = 0; j < a.top_k; ++j) {
      places[j] = -1;
      if (experts[j] < 0 || experts[j] >= a.expert_count) continue;
      const int32_t* row = a.map + experts[j] * a.map_columns;
      const int64_t copies = row[0] < a.map_columns - 1 ? row[0] : a.map_columns - 1;
      if (copies > 0) places[j] = row[1 + ((hash * static_cast<uint64_t>(copies)) >> 32)];
    }
  }
}

int64_t count_rows_tiles() { return 1; }

void count_rows(const void* arguments, int64_t first, int64_t last) {
  if (first >= last) return;
  const CountRowsArguments& a = *static_cast<const CountRowsArguments*>(arguments);
  for (int64_t e = 0; e < a.experts; ++e) a.counts[e] += a.offsets[e + 1] - a.offsets[e];
}

const MoeKernels& moe_kernels(InstructionSet set) { return REPRISE_SELECT(set, kMoeKernels); }

}  // namespace reprise::kernels::cpu
