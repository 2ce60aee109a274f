// What ran on a device, kernel by kernel and graph by graph, for the timing report.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>

#include "emulator/kernel.h"

namespace reprise::emulator {

struct KernelTotals {
  uint64_t runs = 0;
  uint64_t graph_runs = 0;
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t multiply_adds = 0;
  double seconds = 0;         // without the gap in front of each
  double memory_seconds = 0;  // of runs that the memory bounds
};

struct GraphTotals {
  uint64_t replays = 0;
  uint64_t kernels = 0;
  uint64_t bytes = 0;  // read and written by kernels
  double seconds = 0;
  double shortest = 0;
  double longest = 0;

  void add_replay(uint64_t kernels_run, uint64_t bytes_moved, double duration);
};

struct TimeAccount {
  std::unordered_map<const Kernel*, KernelTotals> kernels;
  std::map<int32_t, GraphTotals> graphs;  // by the graph's number
};

}  // namespace reprise::emulator
