#include "ops/eager_dispatcher.h"

#include <vector>

#include "base/error.h"
#include "ops/checks.h"

namespace reprise::ops {
namespace {

void require_memory(const OpCall& call) {
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const Tensor& input = call.inputs[i];
    if (!input.defined() || input.data() != nullptr) continue;
    if (input.is_meta() && input.shape().elements() == 0) continue;
    throw Error(ErrorCode::kFailedPrecondition, "{}: argument '{}' has no memory, so the operator cannot run",
                call.op.name(), call.op.schema().tensors[i].name);
  }
}

}  // namespace

void EagerDispatcher::dispatch(std::string_view op, std::span<const Tensor> inputs, std::span<const HostList> lists,
                               std::span<const Attribute> attributes, std::span<Tensor> outputs,
                               std::source_location where) {
  ++dispatches_;
  try {
    const Entry& entry = find(op);
    OpCall call{.op = *entry.op,
                .inputs = inputs,
                .lists = lists,
                .attributes = attributes,
                .outputs = outputs,
                .stream = &stream_};
    run(entry, call);
  } catch (Error& error) {
    error.add_context(fmt::format("{}:{}", where.file_name(), where.line()));
    throw;
  }
}

const EagerDispatcher::Entry& EagerDispatcher::find(std::string_view op) {
  // Literals lie within a few kilobytes of each other: the lowest bits tell them apart best.
  const auto address = reinterpret_cast<uintptr_t>(op.data());
  Entry& entry = entries_[(address ^ (address >> 7)) % entries_.size()];
  // The address alone would not do: a name on the heap may have been another one before.
  if (entry.op == nullptr || entry.op->name() != op) {
    const OpDef& found = registry_.get(op);
    entry = {&found, found.kernel(device_.name())};
  }
  return entry;
}

void EagerDispatcher::run(const Entry& entry, OpCall& call) {
  check_call(call);
  REPRISE_CHECK(call.outputs.size() == call.op.schema().outputs.size());
  // One result is the rule, and needs no allocation.
  TensorMeta single;
  std::vector<TensorMeta> several(call.outputs.size() > 1 ? call.outputs.size() : 0);
  const std::span<TensorMeta> metas =
      several.empty() ? std::span(&single, call.outputs.size()) : std::span<TensorMeta>(several);
  call.op.infer(call, metas);
  if (call.op.traits().view) {
    call.outputs[0] = call.inputs[0].with_meta(metas[0], call.op.view_offset(call));
    return;
  }

  if (entry.kernel == nullptr) [[unlikely]] {
    throw Error(ErrorCode::kUnsupported, "operator '{}' has no kernel on device '{}'", call.op.name(), device_.name());
  }
  require_memory(call);
  const OpKernel& kernel = *entry.kernel;
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const size_t bytes =
        kernel.output_storage == nullptr ? metas[i].contiguous_bytes() : kernel.output_storage(call, i, metas[i]);
    call.outputs[i] = Tensor(metas[i], device_.allocate(bytes));
  }
  if (kernel.plan != nullptr) prepare_tiling(kernel, call);
  if (kernel.max_workspace != nullptr) prepare_workspace(kernel, call);
  kernel.run(call);
}

void EagerDispatcher::prepare_tiling(const OpKernel& kernel, OpCall& call) {
  tiling_.values.clear();
  tiling_.tiles = 0;
  kernel.plan(call, tiling_);
  call.tiling = &tiling_;
}

void EagerDispatcher::prepare_workspace(const OpKernel& kernel, OpCall& call) {
  const size_t bytes = kernel.max_workspace(call);
  if (bytes == 0) return;
  if (!workspace_.defined() || workspace_.meta().contiguous_bytes() < bytes) {
    workspace_ = Tensor(TensorMeta(DType::kU8, Shape{static_cast<int64_t>(bytes)}), device_.allocate(bytes));
  }
  call.workspace = workspace_;
}

}  // namespace reprise::ops
