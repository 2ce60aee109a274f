#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "device/cpu/cpu_stream.h"
#include "ops/dispatch_call.h"
#include "ops/registry.h"

// An operator whose kernel depends on the lengths: up to a threshold one launch does, beyond it are two others. Row r
// of sequence s lies at position p = kv length - query length + r and gives y = x * (p + 1), and 1 more from position
// 127 on, which the kernel of the short lengths does not know.

namespace reprise::switching {

inline constexpr int32_t kThreshold = 128;

struct Arguments {
  const float* x;
  float* y;
  int64_t columns;
};

inline void scale_rows(const void* data, int64_t first, int64_t last) {
  const auto& arguments = *static_cast<const Arguments*>(data);
  const int32_t* lengths = device::cpu::tail_of<Arguments>(data);
  for (int64_t i = first * arguments.columns; i < last * arguments.columns; ++i) {
    arguments.y[i] = arguments.x[i] * static_cast<float>(lengths[i / arguments.columns]);
  }
}
inline void finish_rows(const void* data, int64_t first, int64_t last) {
  const auto& arguments = *static_cast<const Arguments*>(data);
  const int32_t* lengths = device::cpu::tail_of<Arguments>(data);
  for (int64_t row = first; row < last; ++row) {
    if (lengths[row] < kThreshold) continue;
    for (int64_t column = 0; column < arguments.columns; ++column) arguments.y[row * arguments.columns + column] += 1;
  }
}

inline constexpr device::cpu::Kernel kShort{"length_scale_short", scale_rows};
inline constexpr device::cpu::Kernel kLong{"length_scale_long", scale_rows};
inline constexpr device::cpu::Kernel kFinish{"length_scale_finish", finish_rows};

/// Lengths up to each row, into the tail; returns the longest.
inline int32_t plan_rows(const ops::OpCall& call, ops::Tiling& tiling) {
  const auto rows = static_cast<size_t>(call.inputs[0].size(0));
  for (size_t s = 0; s < call.lists[0].values.size(); ++s) {
    const int32_t queries = call.lists[0].values[s];
    for (int32_t row = 0; row < queries && tiling.values.size() < rows; ++row) {
      tiling.values.push_back(std::max(0, call.lists[1].values[s] - queries + row + 1));
    }
  }
  tiling.values.resize(rows, 0);
  tiling.tiles = static_cast<int64_t>(rows);
  return rows == 0 ? 0 : *std::max_element(tiling.values.begin(), tiling.values.end());
}

inline void plan(const ops::OpCall& call, ops::Tiling& tiling) {
  tiling.choose("variant", plan_rows(call, tiling) >= kThreshold ? 1 : 0);
}

inline void launch(const ops::OpCall& call, bool beyond_threshold) {
  auto& stream = static_cast<device::cpu::CpuStream&>(*call.stream);
  const Arguments arguments{call.inputs[0].data_as<const float>(), call.outputs[0].data_as<float>(),
                            call.inputs[0].size(1)};
  stream.launch(beyond_threshold ? kLong : kShort, call.tiling->tiles, arguments, call.tiling->values);
  if (beyond_threshold) stream.launch(kFinish, call.tiling->tiles, arguments, call.tiling->values);
}

inline void run(const ops::OpCall& call) { launch(call, call.tiling->chosen("variant") == 1); }

/// length_scale, with a kernel for the CPU.
inline ops::OpDef make_operator(void (*plan_function)(const ops::OpCall&, ops::Tiling&) = plan,
                                void (*run_function)(const ops::OpCall&) = run) {
  ops::OpDef op(
      "length_scale(Tensor x, int[]^ query_lengths, int[]^ kv_lengths) -> Tensor y", {.host_tiled = true},
      [](const ops::OpCall& call, std::span<TensorMeta> outputs) { outputs[0] = call.inputs[0].meta(); }, nullptr);
  op.set_kernel("cpu", {.run = run_function, .plan = plan_function});
  return op;
}

inline Tensor length_scale(ops::ForwardContext& context, const Tensor& x, const ops::HostList& query_lengths,
                           const ops::HostList& kv_lengths) {
  return ops::dispatch_call(context, "length_scale", {x}, {query_lengths, kv_lengths}, {},
                            std::source_location::current());
}

}  // namespace reprise::switching
