#include "emulator/operators/plan.h"

#include <algorithm>

#include "emulator/operators/copy_kernels.h"

namespace reprise::emulator {
namespace {

constexpr uint64_t kWorkspaceAlignment = 512;

/// The 63 bits that addresses and counts have.
constexpr uint64_t kMostBytes = uint64_t{1} << 62;

uint64_t aligned(uint64_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

int64_t product(std::span<const int64_t> sizes) {
  int64_t result = 1;
  for (const int64_t size : sizes) {
    require(!__builtin_mul_overflow(result, size, &result), "a tensor has more elements than can be counted");
  }
  return result;
}

void set_contiguous(TensorArgument& tensor, std::span<const int64_t> dims) {
  tensor.rank = static_cast<int32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), tensor.dims.begin());
  int64_t stride = 1;
  for (size_t axis = dims.size(); axis-- > 0;) {
    tensor.strides[axis] = stride;
    stride *= dims[axis];
  }
}

TensorArgument describe(const aclTensor& from) {
  TensorArgument tensor;
  tensor.rank = static_cast<int32_t>(from.dims.size());
  std::copy(from.dims.begin(), from.dims.end(), tensor.dims.begin());
  std::copy(from.strides.begin(), from.strides.end(), tensor.strides.begin());
  tensor.offset = from.offset;
  tensor.dtype = from.dtype;
  tensor.format = from.format == ACL_FORMAT_FRACTAL_NZ ? ACL_FORMAT_FRACTAL_NZ : ACL_FORMAT_ND;
  tensor.storage_elements = product(from.storage);
  return tensor;
}

}  // namespace

Plan::Plan(const char* name) : executor_(std::make_unique<aclOpExecutor>()) { executor_->name = name; }

TensorArgument Plan::add(const aclTensor* tensor) {
  require_live(tensor, "a tensor");
  require_dtype(tensor->dtype);
  TensorArgument argument = describe(*tensor);
  argument.slot = static_cast<int32_t>(executor_->slots.size());
  executor_->slots.push_back({tensor->data});
  return argument;
}

TensorArgument Plan::input(const aclTensor* tensor, const char* name) {
  require_pointer(tensor, name);
  return optional_input(tensor);
}

TensorArgument Plan::optional_input(const aclTensor* tensor) {
  auto& slots = executor_->inputs.emplace_back();
  if (tensor == nullptr) return {};
  const TensorArgument argument = add(tensor);
  slots.push_back(static_cast<size_t>(argument.slot));
  return argument;
}

TensorArgument Plan::output(const aclTensor* tensor, const char* name) {
  require_pointer(tensor, name);
  return optional_output(tensor);
}

TensorArgument Plan::optional_output(const aclTensor* tensor) {
  auto& slots = executor_->outputs.emplace_back();
  if (tensor == nullptr) return {};
  const TensorArgument argument = add(tensor);
  slots.push_back(static_cast<size_t>(argument.slot));
  return argument;
}

TensorArgument Plan::in_place(const aclTensor* tensor, const char* name) {
  const TensorArgument argument = input(tensor, name);
  executor_->outputs.push_back(executor_->inputs.back());
  return argument;
}

std::vector<TensorArgument> Plan::input_list(const aclTensorList* list) {
  auto& slots = executor_->inputs.emplace_back();
  require_live(list, "a list of tensors");
  std::vector<TensorArgument> arguments;
  for (const aclTensor* tensor : list == nullptr ? std::vector<const aclTensor*>() : list->tensors) {
    require_pointer(tensor, "a tensor of a list");
    arguments.push_back(add(tensor));
    slots.push_back(static_cast<size_t>(arguments.back().slot));
  }
  return arguments;
}

std::vector<TensorArgument> Plan::output_list(const aclTensorList* list) {
  std::vector<TensorArgument> arguments = input_list(list);
  executor_->outputs.push_back(std::move(executor_->inputs.back()));
  executor_->inputs.pop_back();
  return arguments;
}

TensorArgument Plan::contiguous(const TensorArgument& tensor, aclDataType dtype) {
  if (!tensor.defined()) return tensor;
  if (dtype == ACL_DT_UNDEFINED) dtype = tensor.dtype;
  if (tensor.dtype == dtype && tensor.contiguous()) return tensor;
  const TensorArgument copy = scratch(tensor.shape(), dtype);
  launch(tensor.dtype == dtype ? as_strided_kernel() : cast_kernel(), {tensor}, {copy}, 0);
  return copy;
}

TensorArgument Plan::staged(const TensorArgument& tensor, aclDataType dtype) {
  if (!tensor.defined()) return tensor;
  if (dtype == ACL_DT_UNDEFINED) dtype = tensor.dtype;
  if (tensor.dtype == dtype && tensor.contiguous()) return tensor;
  const TensorArgument copy = scratch(tensor.shape(), dtype);
  staged_.push_back({copy, tensor});
  return copy;
}

TensorArgument Plan::scratch(std::span<const int64_t> dims, aclDataType dtype) {
  TensorArgument tensor;
  tensor.dtype = dtype;
  tensor.storage_elements = product(dims);
  set_contiguous(tensor, dims);
  const auto most =
      static_cast<int64_t>((kMostBytes - executor_->workspace_bytes) / std::max<size_t>(size_of(dtype), 1));
  require(tensor.storage_elements < most, "the workspace has more bytes than can be counted");
  tensor.workspace_offset = static_cast<int64_t>(executor_->workspace_bytes);
  executor_->workspace_bytes += aligned(tensor.bytes());
  return tensor;
}

void Plan::launch_bytes(const Kernel& kernel, std::span<const TensorArgument> reads,
                        std::span<const TensorArgument> writes, const void* parameters, size_t parameter_bytes,
                        std::span<const int64_t> tail, int64_t work) {
  std::vector<TensorArgument> tensors(reads.begin(), reads.end());
  tensors.insert(tensors.end(), writes.begin(), writes.end());
  int64_t written = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) continue;
    tensors[i].access = i < reads.size() ? Access::kRead : Access::kWrite;
    if (i >= reads.size()) written = std::max(written, tensors[i].elements());
  }
  if (written == 0) return;  // an empty tensor costs no kernel
  constexpr int64_t kElementsOfBlock = 1024;
  if (work < 0) work = (written + kElementsOfBlock - 1) / kElementsOfBlock;
  const bool cube = kernel.type == KernelType::kAiCore || kernel.type == KernelType::kMix;
  Launch launch;
  launch.kernel = &kernel;
  launch.blocks = static_cast<uint32_t>(std::clamp<int64_t>(work, 1, core_limit(cube ? Cores::kCube : Cores::kVector)));
  launch.arguments = pack_arguments(tensors, parameters, parameter_bytes, tail);
  executor_->launches.push_back(std::move(launch));
}

void Plan::finish(uint64_t* workspace_bytes, aclOpExecutor** executor) {
  for (const auto& [from, to] : staged_) {
    launch(from.dtype == to.dtype ? view_copy_kernel() : cast_kernel(), {from}, {to}, 0);
  }
  *workspace_bytes = executor_->workspace_bytes;
  emulatorAdoptExecutor(executor_.get());
  *executor = executor_.release();
}

TensorArgument reshaped(const TensorArgument& tensor, std::initializer_list<int64_t> dims) {
  TensorArgument result = tensor;
  set_contiguous(result, {dims.begin(), dims.size()});
  return result;
}

uint32_t core_limit(Cores cores) {
  uint32_t limit = 0;
  const auto type = cores == Cores::kCube ? ACL_RT_DEV_RES_CUBE_CORE : ACL_RT_DEV_RES_VECTOR_CORE;
  // Without a device in this thread the tiling knows of one core only.
  if (aclrtGetResInCurrentThread(type, &limit) != ACL_SUCCESS) return 1;
  return std::max<uint32_t>(limit, 1);
}

namespace {

/// Why an executor cannot be launched; ACLNN_SUCCESS when it can. Then it is used.
OperatorError take_executor(const char* name, const void* workspace, uint64_t workspace_bytes,
                            aclOpExecutor* executor) {
  if (executor == nullptr) return {ACLNN_ERR_PARAM_NULLPTR, "executor is a null pointer"};
  if (!emulatorTakeExecutor(executor)) {
    return {ACLNN_ERR_INNER_CREATE_EXECUTOR, "the executor was used before, or is none"};
  }
  if (executor->name != name) {
    return {ACLNN_ERR_INNER_NOT_TRANS_EXECUTOR, formatted("the executor is one of {}", {executor->name})};
  }
  if (executor->workspace_bytes > 0 && workspace == nullptr) {
    return {ACLNN_ERR_PARAM_NULLPTR, "workspace is a null pointer"};
  }
  if (executor->workspace_bytes > workspace_bytes) {
    return {ACLNN_ERR_PARAM_INVALID,
            formatted("the workspace has {} bytes, expected {}", {workspace_bytes, executor->workspace_bytes})};
  }
  return {ACLNN_SUCCESS, ""};
}

}  // namespace

aclnnStatus phase_two(const char* name, void* workspace, uint64_t workspace_bytes, aclOpExecutor* executor,
                      aclrtStream stream) {
  OperatorCall call(name,
                    {"workspace, workspaceSize, executor, stream", {workspace, workspace_bytes, executor, stream}});
  if (call.fault() != ACLNN_SUCCESS) {
    // As on the device: a second phase that fails takes its executor with it too.
    if (executor != nullptr) (void)emulatorTakeExecutor(executor);
    return call.end(call.fault(), "injected fault");
  }
  const OperatorError refusal = take_executor(name, workspace, workspace_bytes, executor);
  if (refusal.status() != ACLNN_SUCCESS) return call.end(refusal.status(), refusal.what());
  std::vector<void*> addresses;
  for (const Slot& slot : executor->slots) addresses.push_back(slot.address);
  for (Launch& launch : executor->launches) {
    place_tensors(launch.arguments, addresses, workspace);
    // What a launch hands on is const to it; the handle's type is not.
    auto* handle = const_cast<Kernel*>(launch.kernel);
    const aclError error =
        aclrtLaunchKernelV2(handle, launch.blocks, launch.arguments.data(), launch.arguments.size(), nullptr, stream);
    if (error != ACL_SUCCESS) {
      return call.end(ACLNN_ERR_RUNTIME_ERROR, formatted("launching {} failed with {}", {launch.kernel->name, error}));
    }
  }
  return call.end(ACLNN_SUCCESS, {});
}

}  // namespace reprise::emulator
