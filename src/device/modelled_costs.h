#pragma once

#include <cstdint>

namespace reprise::device {

/// What a device that does not really run has counted since it was opened, and the times that its model gives.
struct ModelledCosts {
  int64_t launches = 0;  ///< of kernels, by the host
  int64_t replays = 0;   ///< of graphs, by the host
  int64_t updates = 0;   ///< of captured kernels, by the host
  int64_t kernels = 0;   ///< that ran, in graphs and outside
  int64_t graph_kernels = 0;
  int64_t other_tasks = 0;  ///< copies, fills, events, waits
  int64_t bytes_read = 0;   ///< by kernels
  int64_t bytes_written = 0;
  int64_t bytes_copied = 0;
  double kernel_seconds = 0;  ///< of kernels, without what lies between them
  double device_seconds = 0;  ///< the clock of the device
  int64_t streams = 0;        ///< in use now
  int64_t events = 0;         ///< likewise
  int64_t graphs = 0;         ///< likewise
};

}  // namespace reprise::device
