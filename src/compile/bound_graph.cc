#include "compile/bound_graph.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "device/observer.h"

namespace reprise::compile {
namespace {

constexpr device::CoreLimit kNone;

/// From the first to the last element of a tensor; of one that does not lie plainly, whatever its storage holds. False
/// when that is not known.
bool add_access(std::vector<device::MemoryAccess>& accesses, const Tensor& tensor, bool writes) {
  if (!tensor.defined() || tensor.data() == nullptr) return true;
  if (!tensor.format().is_plain()) {
    if (tensor.storage() == nullptr) return false;
    accesses.push_back({tensor.storage()->data(), tensor.storage()->bytes(), writes});
    return true;
  }
  int64_t elements = 1;
  for (size_t axis = 0; axis < tensor.rank(); ++axis) {
    if (tensor.size(axis) == 0) return true;
    elements += (tensor.size(axis) - 1) * tensor.stride(axis);
  }
  accesses.push_back({tensor.data(), static_cast<size_t>(elements) * size_of(tensor.dtype()), writes});
  return true;
}

/// Gives a stream back the limit that it had, also behind an error.
class LimitGuard {
 public:
  explicit LimitGuard(device::Stream& stream) : stream_(stream), limit_(stream.core_limit()) {}
  LimitGuard(const LimitGuard&) = delete;
  LimitGuard& operator=(const LimitGuard&) = delete;
  ~LimitGuard() {
    try {
      if (!(stream_.core_limit() == limit_)) stream_.set_core_limit(limit_);
    } catch (const Error& error) {
      log_error("a core limit could not be taken back: {}", error.what());
    }
  }
  device::CoreLimit limit() const { return limit_; }

 private:
  device::Stream& stream_;
  device::CoreLimit limit_;
};

}  // namespace

void BoundGraph::Node::plan(std::span<const ops::HostList> step_lists) {
  for (size_t i = 0; i < list_indices.size(); ++i) lists[i] = step_lists[static_cast<size_t>(list_indices[i])];
  if (kernel->plan == nullptr) return;
  tiling.clear();
  kernel->plan({*op, inputs, lists, attributes, outputs, nullptr, workspace, nullptr}, tiling);
}

void BoundGraph::Node::launch(device::Stream& stream) {
  kernel->run(
      {*op, inputs, lists, attributes, outputs, &stream, workspace, kernel->plan == nullptr ? nullptr : &tiling});
}

BoundGraph::BoundGraph(std::vector<Node> nodes, std::vector<Tensor> outputs, std::vector<std::string> side_streams,
                       size_t events)
    : nodes_(std::move(nodes)),
      outputs_(std::move(outputs)),
      side_stream_names_(std::move(side_streams)),
      event_count_(events) {
  has_limits_ =
      std::any_of(nodes_.begin(), nodes_.end(), [](const Node& node) { return node.kind == Kind::kCoreLimit; });
}

BoundGraph::~BoundGraph() = default;

void BoundGraph::run(device::Stream& stream, std::span<const ops::HostList> lists, ops::UpdateRecorder* recorder,
                     int64_t first, int64_t last) {
  if (!side_stream_names_.empty() && (first != 0 || last != size())) {
    throw Error(ErrorCode::kUnsupported, "a graph with side streams ('{}') cannot be run in pieces",
                side_stream_names_[0])
        .remedy("capture it as a whole (mode full), or leave out the stream scopes");
  }
  if (!has_limits_ && side_stream_names_.empty() && event_count_ == 0) {
    run_nodes(stream, lists, recorder, first, last, kNone);
    return;
  }
  const LimitGuard guard(stream);
  prepare_streams(stream, guard.limit());
  // A piece begins under the limit that was set last in front of it.
  for (int64_t i = first; has_limits_ && i-- > 0;) {
    const Node& node = nodes_[static_cast<size_t>(i)];
    if (node.kind != Kind::kCoreLimit) continue;
    set_core_limit(node, stream, guard.limit());
    break;
  }
  try {
    run_nodes(stream, lists, recorder, first, last, guard.limit());
  } catch (...) {
    join_after_failure(stream);
    throw;
  }
}

void BoundGraph::join_after_failure(device::Stream& stream) {
  // A capture drops its streams when it is ended.
  if (stream.capture_info().status != device::CaptureStatus::kNone) return;
  try {
    for (const auto& side : side_streams_) {
      const std::unique_ptr<device::Event> queued = stream.device().create_event();
      side->record(*queued);
      stream.wait(*queued);
    }
  } catch (const Error& error) {
    log_error("the side streams of a failed run could not be joined: {}", error.what());
  }
}

void BoundGraph::prepare_streams(device::Stream& stream, device::CoreLimit outer) {
  device::Device& device = stream.device();
  while (side_streams_.size() < side_stream_names_.size()) {
    side_streams_.push_back(
        device.create_stream({stream.options().priority, side_stream_names_[side_streams_.size()]}));
  }
  while (events_.size() < event_count_) events_.push_back(device.create_event());
  for (const auto& side : side_streams_) {
    if (!(side->core_limit() == outer)) side->set_core_limit(outer);
  }
}

void BoundGraph::run_nodes(device::Stream& stream, std::span<const ops::HostList> lists, ops::UpdateRecorder* recorder,
                           int64_t first, int64_t last, device::CoreLimit outer) {
  device::Device& device = stream.device();
  const bool labelled = labels_ != nullptr && (recorder != nullptr || device.observer() != nullptr);
  for (Node& node : std::span(nodes_).subspan(static_cast<size_t>(first), static_cast<size_t>(last - first))) {
    device::Stream& target = stream_of(node, stream);
    switch (node.kind) {
      case Kind::kLaunch:
        if (labelled) {
          const uint16_t label = labels_->of(*node.op, node.inputs);
          const device::HostSpan span(device, node.op->name(), label);
          target.annotate(label);
          run_launch(node, target, lists, recorder);
          target.annotate(0);
        } else {
          run_launch(node, target, lists, recorder);
        }
        break;
      case Kind::kRecord:
        target.record(*events_[static_cast<size_t>(node.event)]);
        break;
      case Kind::kWait:
        target.wait(*events_[static_cast<size_t>(node.event)]);
        break;
      case Kind::kCoreLimit:
        set_core_limit(node, target, outer);
        break;
    }
  }
}

void BoundGraph::run_launch(Node& node, device::Stream& stream, std::span<const ops::HostList> lists,
                            ops::UpdateRecorder* recorder) {
  if (recorder == nullptr) return node.issue(stream, lists);
  if (node.op->traits().host_tiled) return record_group(node, stream, lists, *recorder);
  declare_accesses(node, stream);
  node.issue(stream, lists);
  stream.declare_accesses({});
}

void BoundGraph::declare_accesses(const Node& node, device::Stream& stream) {
  accesses_.clear();
  const std::vector<ops::TensorSpec>& specs = node.op->schema().tensors;
  bool known = add_access(accesses_, node.workspace, true);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    known = add_access(accesses_, node.inputs[i], i >= specs.size() || specs[i].mutated) && known;
  }
  for (const Tensor& output : node.outputs) known = add_access(accesses_, output, true) && known;
  if (!known) accesses_.clear();
  stream.declare_accesses(accesses_);
}

void BoundGraph::set_core_limit(const Node& node, device::Stream& stream, device::CoreLimit outer) {
  try {
    stream.set_core_limit(node.core_limit == kNone ? outer : node.core_limit);
  } catch (Error& error) {
    if (!node.source.empty()) error.add_context(node.source);
    throw;
  }
}

void BoundGraph::record_group(Node& node, device::Stream& stream, std::span<const ops::HostList> lists,
                              ops::UpdateRecorder& recorder) {
  recorder.before_group(stream);
  stream.begin_task_group();
  node.issue(stream, lists);
  device::TaskGroup* group = stream.end_task_group();
  recorder.record({.op = node.op->name(),
                   .group = group,
                   .choices = node.tiling.choices,
                   .tiling = &node.tiling,
                   .plan = [&node](std::span<const ops::HostList> new_lists) { node.plan(new_lists); },
                   .reissue =
                       [&node, limit = stream.core_limit()](device::Stream& update_stream) {
                         if (update_stream.core_limit() == limit) return node.launch(update_stream);
                         const LimitGuard guard(update_stream);
                         update_stream.set_core_limit(limit);
                         node.launch(update_stream);
                       }});
}

}  // namespace reprise::compile
