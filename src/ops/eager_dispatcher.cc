#include "ops/eager_dispatcher.h"

#include <vector>

#include "base/error.h"
#include "device/observer.h"
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
                .stream = lane().stream};
    labels_ != nullptr&& device_.observer() != nullptr ? run_labelled(entry, call) : run(entry, call);
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

void EagerDispatcher::run_labelled(const Entry& entry, OpCall& call) {
  const uint16_t label = labels_->of(call.op, call.inputs);
  const device::HostSpan span(device_, call.op.name(), label);
  call.stream->annotate(label);
  try {
    run(entry, call);
  } catch (...) {
    call.stream->annotate(0);
    throw;
  }
  call.stream->annotate(0);
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
  tiling_.clear();
  kernel.plan(call, tiling_);
  call.tiling = &tiling_;
}

void EagerDispatcher::prepare_workspace(const OpKernel& kernel, OpCall& call) {
  const size_t bytes = kernel.max_workspace(call);
  if (bytes == 0) return;
  Tensor& workspace = lane().workspace;
  if (!workspace.defined() || workspace.meta().contiguous_bytes() < bytes) {
    workspace = Tensor(TensorMeta(DType::kU8, Shape{static_cast<int64_t>(bytes)}), device_.allocate(bytes));
  }
  call.workspace = workspace;
}

void EagerDispatcher::scope(const ScopeChange& change, std::source_location where) {
  if (scopes_.empty()) outer_limit_ = stream_.core_limit();
  try {
    change_scope(change, where);
  } catch (...) {
    apply_core_limit();
    throw;
  }
  apply_core_limit();
}

void EagerDispatcher::change_scope(const ScopeChange& change, std::source_location where) {
  if (const auto* enter = std::get_if<EnterStream>(&change)) {
    const int32_t number = side_stream(enter->name);
    scopes_.enter_stream(enter->scope, number, where);
    fork(lane());
  } else if (const auto* limit = std::get_if<EnterCoreLimit>(&change)) {
    scopes_.enter_core_limit(limit->scope, limit->limit, device_.capabilities().cores, where);
  } else if (const auto* exit = std::get_if<ExitScope>(&change)) {
    scopes_.exit(*exit);
  } else if (const auto* record = std::get_if<RecordEvent>(&change)) {
    NamedEvent& named = event(record->name);
    lane().stream->record(*named.event);
    named.recorded = true;
  } else if (const auto* wait = std::get_if<WaitEvent>(&change)) {
    NamedEvent& named = event(wait->name);
    if (!named.recorded) {
      throw Error(ErrorCode::kInvalidArgument, "{}: wait_event for '{}', which is not recorded before it",
                  source_text(where), wait->name)
          .remedy("call record_event first, on the stream that is waited for");
    }
    lane().stream->wait(*named.event);
  }
}

/// A limit holds on whatever stream is current.
void EagerDispatcher::apply_core_limit() {
  const device::CoreLimit inner = scopes_.core_limit();
  const device::CoreLimit limit = inner == device::CoreLimit{} ? outer_limit_ : inner;
  if (!(lane().stream->core_limit() == limit)) lane().stream->set_core_limit(limit);
}

int32_t EagerDispatcher::side_stream(std::string_view name) {
  const auto known = lane_numbers_.find(name);
  if (known != lane_numbers_.end()) return known->second;
  ScopeStack::check_name(name, "stream");
  Lane made;
  made.owned = device_.create_stream({stream_.options().priority, std::string(name)});
  made.stream = made.owned.get();
  made.fork = device_.create_event();
  made.join = device_.create_event();
  lanes_.push_back(std::move(made));
  const auto number = static_cast<int32_t>(lanes_.size() - 1);
  lane_numbers_.emplace(name, number);
  return number;
}

void EagerDispatcher::fork(Lane& lane) {
  stream_.record(*lane.fork);
  lane.stream->wait(*lane.fork);
  lane.open = true;
}

EagerDispatcher::NamedEvent& EagerDispatcher::event(std::string_view name) {
  const auto known = events_.find(name);
  if (known != events_.end()) return known->second;
  ScopeStack::check_name(name, "event");
  return events_.emplace(std::string(name), NamedEvent{device_.create_event(), false}).first->second;
}

void EagerDispatcher::begin_outside() {
  const Lane& current = lane();
  if (current.stream == &stream_) return;
  current.stream->record(*current.join);
  stream_.wait(*current.join);
}

void EagerDispatcher::end_outside() {
  const Lane& current = lane();
  if (current.stream == &stream_) return;
  stream_.record(*current.fork);
  current.stream->wait(*current.fork);
}

void EagerDispatcher::finish_method() {
  for (Lane& side : lanes_) {
    if (!side.open) continue;
    side.stream->record(*side.join);
    stream_.wait(*side.join);
    side.open = false;
  }
  for (auto& [_, named] : events_) named.recorded = false;
  if (scopes_.empty()) return scopes_.finish();
  try {
    scopes_.finish();
  } catch (...) {
    apply_core_limit();
    throw;
  }
}

}  // namespace reprise::ops
