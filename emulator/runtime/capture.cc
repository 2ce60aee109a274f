#include "emulator/runtime/capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "emulator/runtime/condition.h"
#include "emulator/runtime/context.h"
#include "emulator/runtime/device.h"
#include "emulator/runtime/edge_task.h"
#include "emulator/runtime/event.h"
#include "emulator/runtime/runtime.h"
#include "emulator/runtime/stream.h"
#include "emulator/runtime/thread_state.h"

namespace reprise::emulator {
namespace {

// Streams of other schedulers than the ordinary one cannot be captured.
Status check_flags(const Stream& stream) {
  if ((stream.flags & (ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY)) == 0) return {};
  return Status(ACL_ERROR_RT_INTERNAL_ERROR,
                fmt::format("the flags {:#x} of stream {} do not allow capture", stream.flags, stream.id));
}

Status check_unbound(const Stream& stream) {
  if (!stream.bound) return {};
  return Status(ACL_ERROR_RT_STREAM_MODEL, fmt::format("stream {} belongs to graph {}", stream.id, stream.bound->id));
}

}  // namespace

Capture::Capture(const std::shared_ptr<Stream>& stream, aclmdlRICaptureMode capture_mode,
                 std::shared_ptr<CapturedGraph> captured)
    : graph(std::move(captured)), mode(capture_mode), thread(std::this_thread::get_id()), context(stream->context) {}

Status Capture::begin(const std::shared_ptr<Stream>& stream, aclmdlRICaptureMode mode,
                      std::shared_ptr<CapturedGraph> into) {
  if (Status status = check_flags(*stream); !status.ok()) return status;
  if (Status status = check_unbound(*stream); !status.ok()) return status;
  if (stream->is_default()) return Status(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the default stream cannot be captured");
  if (stream->capture) return refuse_capturing(*stream);
  if (stream->update) return Status(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "a task update is open on the stream");
  std::shared_ptr<CapturedGraph> graph = into;
  if (!graph) {
    if (Status status = make_graph(stream->device(), graph); !status.ok()) return status;
  }
  InnerStream* inner = nullptr;
  if (Status status = graph->add_stream(stream->id, &inner); !status.ok()) {
    if (!into) release_graph(*graph);
    return status;
  }
  const std::shared_ptr<Capture> capture(new Capture(stream, mode, graph));
  capture->streams_.push_back(stream);
  graph->capture = capture;
  graph->state = CapturedGraph::State::kCapturing;
  stream->capture = capture;
  stream->inner = inner;
  stream->context.lock()->captures.insert(capture);
  return {};
}

Status Capture::end(const std::shared_ptr<Stream>& stream, std::shared_ptr<CapturedGraph>* graph) {
  const std::shared_ptr<Capture> capture = stream->capture;
  if (!capture) {
    return Status(ACL_ERROR_RT_STREAM_NOT_CAPTURED, fmt::format("stream {} is not capturing", stream->id));
  }
  if (capture->streams_.front() != stream) {
    return Status(ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED,
                  fmt::format("stream {} joined the capture that stream {} began, which must end it", stream->id,
                              capture->streams_.front()->id));
  }
  const std::shared_ptr<CapturedGraph> captured = capture->graph;
  if (capture->thread != std::this_thread::get_id() && capture->mode != ACL_MODEL_RI_CAPTURE_MODE_RELAXED) {
    capture->leave();
    captured->state = CapturedGraph::State::kFault;
    return Status(ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD,
                  "another thread began the capture, and its mode is not relaxed; the capture is lost");
  }
  Status status = capture->check_end();
  if (status.ok() && !captured->parent) status = captured->set_up();
  capture->leave();
  if (!status.ok()) {
    release_graph(*captured);
    return status;
  }
  captured->state = CapturedGraph::State::kReady;
  *graph = captured;
  return {};
}

Status Capture::check_end() const {
  if (!active()) return invalidated();
  for (const std::weak_ptr<CapturedGraph>& child : graph->children) {
    const std::shared_ptr<CapturedGraph> live = child.lock();
    if (live && live->capture.lock()) {
      return Status(ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING,
                    fmt::format("graph {} of a conditional task is still being captured", live->id));
    }
  }
  if (group) return Status(ACL_ERROR_STREAM_TASK_GROUP_STATUS, "a task group is still open");
  return check_joined();
}

Status Capture::check_joined() const {
  for (size_t i = 1; i < streams_.size(); ++i) {
    const InnerStream& inner = *streams_[i]->inner;
    // The last task must be a record that another stream waited for; following those leads to the origin.
    const auto joins = [&](const Edge& edge) {
      return edge.stream == &inner && edge.awaited && edge.position + 1 == inner.nodes.size();
    };
    if (std::any_of(edges_.begin(), edges_.end(), joins)) continue;
    return Status(
        ACL_ERROR_RT_STREAM_UNJOINED,
        fmt::format("stream {} was forked from the capture and not joined: its last task must be a record of an "
                    "event that the capture waits for",
                    streams_[i]->id));
  }
  return {};
}

void Capture::leave() {
  for (const std::shared_ptr<Stream>& stream : streams_) {
    stream->capture = nullptr;
    stream->inner = nullptr;
  }
  for (const Edge& edge : edges_) {
    const std::shared_ptr<Event> event = edge.event.lock();
    if (event && event->capture.lock().get() == this) event->capture.reset();
  }
  group = nullptr;
  graph->capture.reset();
  if (const std::shared_ptr<Context> owner = context.lock()) owner->captures.erase(shared_from_this());
}

Status Capture::invalidated() const {
  return Status(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, fmt::format("the capture is invalid: {}", why_invalid_));
}

void Capture::invalidate(std::string why) {
  if (active()) why_invalid_ = std::move(why);
}

Status Capture::keep_group_error(Status status) {
  if (group->error.ok()) group->error = status;
  return status;
}

Status Capture::refuse_in_group(const Stream& stream, const char* what) {
  if (!group || group->owner != &stream) return {};
  return keep_group_error(Status(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT,
                                 fmt::format("a task group holds kernels only, and this is a {}", what)));
}

Status Capture::append(Stream& stream, TaskPointer task) {
  if (!active()) return invalidated();
  if (group && group->owner != &stream) {
    return keep_group_error(Status(
        ACL_ERROR_STREAM_TASK_GROUP_INTR,
        fmt::format("stream {} records while a task group is open on another stream of its capture", stream.id)));
  }
  if (group) {
    if (Status status = TaskGroup::check_kind(*task); !status.ok()) return keep_group_error(std::move(status));
  }
  std::shared_ptr<GraphNode> node;
  if (Status status = graph->append(*stream.inner, std::move(task), &node); !status.ok()) {
    invalidate(status.text);
    return status;
  }
  if (group) {
    node->group = group;
    group->nodes.push_back(std::move(node));
  }
  return {};
}

Status Capture::join(const std::shared_ptr<Stream>& stream) {
  if (Status status = check_unbound(*stream); !status.ok()) return status;
  if (Status status = check_flags(*stream); !status.ok()) return status;
  InnerStream* inner = nullptr;
  if (Status status = graph->add_stream(stream->id, &inner); !status.ok()) {
    invalidate(status.text);
    return status;
  }
  streams_.push_back(stream);
  stream->capture = shared_from_this();
  stream->inner = inner;
  return {};
}

Status Capture::add_record(Stream& stream, const std::shared_ptr<Event>& event) {
  size_t edge = 0;
  if (Status status = graph->add_edge(&edge); !status.ok()) {
    invalidate(status.text);
    return status;
  }
  if (Status status = append(stream, std::make_shared<EdgeRecordTask>(edge)); !status.ok()) return status;
  edges_.push_back({.event = event, .stream = stream.inner, .position = stream.inner->nodes.size() - 1});
  event->capture = weak_from_this();
  event->edge = edge;
  return {};
}

Status Capture::add_wait(Stream& stream, size_t edge) {
  // What a stream recorded itself is behind it already.
  if (edges_[edge].stream == stream.inner) return {};
  if (Status status = append(stream, std::make_shared<EdgeWaitTask>(edge)); !status.ok()) return status;
  edges_[edge].awaited = true;
  return {};
}

Status refuse_capturing(const Stream& stream) {
  if (!stream.capture) return {};
  return Status(ACL_ERROR_RT_STREAM_CAPTURED, fmt::format("stream {} is capturing", stream.id));
}

Status refuse_captures(const Context& context) {
  if (context.captures.empty()) return {};
  return Status(ACL_ERROR_RT_STREAM_CAPTURED, "a stream of this context is capturing");
}

Status check_unsafe_call(const Context& context, aclError code) {
  constexpr int kNone = ACL_MODEL_RI_CAPTURE_MODE_RELAXED + 1;
  int strictest = kNone;
  int own = kNone;  // of the captures that this thread began
  for (const std::shared_ptr<Capture>& capture : context.captures) {
    strictest = std::min<int>(strictest, capture->mode);
    if (capture->thread == std::this_thread::get_id()) own = std::min<int>(own, capture->mode);
  }
  const aclmdlRICaptureMode exchange = ThreadState::current().exchange_mode;
  if (strictest == kNone || exchange == ACL_MODEL_RI_CAPTURE_MODE_RELAXED) return {};
  const bool denied = exchange == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL ? strictest == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL ||
                                                                         own == ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL
                                                                   : own <= ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;
  if (!denied) return {};
  return Status(code, "the mode of a capture that is going on forbids this call in this thread");
}

}  // namespace reprise::emulator
