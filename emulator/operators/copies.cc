// aclnnCast, aclnnInplaceCopy, aclnnInplaceFillScalar, aclnnCat and the kernels that make views contiguous.
#include <algorithm>
#include <vector>

#include "emulator/operators/copy_kernels.h"
#include "emulator/operators/kernel_call.h"
#include "emulator/operators/plan.h"
#include "emulator/operators/rows.h"

namespace reprise::emulator {
namespace {

bool is_real(aclDataType dtype) { return is_float(dtype) || dtype == ACL_DOUBLE; }

/// `count` elements that lie `stride` apart, one behind the other.
void gather(const std::byte* from, int64_t stride, int64_t count, size_t size, std::byte* to) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + static_cast<size_t>(i) * size, from + i * stride * static_cast<int64_t>(size), size);
  }
}

void scatter(const std::byte* from, int64_t count, size_t size, int64_t stride, std::byte* to) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * stride * static_cast<int64_t>(size), from + static_cast<size_t>(i) * size, size);
  }
}

/// A row of elements in float32 or int64, on its way from one dtype to another.
class RowConverter {
 public:
  RowConverter(aclDataType from, aclDataType to, int64_t columns)
      : from_(from), to_(to), columns_(columns), real_(is_real(from) || is_real(to)) {
    if (from == to) return;
    floats_.resize(static_cast<size_t>(columns));
    result_.resize(static_cast<size_t>(columns) * size_of(to));
  }

  /// The row as elements of the other dtype; valid until the next call.
  const std::byte* convert(const std::byte* row) {
    if (from_ == to_) return row;
    if (real_) {
      to_floats(row, from_, columns_, floats_.data());
      from_floats(floats_.data(), columns_, to_, result_.data());
    } else {
      for (int64_t i = 0; i < columns_; ++i) set_integer(result_.data(), to_, i, integer_at(row, from_, i));
    }
    return result_.data();
  }

 private:
  aclDataType from_, to_;
  int64_t columns_;
  bool real_;
  std::vector<float> floats_;
  std::vector<std::byte> result_;
};

bool copy_rows(const KernelCall<int>& call) {
  const HostTensor& from = call[0];
  const HostTensor& to = call[1];
  const TensorArgument seen = broadcast_to(*from, *to);
  const int64_t columns = to->columns();
  const int64_t from_stride = seen.rank == 0 ? 1 : seen.stride_back(1);
  const int64_t to_stride = to->rank == 0 ? 1 : to->stride_back(1);
  const size_t size = size_of(from->dtype);
  const size_t to_size = size_of(to->dtype);
  const RowOffsets from_rows(seen);
  const RowOffsets to_rows(*to);
  RowConverter converter(from->dtype, to->dtype, columns);
  std::vector<std::byte> dense(static_cast<size_t>(columns) * size);
  for (int64_t row = 0; row < to->rows(); ++row) {
    const std::byte* source = from.at(from_rows[row]);
    if (from_stride != 1) {
      gather(source, from_stride, columns, size, dense.data());
      source = dense.data();
    }
    scatter(converter.convert(source), columns, to_size, to_stride, to.at(to_rows[row]));
  }
  return true;
}

constexpr Kernel kAsStrided = make_kernel<int, copy_rows>("AsStrided");
constexpr Kernel kViewCopy = make_kernel<int, copy_rows>("ViewCopy");
constexpr Kernel kCast = make_kernel<int, copy_rows>("Cast");
constexpr Kernel kTensorMove = make_kernel<int, copy_rows>("TensorMove");

struct FillParameters {
  double real = 0;
  int64_t integer = 0;
};

bool fill_rows(const KernelCall<FillParameters>& call) {
  const HostTensor& to = call[0];
  const int64_t columns = to->columns();
  const int64_t stride = to->rank == 0 ? 1 : to->stride_back(1);
  std::vector<std::byte> row(static_cast<size_t>(columns) * size_of(to->dtype));
  if (is_real(to->dtype)) {
    const std::vector<float> values(static_cast<size_t>(columns), static_cast<float>(call.parameters().real));
    from_floats(values.data(), columns, to->dtype, row.data());
  } else {
    for (int64_t i = 0; i < columns; ++i) set_integer(row.data(), to->dtype, i, call.parameters().integer);
  }
  const RowOffsets rows(*to);
  for (int64_t i = 0; i < to->rows(); ++i) scatter(row.data(), columns, size_of(to->dtype), stride, to.at(rows[i]));
  return true;
}

constexpr Kernel kFill = make_kernel<FillParameters, fill_rows>("Fill");

void require_broadcast(const TensorArgument& from, const TensorArgument& to) {
  bool fits = from.rank <= to.rank;
  for (int32_t axis = 1; fits && axis <= from.rank; ++axis) {
    fits = from.size_back(axis) == 1 || from.size_back(axis) == to.size_back(axis);
  }
  require(fits, "src of {} dimensions cannot be broadcast to the {} of selfRef", from.rank, to.rank);
}

void require_same_shape(const TensorArgument& a, const TensorArgument& b) {
  require(std::ranges::equal(a.shape(), b.shape()), "self and out have different shapes");
}

/// The parts of `out` that the tensors of a list become, one kernel each.
void build_cat(Plan& plan, const aclTensorList* tensors, int64_t dim, const aclTensor* out_tensor) {
  require_pointer(tensors, "tensors");
  const std::vector<TensorArgument> parts = plan.input_list(tensors);
  const TensorArgument out = plan.output(out_tensor, "out");
  if (dim < 0) dim += out.rank;
  require(dim >= 0 && dim < out.rank, "dim is {}, expected less than {}", dim, out.rank);
  const auto axis = static_cast<size_t>(dim);
  int64_t begin = 0;
  for (const TensorArgument& part : parts) {
    TensorArgument place = out;
    require(part.rank == out.rank && begin + part.dims[axis] <= out.dims[axis], "a tensor does not fit into out");
    place.dims[axis] = part.dims[axis];
    require_same_shape(part, place);
    place.offset += begin * out.strides[axis];
    begin += part.dims[axis];
    plan.launch(part.dtype == out.dtype ? kTensorMove : kCast, {part}, {place}, 0);
  }
  require(begin == out.dims[axis], "the tensors have {} rows along dim, out {}", begin, out.dims[axis]);
}

}  // namespace

const Kernel& as_strided_kernel() { return kAsStrided; }
const Kernel& view_copy_kernel() { return kViewCopy; }
const Kernel& cast_kernel() { return kCast; }

}  // namespace reprise::emulator

using namespace reprise::emulator;

extern "C" aclnnStatus aclnnCastGetWorkspaceSize(const aclTensor* self, const aclDataType dtype, aclTensor* out,
                                                 uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnCast", EMULATOR_GIVEN(self, dtype, out), workspaceSize, executor, [&](Plan& plan) {
    const TensorArgument from = plan.input(self, "self");
    const TensorArgument to = plan.output(out, "out");
    require(to.dtype == dtype, "out has dtype {}, expected {}", static_cast<int>(to.dtype), static_cast<int>(dtype));
    require_same_shape(from, to);
    plan.launch(kCast, {from}, {to}, 0);
  });
}
EMULATOR_PHASE_TWO(aclnnCast)

extern "C" aclnnStatus aclnnInplaceCopyGetWorkspaceSize(aclTensor* selfRef, const aclTensor* src,
                                                        uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnInplaceCopy", EMULATOR_GIVEN(selfRef, src), workspaceSize, executor, [&](Plan& plan) {
    const TensorArgument to = plan.in_place(selfRef, "selfRef");
    const TensorArgument from = plan.input(src, "src");
    require_broadcast(from, to);
    plan.launch(from.dtype == to.dtype ? kTensorMove : kCast, {from}, {to}, 0);
  });
}
EMULATOR_PHASE_TWO(aclnnInplaceCopy)

extern "C" aclnnStatus aclnnInplaceFillScalarGetWorkspaceSize(aclTensor* selfRef, const aclScalar* value,
                                                              uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnInplaceFillScalar", EMULATOR_GIVEN(selfRef, value), workspaceSize, executor, [&](Plan& plan) {
    const TensorArgument to = plan.in_place(selfRef, "selfRef");
    require_pointer(value, "value");
    plan.launch(kFill, {}, {to}, FillParameters{value->as_double(), value->as_integer()});
  });
}
EMULATOR_PHASE_TWO(aclnnInplaceFillScalar)

extern "C" aclnnStatus aclnnCatGetWorkspaceSize(const aclTensorList* tensors, int64_t dim, aclTensor* out,
                                                uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnCat", EMULATOR_GIVEN(tensors, dim, out), workspaceSize, executor,
                   [&](Plan& plan) { build_cat(plan, tensors, dim, out); });
}
EMULATOR_PHASE_TWO(aclnnCat)
