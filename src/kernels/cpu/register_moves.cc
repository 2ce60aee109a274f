#include "base/error.h"
#include "kernels/cpu/byte_rows.h"
#include "kernels/cpu/register_common.h"
#include "kernels/cpu/register_families.h"

// Operators that move rows as bytes, whatever their elements stand for: copy, cat, scatter_rows.

namespace reprise::kernels::cpu {
namespace {

constexpr device::cpu::Kernel kCopy = {"copy.bytes", copy_bytes};
constexpr device::cpu::Kernel kCat = {"cat.bytes", cat_bytes};
constexpr device::cpu::Kernel kScatter = {"scatter_rows.bytes", scatter_bytes};

/// Bytes of the axes from `axis` on, of a contiguous tensor.
int64_t bytes_from(const Tensor& tensor, size_t axis) {
  int64_t bytes = static_cast<int64_t>(size_of(tensor.dtype()));
  for (; axis < tensor.rank(); ++axis) bytes *= tensor.size(axis);
  return bytes;
}

void launch_copy(const ops::OpCall& call, const Tensor& x, const Tensor& y) {
  const auto bytes = static_cast<int64_t>(size_of(x.dtype()));
  CopyArguments arguments{.x = x.data(),
                          .y = y.data(),
                          .sizes = {1, 1, 1, 1},
                          .x_strides = {},
                          .y_strides = {},
                          .columns = 1,
                          .x_step = bytes,
                          .y_step = bytes,
                          .element_bytes = bytes};
  const size_t rank = x.rank();
  static_assert(CopyArguments::kOuterAxes + 1 == Shape::kMaxRank);
  if (rank > 0) {
    arguments.columns = x.size(rank - 1);
    arguments.x_step = x.stride(rank - 1) * bytes;
    arguments.y_step = y.stride(rank - 1) * bytes;
  }
  for (size_t axis = 0; axis + 1 < rank; ++axis) {
    const size_t to = CopyArguments::kOuterAxes - (rank - 1) + axis;
    arguments.sizes[to] = x.size(axis);
    arguments.x_strides[to] = x.stride(axis) * bytes;
    arguments.y_strides[to] = y.stride(axis) * bytes;
  }
  stream_of(call).launch(kCopy, copy_tiles(arguments), arguments);
}

void run_copy(const ops::OpCall& call) { launch_copy(call, call.inputs[0], call.outputs[0]); }

void run_copy_over(const ops::OpCall& call) { launch_copy(call, call.inputs[1], call.inputs[0]); }

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
  registry.get("copy").set_kernel(device, {.run = run_copy});
  registry.get("copy_").set_kernel(device, {.run = run_copy_over});
  registry.get("cat").set_kernel(device, {.run = run_cat});
  registry.get("scatter_rows").set_kernel(device, {.run = run_scatter_rows, .launches = 2});
  registry.get("scatter_rows_").set_kernel(device, {.run = run_scatter_rows_in_place});
}

}  // namespace reprise::kernels::cpu
