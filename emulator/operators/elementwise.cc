// Operators that compute each element by itself, with broadcasting and promotion of dtypes.
#include <algorithm>
#include <vector>

#include "emulator/operators/kernel_call.h"
#include "emulator/operators/plan.h"
#include "emulator/operators/rows.h"

namespace reprise::emulator {
namespace {

enum class Binary : int32_t { kAdd, kMul, kDiv, kFloorDiv, kMinimum, kMaximum, kAnd, kXor, kRightShift, kGe, kLt };

/// The second operand is multiplied by alpha first. Without a second tensor it is the scalar.
struct BinaryParameters {
  Binary operation = Binary::kAdd;
  int32_t has_tensor = 1;
  double alpha = 1;
  int64_t integer_alpha = 1;
  double scalar = 0;
  int64_t integer_scalar = 0;
};

float combine(Binary operation, float a, float b) {
  switch (operation) {
    case Binary::kMul:
      return a * b;
    case Binary::kDiv:
      return a / b;
    case Binary::kFloorDiv:
      return std::floor(a / b);
    case Binary::kMinimum:
      return std::isnan(a) || a < b ? a : b;
    case Binary::kMaximum:
      return std::isnan(a) || a > b ? a : b;
    case Binary::kGe:
      return a >= b ? 1.0F : 0.0F;
    case Binary::kLt:
      return a < b ? 1.0F : 0.0F;
    default:
      return a + b;
  }
}

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return static_cast<int64_t>(-static_cast<uint64_t>(a));
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

int64_t combine(Binary operation, int64_t a, int64_t b) {
  const auto wrapped = [](uint64_t value) { return static_cast<int64_t>(value); };
  switch (operation) {
    case Binary::kMul:
      return wrapped(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    case Binary::kFloorDiv:
      return floor_divide(a, b);
    case Binary::kMinimum:
      return std::min(a, b);
    case Binary::kMaximum:
      return std::max(a, b);
    case Binary::kAnd:
      return a & b;
    case Binary::kXor:
      return a ^ b;
    case Binary::kRightShift:
      return a >> std::clamp<int64_t>(b, 0, 63);
    case Binary::kGe:
      return a >= b ? 1 : 0;
    case Binary::kLt:
      return a < b ? 1 : 0;
    default:
      return wrapped(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
}

/// A row of a broadcast operand as float32.
void read_operand(const HostTensor& tensor, const TensorArgument& seen, int64_t offset, std::vector<float>& to) {
  if (seen.rank == 0 || seen.stride_back(1) == 1) {
    to_floats(tensor.at(offset), tensor->dtype, static_cast<int64_t>(to.size()), to.data());
    return;
  }
  float value = 0;
  to_floats(tensor.at(offset), tensor->dtype, 1, &value);
  std::fill(to.begin(), to.end(), value);
}

/// The common kinds have loops of their own, which are vectorised.
void combine_floats(Binary operation, float alpha, const std::vector<float>& a, std::vector<float>& b) {
  if (operation == Binary::kAdd && alpha == 1.0F) {
    for (size_t i = 0; i < a.size(); ++i) b[i] = a[i] + b[i];
  } else if (operation == Binary::kMul) {
    for (size_t i = 0; i < a.size(); ++i) b[i] = a[i] * b[i];
  } else {
    for (size_t i = 0; i < a.size(); ++i) b[i] = combine(operation, a[i], alpha * b[i]);
  }
}

bool run_float_binary(const KernelCall<BinaryParameters>& call, const TensorArgument& a_seen,
                      const TensorArgument& b_seen) {
  const BinaryParameters& parameters = call.parameters();
  const HostTensor& out = call[2];
  const auto columns = static_cast<size_t>(out->columns());
  std::vector<float> a(columns);
  std::vector<float> b(columns, static_cast<float>(parameters.scalar));
  const RowOffsets a_rows(a_seen);
  const RowOffsets b_rows(b_seen);
  for (int64_t row = 0; row < out->rows(); ++row) {
    read_operand(call[0], a_seen, a_rows[row], a);
    if (parameters.has_tensor != 0) {
      read_operand(call[1], b_seen, b_rows[row], b);
    } else {
      std::fill(b.begin(), b.end(), static_cast<float>(parameters.scalar));
    }
    combine_floats(parameters.operation, static_cast<float>(parameters.alpha), a, b);
    write_row(out, row * out->columns(), out->columns(), b.data());
  }
  return true;
}

bool run_binary(const KernelCall<BinaryParameters>& call) {
  const BinaryParameters& parameters = call.parameters();
  const HostTensor& out = call[2];
  const TensorArgument a_seen = broadcast_to(*call[0], *out);
  const bool has_tensor = parameters.has_tensor != 0;
  const TensorArgument b_seen = has_tensor ? broadcast_to(*call[1], *out) : a_seen;
  if (is_float(call[0]->dtype)) return run_float_binary(call, a_seen, b_seen);
  const RowOffsets a_rows(a_seen);
  const RowOffsets b_rows(b_seen);
  const int64_t a_step = out->rank == 0 ? 1 : a_seen.stride_back(1);
  const int64_t b_step = out->rank == 0 ? 1 : b_seen.stride_back(1);
  for (int64_t row = 0; row < out->rows(); ++row) {
    for (int64_t i = 0; i < out->columns(); ++i) {
      const int64_t a = integer_at(call[0].at(0), call[0]->dtype, a_rows[row] + i * a_step);
      const int64_t b =
          has_tensor ? integer_at(call[1].at(0), call[1]->dtype, b_rows[row] + i * b_step) : parameters.integer_scalar;
      const int64_t scaled =
          static_cast<int64_t>(static_cast<uint64_t>(b) * static_cast<uint64_t>(parameters.integer_alpha));
      set_integer(out.at(0), out->dtype, row * out->columns() + i, combine(parameters.operation, a, scaled));
    }
  }
  return true;
}

constexpr Kernel kAdd = make_kernel<BinaryParameters, run_binary>("Add");
constexpr Kernel kAxpy = make_kernel<BinaryParameters, run_binary>("Axpy");
constexpr Kernel kMul = make_kernel<BinaryParameters, run_binary>("Mul");
constexpr Kernel kDiv = make_kernel<BinaryParameters, run_binary>("RealDiv");
constexpr Kernel kFloorDiv = make_kernel<BinaryParameters, run_binary>("FloorDiv");
constexpr Kernel kMinimum = make_kernel<BinaryParameters, run_binary>("Minimum");
constexpr Kernel kMaximum = make_kernel<BinaryParameters, run_binary>("Maximum");
constexpr Kernel kBitwiseAnd = make_kernel<BinaryParameters, run_binary>("BitwiseAnd");
constexpr Kernel kBitwiseXor = make_kernel<BinaryParameters, run_binary>("BitwiseXor");
constexpr Kernel kRightShift = make_kernel<BinaryParameters, run_binary>("RightShift");
constexpr Kernel kGreaterEqual = make_kernel<BinaryParameters, run_binary>("GreaterEqual");
constexpr Kernel kLess = make_kernel<BinaryParameters, run_binary>("Less");

const Kernel& kernel_of(const BinaryParameters& parameters) {
  switch (parameters.operation) {
    case Binary::kAdd:
      return parameters.alpha == 1 ? kAdd : kAxpy;
    case Binary::kMul:
      return kMul;
    case Binary::kDiv:
      return kDiv;
    case Binary::kFloorDiv:
      return kFloorDiv;
    case Binary::kMinimum:
      return kMinimum;
    case Binary::kMaximum:
      return kMaximum;
    case Binary::kAnd:
      return kBitwiseAnd;
    case Binary::kXor:
      return kBitwiseXor;
    case Binary::kRightShift:
      return kRightShift;
    case Binary::kGe:
      return kGreaterEqual;
    default:
      return kLess;
  }
}

aclDataType promoted(aclDataType a, aclDataType b) {
  if (a == b) return a;
  if (is_float(a) && is_float(b)) return ACL_FLOAT;
  if (is_float(a) || is_float(b)) return is_float(a) ? a : b;
  if (a == ACL_BOOL || b == ACL_BOOL) return a == ACL_BOOL ? b : a;
  if (size_of(a) == size_of(b)) return size_of(a) == 1 ? ACL_INT16 : ACL_INT64;
  return size_of(a) > size_of(b) ? a : b;
}

bool is_bitwise(Binary operation) {
  return operation == Binary::kAnd || operation == Binary::kXor || operation == Binary::kRightShift;
}

bool is_comparison(Binary operation) { return operation == Binary::kGe || operation == Binary::kLt; }

/// The shape that a and b have together must be that of out.
void require_broadcast(const TensorArgument& a, const TensorArgument& b, const TensorArgument& out) {
  bool fits = out.rank == std::max(a.rank, b.rank);
  for (int32_t axis = 1; fits && axis <= out.rank; ++axis) {
    const int64_t of_a = axis <= a.rank ? a.size_back(axis) : 1;
    const int64_t of_b = axis <= b.rank ? b.size_back(axis) : 1;
    fits = out.size_back(axis) == (of_a == 1 ? of_b : of_a) && (of_b == 1 || of_b == out.size_back(axis));
  }
  require(fits, "the shapes of the inputs and of out do not go together");
}

void require_computable(const TensorArgument& tensor, const char* name) {
  require(tensor.dtype != ACL_DOUBLE && !tensor.is_nz(), "{} has an unsupported dtype or format", name);
}

void add_binary(Plan& plan, const TensorArgument& a, const TensorArgument& b, const TensorArgument& out,
                const BinaryParameters& parameters) {
  require_computable(a, "self");
  require_computable(b.defined() ? b : a, "other");
  aclDataType dtype = b.defined() ? promoted(a.dtype, b.dtype) : a.dtype;
  if (parameters.operation == Binary::kDiv && !is_float(dtype)) dtype = ACL_FLOAT;
  require(!is_bitwise(parameters.operation) || !is_float(dtype), "bits of floating-point numbers");
  require(is_float(out.dtype) || !is_float(dtype) || is_comparison(parameters.operation),
          "the result of dtype {} cannot become out's {}", static_cast<int>(dtype), static_cast<int>(out.dtype));
  require_broadcast(a, b.defined() ? b : a, out);
  const TensorArgument first = plan.contiguous(a, dtype);
  const TensorArgument second = plan.contiguous(b, dtype);
  const TensorArgument to = plan.staged(out, is_comparison(parameters.operation) ? ACL_BOOL : dtype);
  plan.launch(kernel_of(parameters), {first, second}, {to}, parameters);
}

void set_alpha(const aclScalar* alpha, bool negative, BinaryParameters& parameters) {
  require_pointer(alpha, "alpha");
  parameters.alpha = negative ? -alpha->as_double() : alpha->as_double();
  parameters.integer_alpha = negative ? -alpha->as_integer() : alpha->as_integer();
}

void build_binary(Plan& plan, Binary operation, const aclTensor* self, const aclTensor* other, aclTensor* out,
                  const aclScalar* alpha = nullptr, bool negative = false) {
  const TensorArgument a = plan.input(self, "self");
  const TensorArgument b = plan.input(other, "other");
  const TensorArgument to = plan.output(out, "out");
  BinaryParameters parameters{.operation = operation};
  if (operation == Binary::kAdd) set_alpha(alpha, negative, parameters);
  add_binary(plan, a, b, to, parameters);
}

void build_in_place(Plan& plan, Binary operation, aclTensor* self, const aclTensor* other,
                    const aclScalar* alpha = nullptr) {
  const TensorArgument a = plan.in_place(self, "selfRef");
  const TensorArgument b = plan.input(other, "other");
  BinaryParameters parameters{.operation = operation};
  if (operation == Binary::kAdd) set_alpha(alpha, false, parameters);
  add_binary(plan, a, b, a, parameters);
}

void build_scalar(Plan& plan, Binary operation, const aclTensor* self, const aclScalar* other, aclTensor* out,
                  const aclScalar* alpha = nullptr) {
  const TensorArgument a = plan.input(self, "self");
  require_pointer(other, "other");
  const TensorArgument to = plan.output(out, "out");
  BinaryParameters parameters{.operation = operation, .has_tensor = 0};
  parameters.scalar = other->as_double();
  parameters.integer_scalar = other->as_integer();
  if (operation == Binary::kAdd) set_alpha(alpha, false, parameters);
  require(!other->is_real() || is_float(a.dtype), "a floating-point scalar with integers");
  add_binary(plan, a, {}, to, parameters);
}

}  // namespace
}  // namespace reprise::emulator

using namespace reprise::emulator;

extern "C" {

aclnnStatus aclnnAddGetWorkspaceSize(const aclTensor* self, const aclTensor* other, const aclScalar* alpha,
                                     aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnAdd", EMULATOR_GIVEN(self, other, alpha, out), workspaceSize, executor,
                   [&](Plan& plan) { build_binary(plan, Binary::kAdd, self, other, out, alpha); });
}

aclnnStatus aclnnSubGetWorkspaceSize(const aclTensor* self, const aclTensor* other, const aclScalar* alpha,
                                     aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnSub", EMULATOR_GIVEN(self, other, alpha, out), workspaceSize, executor,
                   [&](Plan& plan) { build_binary(plan, Binary::kAdd, self, other, out, alpha, true); });
}

aclnnStatus aclnnInplaceAddGetWorkspaceSize(aclTensor* selfRef, const aclTensor* other, const aclScalar* alpha,
                                            uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnInplaceAdd", EMULATOR_GIVEN(selfRef, other, alpha), workspaceSize, executor,
                   [&](Plan& plan) { build_in_place(plan, Binary::kAdd, selfRef, other, alpha); });
}

aclnnStatus aclnnAddsGetWorkspaceSize(const aclTensor* self, const aclScalar* other, const aclScalar* alpha,
                                      aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnAdds", EMULATOR_GIVEN(self, other, alpha, out), workspaceSize, executor,
                   [&](Plan& plan) { build_scalar(plan, Binary::kAdd, self, other, out, alpha); });
}

#define EMULATOR_BINARY(name, operation)                                                            \
  aclnnStatus name##GetWorkspaceSize(const aclTensor* self, const aclTensor* other, aclTensor* out, \
                                     uint64_t* workspaceSize, aclOpExecutor** executor) {           \
    return phase_one(#name, EMULATOR_GIVEN(self, other, out), workspaceSize, executor,              \
                     [&](Plan& plan) { build_binary(plan, Binary::operation, self, other, out); }); \
  }
EMULATOR_BINARY(aclnnMul, kMul)
EMULATOR_BINARY(aclnnDiv, kDiv)
EMULATOR_BINARY(aclnnMinimum, kMinimum)
EMULATOR_BINARY(aclnnMaximum, kMaximum)
EMULATOR_BINARY(aclnnBitwiseXorTensor, kXor)
EMULATOR_BINARY(aclnnRightShift, kRightShift)
EMULATOR_BINARY(aclnnGeTensor, kGe)
EMULATOR_BINARY(aclnnLtTensor, kLt)
#undef EMULATOR_BINARY

#define EMULATOR_IN_PLACE(name, operation)                                                                \
  aclnnStatus name##GetWorkspaceSize(aclTensor* selfRef, const aclTensor* other, uint64_t* workspaceSize, \
                                     aclOpExecutor** executor) {                                          \
    return phase_one(#name, EMULATOR_GIVEN(selfRef, other), workspaceSize, executor,                      \
                     [&](Plan& plan) { build_in_place(plan, Binary::operation, selfRef, other); });       \
  }
EMULATOR_IN_PLACE(aclnnInplaceMul, kMul)
EMULATOR_IN_PLACE(aclnnInplaceDiv, kDiv)
#undef EMULATOR_IN_PLACE

#define EMULATOR_SCALAR(name, operation)                                                            \
  aclnnStatus name##GetWorkspaceSize(const aclTensor* self, const aclScalar* other, aclTensor* out, \
                                     uint64_t* workspaceSize, aclOpExecutor** executor) {           \
    return phase_one(#name, EMULATOR_GIVEN(self, other, out), workspaceSize, executor,              \
                     [&](Plan& plan) { build_scalar(plan, Binary::operation, self, other, out); }); \
  }
EMULATOR_SCALAR(aclnnMuls, kMul)
EMULATOR_SCALAR(aclnnFloorDivides, kFloorDiv)
EMULATOR_SCALAR(aclnnBitwiseAndScalar, kAnd)
#undef EMULATOR_SCALAR

}  // extern "C"

EMULATOR_PHASE_TWO(aclnnAdd)
EMULATOR_PHASE_TWO(aclnnSub)
EMULATOR_PHASE_TWO(aclnnInplaceAdd)
EMULATOR_PHASE_TWO(aclnnAdds)
EMULATOR_PHASE_TWO(aclnnMul)
EMULATOR_PHASE_TWO(aclnnMuls)
EMULATOR_PHASE_TWO(aclnnInplaceMul)
EMULATOR_PHASE_TWO(aclnnDiv)
EMULATOR_PHASE_TWO(aclnnInplaceDiv)
EMULATOR_PHASE_TWO(aclnnFloorDivides)
EMULATOR_PHASE_TWO(aclnnMinimum)
EMULATOR_PHASE_TWO(aclnnMaximum)
EMULATOR_PHASE_TWO(aclnnBitwiseAndScalar)
EMULATOR_PHASE_TWO(aclnnBitwiseXorTensor)
EMULATOR_PHASE_TWO(aclnnRightShift)
EMULATOR_PHASE_TWO(aclnnGeTensor)
EMULATOR_PHASE_TWO(aclnnLtTensor)
