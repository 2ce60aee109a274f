#include "base/error.h"
#include "kernels/cpu/byte_rows.h"
#include "kernels/cpu/register_common.h"
#include "kernels/cpu/register_families.h"
#include "ops/checks.h"
#include "ops/in_place.h"

// Operators that move rows as bytes: cat, scatter_rows.

namespace reprise::kernels::cpu {
namespace {

constexpr device::cpu::Kernel kCat = {"cat.bytes", cat_bytes};
constexpr device::cpu::Kernel kScatter = {"scatter_rows.bytes", scatter_bytes};

/// Bytes of the axes from `axis` on, of a contiguous tensor.
int64_t bytes_from(const Tensor& tensor, size_t axis) {
  int64_t bytes = static_cast<int64_t>(size_of(tensor.dtype()));
  for (; axis < tensor.rank(); ++axis) bytes *= tensor.size(axis);
  return bytes;
}

void run_cat(const ops::OpCall& call) {
  const auto axis = static_cast<size_t>(call.int_attribute(0));
  const Tensor& y = call.outputs[0];
  CatArguments arguments{};
  arguments.y = y.data();
  arguments.rows = 1;
  for (size_t i = 0; i < axis; ++i) arguments.rows *= y.size(i);
  arguments.y_row_stride = bytes_from(y, axis);
  for (const Tensor& x : call.inputs) {
    if (!x.defined()) break;
    if (!x.is_contiguous()) {
      throw Error(ErrorCode::kUnsupported, "cat: no kernel for the strides of {}", x.meta().to_string())
          .remedy("make it contiguous with copy()");
    }
    const int64_t bytes = bytes_from(x, axis);
    arguments.pieces[arguments.count++] = {x.data(), bytes, bytes};
  }
  stream_of(call).launch(kCat, cat_tiles(arguments), arguments);
}

void launch_scatter(const ops::OpCall& call, const Tensor& y) {
  const Tensor& updates = call.inputs[2];
  const ScatterArguments arguments{.x = updates.data(),
                                   .rows = call.inputs[1].data_as<int32_t>(),
                                   .y = y.data(),
                                   .count = updates.size(0),
                                   .y_rows = y.size(0),
                                   .row_bytes = bytes_from(y, 1)};
  stream_of(call).launch(kScatter, scatter_tiles(arguments.count), arguments);
}

void run_scatter_rows(const ops::OpCall& call) {
  const Tensor& x = call.inputs[0];
  CatArguments whole{};
  whole.y = call.outputs[0].data();
  whole.count = 1;
  whole.rows = x.size(0);
  whole.y_row_stride = bytes_from(x, 1);
  whole.pieces[0] = {x.data(), whole.y_row_stride, whole.y_row_stride};
  stream_of(call).launch(kCat, cat_tiles(whole), whole);
  launch_scatter(call, call.outputs[0]);
}

void run_scatter_rows_in_place(const ops::OpCall& call) { launch_scatter(call, call.inputs[0]); }

}  // namespace

void register_moves(ops::Registry& registry) {
  const std::string device(kDeviceName);
  registry.get("cat").set_kernel(device, {.run = run_cat});
  registry.get("scatter_rows").set_kernel(device, {.run = run_scatter_rows, .launches = 2});
  registry.get("scatter_rows_").set_kernel(device, {.run = run_scatter_rows_in_place});
}

}  // namespace reprise::kernels::cpu
