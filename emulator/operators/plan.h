// The first phase of an operator's call: arguments become kernels.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "emulator/operators/chip_support.h"
#include "emulator/operators/given.h"
#include "emulator/operators/kernel_arguments.h"
#include "emulator/operators/meta/executor.h"
#include "emulator/operators/operator_error.h"

namespace reprise::emulator {

/// Which cores a kernel's blocks are spread over.
enum class Cores { kCube, kVector };

/// Collects an operator's tensors, in the order of its signature, and its kernels. What operators take as strided views
/// but kernels want contiguous is copied by kernels of its own, as on the device.
class Plan {
 public:
  explicit Plan(const char* name);

  /// An argument that must be there; throws when it is null.
  TensorArgument input(const aclTensor* tensor, const char* name);
  TensorArgument optional_input(const aclTensor* tensor);
  TensorArgument output(const aclTensor* tensor, const char* name);
  /// An absent one is not defined.
  TensorArgument optional_output(const aclTensor* tensor);
  /// Read and written.
  TensorArgument in_place(const aclTensor* tensor, const char* name);
  /// The tensors of a list; empty when the list is null.
  std::vector<TensorArgument> input_list(const aclTensorList* list);
  std::vector<TensorArgument> output_list(const aclTensorList* list);

  /// The tensor itself, or a copy of it in the workspace: contiguous and of `dtype` (default: its own).
  TensorArgument contiguous(const TensorArgument& tensor, aclDataType dtype = ACL_DT_UNDEFINED);
  /// Where a kernel writes what shall be `tensor`: itself, or a contiguous one of `dtype` that finish() copies there.
  TensorArgument staged(const TensorArgument& tensor, aclDataType dtype = ACL_DT_UNDEFINED);
  /// Memory in the workspace.
  TensorArgument scratch(std::span<const int64_t> dims, aclDataType dtype);
  TensorArgument scratch(std::initializer_list<int64_t> dims, aclDataType dtype) {
    return scratch(std::span(dims.begin(), dims.size()), dtype);
  }

  /// Adds a kernel: first the tensors that it reads, then those that it writes. `work`: into how many parts it can be
  /// cut, which with the limit of cores gives its blocks.
  template <typename Parameters>
  void launch(const Kernel& kernel, std::initializer_list<TensorArgument> reads,
              std::initializer_list<TensorArgument> writes, const Parameters& parameters,
              std::span<const int64_t> tail = {}, int64_t work = -1) {
    launch_bytes(kernel, {reads.begin(), reads.size()}, {writes.begin(), writes.size()}, &parameters,
                 sizeof(parameters), tail, work);
  }
  void launch_bytes(const Kernel& kernel, std::span<const TensorArgument> reads, std::span<const TensorArgument> writes,
                    const void* parameters, size_t parameter_bytes, std::span<const int64_t> tail, int64_t work);

  /// Bytes of workspace beyond what the kernels' tensors take.
  void finish(uint64_t* workspace_bytes, aclOpExecutor** executor);

 private:
  TensorArgument add(const aclTensor* tensor);

  std::unique_ptr<aclOpExecutor> executor_;
  struct Staged {
    TensorArgument from, to;
  };
  std::vector<Staged> staged_;
};

/// A tensor seen with another shape of as many elements; it must be contiguous.
TensorArgument reshaped(const TensorArgument& tensor, std::initializer_list<int64_t> dims);

/// The cores that kernels prepared by this thread may use: at least 1.
uint32_t core_limit(Cores cores);

/// Runs `build` with a plan and gives what it made, or the status of the error that it threw. The call is `name` with
/// the suffix, and was given all arguments but the last two.
template <typename Build>
aclnnStatus phase_one(const char* name, const Given& given, uint64_t* workspace_bytes, aclOpExecutor** executor,
                      Build build, const char* suffix = "GetWorkspaceSize");

/// Launches an executor's kernels on a stream; the second phase of every operator.
aclnnStatus phase_two(const char* name, void* workspace, uint64_t workspace_bytes, aclOpExecutor* executor,
                      aclrtStream stream);

template <typename Build>
aclnnStatus phase_one(const char* name, const Given& given, uint64_t* workspace_bytes, aclOpExecutor** executor,
                      Build build, const char* suffix) {
  const std::string full_name = std::string(name).append(suffix);
  OperatorCall call(full_name.c_str(), given);
  if (call.fault() != ACLNN_SUCCESS) return call.end(call.fault(), "injected fault");
  try {
    require_pointer(workspace_bytes, "workspaceSize");
    require_pointer(executor, "executor");
    require_operator(name);
    Plan plan(name);
    build(plan);
    plan.finish(workspace_bytes, executor);
    call.answer("workspaceSize", *workspace_bytes);
    call.answer("executor", *executor);
    return call.end(ACLNN_SUCCESS, {});
  } catch (const OperatorError& error) {
    return call.end(error.status(), error.what());
  } catch (const std::exception& error) {
    return call.end(ACLNN_ERR_INNER, error.what());
  }
}

}  // namespace reprise::emulator

/// The second phase of an operator, which is the same for all.
#define EMULATOR_PHASE_TWO(operator_name)                                                                \
  extern "C" aclnnStatus operator_name(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, \
                                       aclrtStream stream) {                                             \
    return reprise::emulator::phase_two(#operator_name, workspace, workspaceSize, executor, stream);     \
  }
