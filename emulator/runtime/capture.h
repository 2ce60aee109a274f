// The state machine of a capture: begin, what calls on its streams become, end.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "emulator/runtime/captured_graph.h"
#include "emulator/runtime/task.h"
#include "emulator/runtime/task_group.h"

namespace reprise::emulator {

class Context;
class Event;
class Stream;

/// One live capture. It ends with its end call, failed or not; then every stream is an ordinary one again. Guarded by
/// Runtime::mutex().
class Capture : public std::enable_shared_from_this<Capture> {
 public:
  /// A record of an event inside the capture, and the waits on it.
  struct Edge {
    std::weak_ptr<Event> event;
    InnerStream* stream = nullptr;
    size_t position = 0;  // of the record among the stream's nodes
    bool awaited = false;
  };

  /// Checks and codes of aclmdlRICaptureBegin, after those of its arguments. `into`: a graph that waits for its tasks
  /// (one inside a conditional task); null: a new one.
  static Status begin(const std::shared_ptr<Stream>& stream, aclmdlRICaptureMode mode,
                      std::shared_ptr<CapturedGraph> into = nullptr);
  /// Checks and codes of aclmdlRICaptureEnd. `graph` is null unless it succeeds.
  static Status end(const std::shared_ptr<Stream>& stream, std::shared_ptr<CapturedGraph>* graph);

  /// Every stream and event is an ordinary one again, and the capture is over, whatever becomes of its graph.
  void leave();

  bool active() const { return why_invalid_.empty(); }
  /// 507903 with the reason.
  Status invalidated() const;
  void invalidate(std::string why);

  /// Records a task of one of its streams.
  Status append(Stream& stream, TaskPointer task);
  /// Makes a stream one of its own: 507000, 107005, or a resource's code, which invalidates.
  Status join(const std::shared_ptr<Stream>& stream);
  /// A new edge from the end of `stream`, and a wait for one.
  Status add_record(Stream& stream, const std::shared_ptr<Event>& event);
  Status add_wait(Stream& stream, size_t edge);
  /// What an open task group says to a call on `stream` that adds no kernel: 507009, and the group keeps it.
  Status refuse_in_group(const Stream& stream, const char* what);

  const std::shared_ptr<CapturedGraph> graph;
  const aclmdlRICaptureMode mode;
  const std::thread::id thread;
  const std::weak_ptr<Context> context;
  std::shared_ptr<TaskGroup> group;  // while one is open

 private:
  Capture(const std::shared_ptr<Stream>& stream, aclmdlRICaptureMode capture_mode,
          std::shared_ptr<CapturedGraph> captured);

  Status check_end() const;
  Status check_joined() const;
  Status keep_group_error(Status status);

  std::vector<std::shared_ptr<Stream>> streams_;  // the origin first
  std::vector<Edge> edges_;                       // by the graph's numbers
  std::string why_invalid_;
};

/// 107027 for a stream that captures: what may not be done to one.
Status refuse_capturing(const Stream& stream);
/// 107027 while any stream of the context captures.
Status refuse_captures(const Context& context);
/// The rule of modes for calls that are unsafe beside a capture: `code` where the call is forbidden.
Status check_unsafe_call(const Context& context, aclError code);

}  // namespace reprise::emulator
