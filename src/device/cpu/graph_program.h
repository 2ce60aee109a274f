#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "device/captured_graph.h"
#include "device/cpu/event_state.h"
#include "device/cpu/instruction_list.h"
#include "device/cpu/launch_accesses.h"
#include "device/cpu/segment_runner.h"
#include "device/cpu/task_group.h"
#include "device/cpu/thread_choice.h"

namespace reprise::device::cpu {

class CpuCore;

/// A captured graph as data: instructions in the order of their capture, their arguments in one block, and the lanes
/// (captured streams) that they belong to. Built by a capture session, sealed at its end, then run by the executor.
///
/// The order of capture respects every dependency, so a graph that waits for nothing outside runs as one segment in
/// that order. One that does is cut into segments for each lane before every wait; while one lane waits for an external
/// event, the others go on.
class GraphProgram : public std::enable_shared_from_this<GraphProgram> {
 public:
  struct Lane {
    std::string name;
    int priority = 0;
  };

  /// `core`: of the device on which it is captured.
  explicit GraphProgram(const CpuCore* core) : core_(core) {}
  GraphProgram(const GraphProgram&) = delete;
  GraphProgram& operator=(const GraphProgram&) = delete;

  const CpuCore* core() const { return core_; }

  // Building.
  uint16_t add_lane(std::string name, int priority);
  void add(Instruction instruction, uint16_t lane);
  /// `accesses`: all memory that the launch uses; nothing: not known.
  void add_launch(Instruction instruction, uint16_t lane, std::span<const std::byte> arguments,
                  std::span<const std::byte> tail, std::span<const MemoryAccess> accesses);
  void add_external(Opcode opcode, uint16_t lane, std::shared_ptr<EventState> event);
  uint32_t add_edge() { return edges_++; }
  /// A group of the launches from instruction `first` up to here.
  CpuTaskGroup* add_group(uint32_t first);
  /// Ends building: lays out the arguments and plans the segments.
  void seal();
  bool is_sealed() const { return sealed_; }

  std::span<const Instruction> instructions() const { return list_.instructions(); }
  const std::vector<Lane>& lanes() const { return lanes_; }
  GraphStatistics statistics() const;
  const ThreadChoice& thread_choice() const { return choice_; }

  // Running; by the executing thread only.
  /// Whether advance() would do something for this replayer (any address that stands for one replay's stream). Replays
  /// on several streams follow one another.
  bool can_advance(const void* replayer) const;
  /// Runs what can run now; true when the replay has ended.
  bool advance(const void* replayer, SegmentRunner& runner, std::exception_ptr& error);

  /// Ends a queued or running replay that will not go on.
  void abandon(const void* replayer);

  /// Replays that are queued or running.
  std::atomic<int64_t> pending_replays = 0;

 private:
  struct Segment {
    uint32_t first;
    uint32_t last;
  };
  /// The segments of a lane, in order, and how far the running replay is.
  struct LanePlan {
    std::vector<Segment> segments;
    size_t next = 0;
  };

  void lay_out_arguments();
  void plan_segments();
  void start(const void* replayer);
  bool is_ready(const Segment& segment) const;
  void run_segment(const Segment& segment, SegmentRunner& runner, std::exception_ptr& error);

  const CpuCore* const core_;
  InstructionList list_;
  std::vector<Lane> lanes_;
  std::vector<std::unique_ptr<CpuTaskGroup>> groups_;
  uint32_t edges_ = 0;
  LaunchAccesses accesses_;  ///< while it is built

  bool sealed_ = false;
  std::unique_ptr<std::byte[]> arguments_;
  size_t argument_bytes_ = 0;
  std::vector<LanePlan> plans_;      ///< most urgent lane first
  std::vector<uint8_t> edges_done_;  ///< by edge, of the running replay
  const void* replayer_ = nullptr;   ///< of the running replay
  ThreadChoice choice_;
  SegmentRunner::Options options_;  ///< of the running replay
};

}  // namespace reprise::device::cpu
