// What the emulated chip and its software can do: sizes, limits, features, speeds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "emulator/runtime/status.h"

namespace reprise::emulator {

/// Parts of the interface that some drivers lack. A call of an absent one answers 207000.
struct Features {
  bool graphs = true;       // aclmdlRI*
  bool task_groups = true;  // task groups and task updates
  bool value_wait = true;   // aclrtValueWait, aclrtValueWrite
  /// Inner streams of graphs take a queue only while they run; without it they hold a stream until the graph is
  /// destroyed. External flags of record and wait, and the calls that change single tasks of a graph, need it.
  bool software_sq = true;
};

/// Constants of the timing model. Seconds and units per second. The rate of the cube cores is their count times the
/// 4096 multiply-adds of 16 bits a cycle that were published of them, times an estimated clock; all others are
/// estimates. docs/emulator.md says of each where it is from.
struct Timing {
  double host_launch = 4.0e-6;         // the host's work for one launch of a kernel, without the operator's own
  double host_operator = 6.0e-6;       // for the first phase of an operator: checks, shapes, tiling
  double host_call = 1.5e-6;           // for one record, wait, copy or other task
  double host_replay = 12.0e-6;        // for one launch of a graph
  double kernel_start = 2.5e-6;        // from one kernel's end to the next one's start on a stream
  double graph_kernel_start = 1.0e-6;  // the same inside a replayed graph
  double task = 0.5e-6;                // a task that is no kernel
  double memory_bandwidth = 1.6e12;    // bytes, device memory
  double copy_bandwidth = 25.0e9;      // bytes, between host and device
  double cube_rate = 156.0e12;         // multiply-adds, all cube cores together
};

struct Profile {
  std::string name;
  std::string soc;
  int64_t npu_arch = 0;
  uint32_t devices = 1;
  uint32_t aicpu_cores = 6;
  uint32_t cube_cores = 0;
  uint32_t vector_cores = 0;
  uint64_t memory_bytes = 0;
  uint64_t memory_taken = 0;   // by other processes
  uint64_t memory_slack = 32;  // added to each request before it is rounded up
  uint64_t l2_bytes = 0;
  uint64_t ubuf_bytes = 0;  // of one vector core
  uint32_t streams = 1984;
  uint32_t events = 65536;
  uint32_t notifies = 8192;
  uint32_t models = 2048;
  uint32_t queue_depth = 2048;  // tasks of a hardware queue
  uint32_t queue_reserve = 32;  // of which the runtime keeps some for itself
  uint32_t software_queues = 1024;
  uint32_t kernel_timeout_ms = 1080000;  // a kernel that runs longer is a fault of its device
  uint32_t destroy_timeout_ms = 10000;   // how long destroying a running graph waits
  int32_t version[3] = {1, 17, 0};
  Features features;
  Timing timing;

  uint32_t tasks_per_queue() const { return queue_depth > queue_reserve ? queue_depth - queue_reserve : 1; }

  /// NAME or a JSON file's path (it may name a built-in one as "base"), then changes: "910B3,streams=20,software_sq=0".
  static Status parse(std::string_view text, Profile& profile);
  /// What REPRISE_ACL_PROFILE says; 910B3 without it.
  static Status from_environment(Profile& profile);
};

}  // namespace reprise::emulator
