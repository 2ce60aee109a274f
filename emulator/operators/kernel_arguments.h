// The arguments of an operator's kernel: a header, tensors, parameters and a tail of integers, one after the other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "emulator/kernel.h"
#include "emulator/operators/meta/numbers.h"
#include "emulator/operators/meta/tensor.h"

namespace reprise::emulator {

inline constexpr size_t kMostDims = 8;

/// What a kernel does with a tensor.
enum class Access : uint32_t { kNone, kRead, kWrite };

/// A tensor as a kernel is told of it. An optional tensor that is absent has no access and a rank of -1.
struct TensorArgument {
  void* data = nullptr;  ///< the address of its storage on the device
  int64_t offset = 0;    ///< elements from there to the first one
  std::array<int64_t, kMostDims> dims{};
  std::array<int64_t, kMostDims> strides{};  ///< in elements
  int64_t storage_elements = 0;              ///< with FRACTAL_NZ: all, with the padding
  int32_t rank = -1;
  aclDataType dtype = ACL_DT_UNDEFINED;
  aclFormat format = ACL_FORMAT_ND;
  Access access = Access::kNone;
  int32_t slot = -1;             ///< of the executor; -1: in the workspace
  int64_t workspace_offset = 0;  ///< in bytes

  bool defined() const { return rank >= 0; }
  bool is_nz() const { return format == ACL_FORMAT_FRACTAL_NZ; }
  int64_t elements() const;
  /// Of the axis counted from the last one: size_back(1) is the number of columns.
  int64_t size_back(int32_t from_end) const { return dims[static_cast<size_t>(rank - from_end)]; }
  int64_t stride_back(int32_t from_end) const { return strides[static_cast<size_t>(rank - from_end)]; }
  /// All axes but the last: 1 for a vector or a scalar.
  int64_t rows() const;
  int64_t columns() const { return rank == 0 ? 1 : size_back(1); }
  bool contiguous() const;
  std::span<const int64_t> shape() const { return {dims.data(), static_cast<size_t>(rank)}; }
  uint64_t bytes() const { return static_cast<uint64_t>(elements()) * size_of(dtype); }
};

inline int64_t TensorArgument::elements() const {
  if (rank < 0) return 0;
  int64_t count = 1;
  for (const int64_t size : shape()) count *= size;
  return count;
}

inline int64_t TensorArgument::rows() const {
  int64_t count = 1;
  for (int32_t axis = 0; axis + 1 < rank; ++axis) count *= dims[static_cast<size_t>(axis)];
  return count;
}

inline bool TensorArgument::contiguous() const {
  int64_t expected = 1;
  for (int32_t axis = rank; axis-- > 0;) {
    const auto i = static_cast<size_t>(axis);
    if (dims[i] != 1 && strides[i] != expected) return elements() == 0;
    expected *= dims[i];
  }
  return true;
}

struct ArgumentHeader {
  uint32_t tensors = 0;
  uint32_t parameter_bytes = 0;
  uint64_t tail = 0;
};

/// The bytes of all that; `parameters` is copied as it is.
std::vector<std::byte> pack_arguments(std::span<const TensorArgument> tensors, const void* parameters,
                                      size_t parameter_bytes, std::span<const int64_t> tail);

/// Views on packed arguments.
class ArgumentReader {
 public:
  explicit ArgumentReader(const void* arguments) : bytes_(static_cast<const std::byte*>(arguments)) {}
  const ArgumentHeader& header() const { return *reinterpret_cast<const ArgumentHeader*>(bytes_); }
  std::span<const TensorArgument> tensors() const {
    return {reinterpret_cast<const TensorArgument*>(bytes_ + sizeof(ArgumentHeader)), header().tensors};
  }
  const void* parameters() const { return bytes_ + sizeof(ArgumentHeader) + tensors().size_bytes(); }
  std::span<const int64_t> tail() const {
    const auto* after = static_cast<const std::byte*>(parameters()) + header().parameter_bytes;
    return {reinterpret_cast<const int64_t*>(after), header().tail};
  }

 private:
  const std::byte* bytes_;
};

/// Fills in where the tensors are: slots and workspace.
void place_tensors(std::span<std::byte> arguments, std::span<void* const> slot_addresses, void* workspace);

/// A tensor of a running kernel, in the host's memory.
class HostTensor {
 public:
  HostTensor() = default;
  HostTensor(const TensorArgument& argument, std::byte* first) : argument_(&argument), first_(first) {}

  const TensorArgument& operator*() const { return *argument_; }
  const TensorArgument* operator->() const { return argument_; }
  bool defined() const { return argument_->defined(); }
  /// The first element of the view.
  template <typename T>
  T* data() const {
    return reinterpret_cast<T*>(first_);
  }
  /// The element that many elements behind the first one.
  std::byte* at(int64_t element) const { return first_ + element * static_cast<int64_t>(size_of(argument_->dtype)); }

 private:
  const TensorArgument* argument_ = nullptr;
  std::byte* first_ = nullptr;
};

/// The bytes of device memory between a tensor's first element in memory and its last; none for an empty one.
struct TensorBytes {
  const std::byte* address = nullptr;
  size_t bytes = 0;
  int64_t first = 0;  ///< bytes from there to the view's first element
};
TensorBytes bytes_of(const TensorArgument& tensor);

/// Visits what a kernel reads and writes.
void visit_memory(std::span<const TensorArgument> tensors, EmulatorMemoryVisitor visit, void* context);

/// Asks the runtime where each tensor is; false when one is not wholly inside a live allocation.
bool find_tensors(std::span<const TensorArgument> tensors, std::span<HostTensor> found);

}  // namespace reprise::emulator
