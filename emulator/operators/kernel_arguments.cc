#include "emulator/operators/kernel_arguments.h"

#include <algorithm>

#include "emulator/kernel.h"

namespace reprise::emulator {
namespace {

size_t rounded_up(size_t bytes) { return (bytes + 7) / 8 * 8; }

}  // namespace

std::vector<std::byte> pack_arguments(std::span<const TensorArgument> tensors, const void* parameters,
                                      size_t parameter_bytes, std::span<const int64_t> tail) {
  ArgumentHeader header;
  header.tensors = static_cast<uint32_t>(tensors.size());
  header.parameter_bytes = static_cast<uint32_t>(rounded_up(parameter_bytes));
  header.tail = tail.size();
  std::vector<std::byte> bytes(sizeof(header) + tensors.size_bytes() + header.parameter_bytes + tail.size_bytes());
  std::byte* to = bytes.data();
  std::memcpy(to, &header, sizeof(header));
  to += sizeof(header);
  if (!tensors.empty()) std::memcpy(to, tensors.data(), tensors.size_bytes());
  to += tensors.size_bytes();
  if (parameter_bytes > 0) std::memcpy(to, parameters, parameter_bytes);
  to += header.parameter_bytes;
  if (!tail.empty()) std::memcpy(to, tail.data(), tail.size_bytes());
  return bytes;
}

void place_tensors(std::span<std::byte> arguments, std::span<void* const> slot_addresses, void* workspace) {
  const size_t count = reinterpret_cast<const ArgumentHeader*>(arguments.data())->tensors;
  auto* tensors = reinterpret_cast<TensorArgument*>(arguments.data() + sizeof(ArgumentHeader));
  for (TensorArgument& tensor : std::span(tensors, count)) {
    if (!tensor.defined()) continue;
    tensor.data = tensor.slot >= 0 ? slot_addresses[static_cast<size_t>(tensor.slot)]
                                   : static_cast<std::byte*>(workspace) + tensor.workspace_offset;
  }
}

TensorBytes bytes_of(const TensorArgument& tensor) {
  if (tensor.data == nullptr || tensor.elements() == 0) return {};
  int64_t lowest = tensor.offset;
  int64_t highest = tensor.offset;
  for (size_t axis = 0; axis < static_cast<size_t>(tensor.rank) && !tensor.is_nz(); ++axis) {
    const int64_t reach = (tensor.dims[axis] - 1) * tensor.strides[axis];
    (reach < 0 ? lowest : highest) += reach;
  }
  if (tensor.is_nz()) highest = lowest + tensor.storage_elements - 1;
  const auto size = static_cast<int64_t>(size_of(tensor.dtype));
  return {static_cast<const std::byte*>(tensor.data) + lowest * size,
          static_cast<size_t>((highest - lowest + 1) * size), (tensor.offset - lowest) * size};
}

bool find_tensors(std::span<const TensorArgument> tensors, std::span<HostTensor> found) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorArgument& tensor = tensors[i];
    found[i] = HostTensor(tensor, nullptr);
    if (tensor.elements() == 0) continue;
    const TensorBytes range = bytes_of(tensor);
    void* host = range.address == nullptr ? nullptr : emulatorHostAddress(range.address, range.bytes);
    if (host == nullptr) return false;
    found[i] = HostTensor(tensor, static_cast<std::byte*>(host) + range.first);
  }
  return true;
}

void visit_memory(std::span<const TensorArgument> tensors, EmulatorMemoryVisitor visit, void* context) {
  for (const TensorArgument& tensor : tensors) {
    const TensorBytes range = bytes_of(tensor);
    if (range.address != nullptr) visit(context, range.address, range.bytes, tensor.access == Access::kWrite);
  }
}

}  // namespace reprise::emulator
