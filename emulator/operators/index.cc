// Operators that read or write where indices point.
#include <algorithm>
#include <limits>
#include <vector>

#include "emulator/operators/axis.h"
#include "emulator/operators/kernel_call.h"
#include "emulator/operators/plan.h"
#include "emulator/operators/rows.h"

namespace reprise::emulator {
namespace {

bool is_index(aclDataType dtype) { return dtype == ACL_INT32 || dtype == ACL_INT64; }

/// Rows that an index outside selects. The real operators say nothing of them; NaN (or 0) shows whoever reads them.
void write_undefined(const HostTensor& out, int64_t first, int64_t count) {
  if (is_float(out->dtype)) {
    const std::vector<float> nan(static_cast<size_t>(count), std::numeric_limits<float>::quiet_NaN());
    write_row(out, first, count, nan.data());
  } else {
    std::memset(out.at(first), 0, static_cast<size_t>(count) * size_of(out->dtype));
  }
}

bool run_gather(const KernelCall<AxisSplit>& call) {
  const auto& [outer, size, inner] = call.parameters();
  const HostTensor& from = call[0];
  const HostTensor& index = call[1];
  const HostTensor& out = call[2];
  const int64_t count = index->elements();
  const size_t bytes = static_cast<size_t>(inner) * size_of(from->dtype);
  for (int64_t i = 0; i < outer * count; ++i) {
    const int64_t row = integer_at(index.at(0), index->dtype, i % count);
    if (row < 0 || row >= size) {
      write_undefined(out, i * inner, inner);
    } else {
      std::memcpy(out.at(i * inner), from.at((i / count * size + row) * inner), bytes);
    }
  }
  return true;
}

/// The selected rows only are read.
KernelCost gather_cost(const ArgumentReader& arguments) {
  const auto tensors = arguments.tensors();
  return {.bytes_read = tensors[2].bytes() + tensors[1].bytes(), .bytes_written = tensors[2].bytes()};
}

constexpr Kernel kGather = make_kernel<AxisSplit, run_gather, gather_cost>("GatherV2");

void add_gather(Plan& plan, const TensorArgument& from, int64_t axis, const TensorArgument& index,
                const TensorArgument& out) {
  require(is_index(index.dtype), "the index has dtype {}, expected int32 or int64", static_cast<int>(index.dtype));
  require(from.dtype == out.dtype, "out has dtype {}, expected {}", static_cast<int>(out.dtype),
          static_cast<int>(from.dtype));
  const AxisSplit parameters = split_at(from, axis);
  require(out.elements() == parameters.outer * index.elements() * parameters.inner, "out has the wrong shape");
  plan.launch(kGather, {plan.contiguous(from), plan.contiguous(index)}, {plan.staged(out)}, parameters);
}

/// data[indices[i] ..] along the axis becomes updates[i].
struct ScatterParameters {
  int64_t batches = 1;  ///< of data
  int64_t middle = 1;   ///< axes between the first one and the axis
  int64_t size = 1;     ///< of data along the axis
  int64_t count = 1;    ///< of updates along the axis
  int64_t inner = 1;
  int64_t update_batches = 1;
  int64_t index_columns = 1;
};

bool run_scatter_update(const KernelCall<ScatterParameters>& call) {
  const ScatterParameters& p = call.parameters();
  const HostTensor& indices = call[0];
  const HostTensor& updates = call[1];
  const HostTensor& data = call[2];
  const size_t bytes = static_cast<size_t>(p.count * p.inner) * size_of(data->dtype);
  for (int64_t i = 0; i < p.update_batches; ++i) {
    const bool pairs = p.index_columns == 2;
    const int64_t batch = pairs ? integer_at(indices.at(0), indices->dtype, 2 * i) : i;
    const int64_t begin = integer_at(indices.at(0), indices->dtype, pairs ? 2 * i + 1 : i);
    if (batch < 0 || batch >= p.batches || begin < 0 || begin + p.count > p.size) return false;
    for (int64_t m = 0; m < p.middle; ++m) {
      std::memcpy(data.at(((batch * p.middle + m) * p.size + begin) * p.inner),
                  updates.at((i * p.middle + m) * p.count * p.inner), bytes);
    }
  }
  return true;
}

KernelCost scatter_cost(const ArgumentReader& arguments) {
  const auto tensors = arguments.tensors();
  return {.bytes_read = tensors[0].bytes() + tensors[1].bytes(), .bytes_written = tensors[1].bytes()};
}

constexpr Kernel kScatterUpdate = make_kernel<ScatterParameters, run_scatter_update, scatter_cost>("Scatter");

void build_scatter_update(Plan& plan, aclTensor* data_ref, const aclTensor* indices, const aclTensor* updates,
                          int64_t axis) {
  const TensorArgument data = plan.in_place(data_ref, "dataRef");
  const TensorArgument index = plan.input(indices, "indices");
  const TensorArgument from = plan.input(updates, "updates");
  require(is_index(index.dtype) && from.dtype == data.dtype, "the dtypes do not go together");
  require(from.rank == data.rank && index.rank >= 1 && index.rank <= 2, "the ranks do not go together");
  require(data.contiguous(), "dataRef is not contiguous");
  if (axis < 0) axis += data.rank;
  require(axis > 0 && axis < data.rank, "axis is {}, expected 1 to {}", axis, data.rank - 1);
  ScatterParameters parameters{.batches = data.dims[0],
                               .size = data.dims[static_cast<size_t>(axis)],
                               .count = from.dims[static_cast<size_t>(axis)],
                               .update_batches = from.dims[0]};
  for (int64_t i = 1; i < data.rank; ++i) {
    const auto at = static_cast<size_t>(i);
    if (i != axis) (i < axis ? parameters.middle : parameters.inner) *= data.dims[at];
    require(i == axis || data.dims[at] == from.dims[at], "updates has another shape than dataRef");
  }
  if (index.rank == 2) parameters.index_columns = index.dims[1];
  require(index.dims[0] == from.dims[0] && (index.rank == 1 || index.dims[1] == 2), "indices has the wrong shape");
  plan.launch(kScatterUpdate, {plan.contiguous(index), plan.contiguous(from)}, {data}, parameters, {}, from.dims[0]);
}

bool run_arg_max(const KernelCall<AxisSplit>& call) {
  const auto& [outer, size, inner] = call.parameters();
  std::vector<float> values = read_all(call[0]);
  for (int64_t line = 0; line < outer * inner; ++line) {
    const int64_t first = call.parameters().first_of(line);
    int64_t best = 0;
    for (int64_t i = 1; i < size; ++i) {
      const float value = values[static_cast<size_t>(first + i * inner)];
      const float largest = values[static_cast<size_t>(first + best * inner)];
      if (value > largest || (std::isnan(value) && !std::isnan(largest))) best = i;
    }
    set_integer(call[1].at(0), call[1]->dtype, line, best);
  }
  return true;
}

constexpr Kernel kArgMax = make_kernel<AxisSplit, run_arg_max>("ArgMaxV2");

void build_arg_max(Plan& plan, const aclTensor* self, int64_t dim, bool keepdim, aclTensor* out) {
  const TensorArgument x = plan.input(self, "self");
  const TensorArgument y = plan.output(out, "out");
  if (dim < 0) dim += x.rank;
  require(dim >= 0 && dim < x.rank && x.elements() > 0, "dim is {} of {}", dim, x.rank);
  const AxisSplit parameters = split_at(x, dim);
  require(is_float(x.dtype) && is_index(y.dtype), "the dtypes are {} and {}", static_cast<int>(x.dtype),
          static_cast<int>(y.dtype));
  require(y.rank == x.rank - (keepdim ? 0 : 1) && y.elements() == parameters.outer * parameters.inner,
          "out has the wrong shape");
  plan.launch(kArgMax, {plan.contiguous(x)}, {plan.staged(y)}, parameters);
}

}  // namespace
}  // namespace reprise::emulator

using namespace reprise::emulator;

extern "C" {

aclnnStatus aclnnEmbeddingGetWorkspaceSize(const aclTensor* weight, const aclTensor* indices, aclTensor* out,
                                           uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnEmbedding", EMULATOR_GIVEN(weight, indices, out), workspaceSize, executor, [&](Plan& plan) {
    const TensorArgument table = plan.input(weight, "weight");
    const TensorArgument index = plan.input(indices, "indices");
    require(table.rank == 2, "weight has {} dimensions, expected 2", table.rank);
    add_gather(plan, table, 0, index, plan.output(out, "out"));
  });
}

aclnnStatus aclnnIndexSelectGetWorkspaceSize(const aclTensor* self, int64_t dim, const aclTensor* index, aclTensor* out,
                                             uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnIndexSelect", EMULATOR_GIVEN(self, dim, index, out), workspaceSize, executor, [&](Plan& plan) {
    const TensorArgument from = plan.input(self, "self");
    const TensorArgument rows = plan.input(index, "index");
    const int64_t axis = dim < 0 ? dim + from.rank : dim;
    require(axis >= 0 && axis < from.rank, "dim is {}, expected less than {}", dim, from.rank);
    require(rows.rank <= 1, "index has {} dimensions, expected 1", rows.rank);
    add_gather(plan, from, axis, rows, plan.output(out, "out"));
  });
}

aclnnStatus aclnnGatherV2GetWorkspaceSize(const aclTensor* self, int64_t dim, const aclTensor* index, aclTensor* out,
                                          uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnGatherV2", EMULATOR_GIVEN(self, dim, index, out), workspaceSize, executor, [&](Plan& plan) {
    const TensorArgument from = plan.input(self, "self");
    const TensorArgument rows = plan.input(index, "index");
    const TensorArgument to = plan.output(out, "out");
    const int64_t axis = axis_of(from, dim);
    std::vector<int64_t> shape(from.shape().begin(), from.shape().end());
    if (!shape.empty()) shape.erase(shape.begin() + axis);
    shape.insert(shape.begin() + std::min<int64_t>(axis, from.rank), rows.shape().begin(), rows.shape().end());
    require(std::ranges::equal(to.shape(), shape), "out has the wrong shape");
    add_gather(plan, from, axis, rows, to);
  });
}

aclnnStatus aclnnInplaceScatterUpdateGetWorkspaceSize(aclTensor* dataRef, const aclTensor* indices,
                                                      const aclTensor* updates, int64_t axis, uint64_t* workspaceSize,
                                                      aclOpExecutor** executor) {
  return phase_one("aclnnInplaceScatterUpdate", EMULATOR_GIVEN(dataRef, indices, updates, axis), workspaceSize,
                   executor, [&](Plan& plan) { build_scatter_update(plan, dataRef, indices, updates, axis); });
}

aclnnStatus aclnnArgMaxGetWorkspaceSize(const aclTensor* self, const int64_t dim, const bool keepdim, aclTensor* out,
                                        uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnArgMax", EMULATOR_GIVEN(self, dim, keepdim, out), workspaceSize, executor,
                   [&](Plan& plan) { build_arg_max(plan, self, dim, keepdim, out); });
}

}  // extern "C"

EMULATOR_PHASE_TWO(aclnnEmbedding)
EMULATOR_PHASE_TWO(aclnnIndexSelect)
EMULATOR_PHASE_TWO(aclnnGatherV2)
EMULATOR_PHASE_TWO(aclnnInplaceScatterUpdate)
EMULATOR_PHASE_TWO(aclnnArgMax)
