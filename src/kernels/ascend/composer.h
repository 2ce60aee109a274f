#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "device/ascend/ascend_stream.h"
#include "kernels/ascend/aclnn_arguments.h"
#include "kernels/ascend/aclnn_table.h"
#include "kernels/ascend/executor_cache.h"
#include "kernels/ascend/workspace_sizes.h"
#include "ops/op_def.h"

namespace reprise::kernels::ascend {

/// What kernels need beside their call: OpKernel::resources of every operator on this device.
struct AscendResources {
  const device::ascend::AclLibrary& library;
  AclnnTable table;
  /// Of attention: uint8 [2048, 2048], 1 where the column is behind the row. Its memory keeps the library open.
  Tensor causal_mask;
  Tensor one;                    ///< float32 [1]
  bool newer_attention = false;  ///< version 5, the only one that an Ascend 950 has; others have not got it
  // Of calls that came before.
  std::unique_ptr<WorkspaceSizes> workspaces{};
  std::unique_ptr<ExecutorCache> executors{};
};

/// Makes one operator of the catalogue out of calls of aclnn. The same description of an operator does two things:
/// launch it, with intermediates and workspaces from the call's workspace; or measure the workspace that this takes, by
/// the first phases alone and without memory.
class Composer {
 public:
  /// For a launch.
  explicit Composer(const ops::OpCall& call);
  /// Bytes that `compose` needs for a call of which only shapes are known.
  static size_t measure(const ops::OpCall& call, void (*compose)(Composer&));

  const ops::OpCall& call() const { return call_; }
  const AclnnTable& aclnn() const { return resources_.table; }
  const AscendResources& resources() const { return resources_; }
  bool measures() const { return stream_ == nullptr; }

  bool has(size_t input) const { return call_.inputs[input].defined(); }
  TensorView input(size_t index) const { return TensorView::of(call_.inputs[index]); }
  TensorView output(size_t index) const { return TensorView::of(outputs_[index]); }
  const Tensor& output_tensor(size_t index) const { return outputs_[index]; }

  /// Memory for an intermediate, from here to the end of the operator.
  TensorView scratch(aclDataType dtype, std::initializer_list<int64_t> sizes);
  /// Of the sizes of another tensor.
  TensorView scratch_like(const TensorView& like, aclDataType dtype);

  /// One call of aclnn; the arguments are those of its first phase but the last two. kUnsupported when the installed
  /// libraries do not have it, and otherwise errors name the call, its status and what AscendCL says of it.
  template <typename FirstPhase, typename... Arguments>
  void launch(const AclnnOperator<FirstPhase>& op, const Arguments&... arguments) {
    launch_with(op, op.first, op.first_name, arguments...);
  }
  /// Where another function tells the workspace for all host values: it is asked when measuring.
  template <typename FirstPhase, typename... Arguments>
  void launch_measured_by(FirstPhase measure_phase, const AclnnOperator<FirstPhase>& op,
                          const Arguments&... arguments) {
    const bool asks = measures() && measure_phase != nullptr;
    launch_with(op, asks ? measure_phase : op.first, asks ? "GetMaxWorkspaceSize" : op.first_name, arguments...);
  }

 private:
  class Launch;
  static size_t measure_anew(const ops::OpCall& call, void (*compose)(Composer&));
  Composer(const ops::OpCall& call, std::span<const Tensor> outputs);

  template <typename FirstPhase, typename... Arguments>
  void launch_with(const AclnnOperator<FirstPhase>& op, FirstPhase first, const char* first_name,
                   const Arguments&... arguments) {
    if (!op.available()) fail_missing(op.name);
    Call made{.name = op.name, .second = op.second};
    (made.signature.add(arguments), ...);
    if (find_executor(made)) return finish(std::move(made));
    PreparedExecutor& prepared = made.prepared;
    prepared.arguments = std::make_unique<AclnnArguments>(resources_.library);
    const std::optional<device::ascend::LimitScope> limit = limit_scope();
    // In braces, so that they are given in their order.
    const std::tuple<decltype(prepared.arguments->give(arguments))...> given{prepared.arguments->give(arguments)...};
    const aclnnStatus status = std::apply(
        [&](const auto&... all) { return first(all..., &prepared.workspace_bytes, &prepared.executor); }, given);
    if (status != ACLNN_SUCCESS) fail_phase(status, first_name);
    finish(std::move(made));
  }

  /// A call on its way from the arguments to the launch.
  struct Call {
    const char* name = nullptr;
    aclnnStatus (*second)(void*, uint64_t, aclOpExecutor*, aclrtStream) = nullptr;
    AclnnSignature signature{};
    PreparedExecutor prepared{};
    /// Where the executor goes behind the call; absent when it serves this one only.
    std::optional<ExecutorCache::Key> key{};
    bool is_used_again = false;  ///< the executor comes from there
  };
  /// Whether a call before this one has left an executor for it.
  bool find_executor(Call& made);
  std::optional<device::ascend::LimitScope> limit_scope();
  void finish(Call made);
  [[noreturn]] void fail_missing(const char* name) const;
  [[noreturn]] void fail_phase(aclnnStatus status, const char* name) const;

  const ops::OpCall& call_;
  const AscendResources& resources_;
  std::span<const Tensor> outputs_;
  device::ascend::AscendStream* stream_ = nullptr;
  size_t scratch_bytes_ = 0;
  size_t workspace_bytes_ = 0;  ///< the largest of all calls
};

}  // namespace reprise::kernels::ascend
