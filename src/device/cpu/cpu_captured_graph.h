#pragma once

#include <memory>
#include <vector>

#include "device/captured_graph.h"
#include "device/cpu/cpu_core.h"
#include "device/cpu/graph_program.h"

namespace reprise::device::cpu {

/// The handle of a captured graph. Its program lives on in the queues until replays that were queued have run.
class CpuCapturedGraph : public CapturedGraph {
 public:
  CpuCapturedGraph(std::shared_ptr<CpuCore> core, std::shared_ptr<GraphProgram> program)
      : core_(std::move(core)), program_(std::move(program)) {}
  ~CpuCapturedGraph() override;

  void replay(Stream& stream) override;
  GraphStatistics statistics() const override;
  std::string core_choice() const override;
  std::string to_text() const override;
  std::string to_json() const override;
  uint64_t hash(bool with_addresses) const override;
  void add_destroy_callback(void (*callback)(void* data), void* data) override;
  void close(int timeout_ms) override;

  // For the capture that makes it; with the core's mutex locked.
  GraphProgram& program_in_capture() { return *program_; }
  void mark_ready() { capturing_ = false; }

 private:
  struct Callback {
    void (*function)(void* data);
    void* data;
  };
  /// Locks the mutex and waits until nothing executes, so that the program can be read; kFailedPrecondition after
  /// close().
  std::unique_lock<std::mutex> lock_for_reading() const;
  void run_callbacks();

  std::shared_ptr<CpuCore> core_;
  std::shared_ptr<GraphProgram> program_;  ///< null after close()
  bool capturing_ = true;
  std::vector<Callback> callbacks_;
};

}  // namespace reprise::device::cpu
