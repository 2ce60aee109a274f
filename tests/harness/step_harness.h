#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "device/device.h"
#include "kernels/cpu/register_cpu_kernels.h"
#include "model/factory.h"
#include "ops/registry.h"
#include "replay/graph_runner.h"

namespace reprise::replay {

/// Logits of one step, copied.
using Rows = std::vector<std::vector<float>>;

/// A model with KV pages and a runner, driven by hand: the least that an engine does. Pages of a sequence are dealt in
/// a scattered order, so that nothing may rely on their neighbourhood.
class StepHarness {
 public:
  struct Options {
    std::filesystem::path model;
    Mode mode = Mode::kFull;
    compile::PassOptions passes;
    DType dtype = DType::kF32;
    bool count_expert_rows = false;
    std::optional<model::ExpertPlacementOptions> expert_placement;
    bool int8_kv = false;
    int threads = 1;
    bool poison = true;
    bool discrete = false;
    /// Another device than the CPU, with its kernels; `threads` and `discrete` are the CPU's.
    std::function<std::unique_ptr<device::Device>(ops::Registry&)> open_device;
    int32_t max_running = 9;
    int32_t page_size = 16;
    int32_t pages_per_sequence = 16;
    int32_t max_prefill_tokens = 256;
    std::vector<int32_t> prefill_graph_tokens;
    std::vector<int32_t> buckets = {1, 2, 4, 8};
    bool padding = true;
    int64_t capture_limit = 64;
    device::CaptureMode capture_error_mode = device::CaptureMode::kThreadLocal;
    bool force_recapture = false;
    std::optional<device::UpdateOrder> update_order;
    int32_t retrace_every = 0;
    std::filesystem::path debug_directory;
    std::vector<std::string> splitting_ops = {"paged_attention"};
    /// Puts something between the runner and the CPU's device.
    std::function<std::unique_ptr<device::Device>(std::unique_ptr<device::Device>)> wrap_device;
    /// Changes the registry before anything uses it: broken kernels, failing captures.
    std::function<void(ops::Registry&)> prepare;
  };

  explicit StepHarness(Options options);

  /// Feeds tokens of one sequence, `chunk` at a time (0: all at once), from its current length on. Logits of the last
  /// token of each chunk, or of every token.
  Rows feed(int32_t sequence, const std::vector<int32_t>& tokens, int32_t chunk = 0, bool all_logits = false);
  /// One step of several sequences with any number of tokens each: prefill, decode or both.
  Rows step(const std::vector<std::pair<int32_t, std::vector<int32_t>>>& sequences, bool all_logits = false);
  /// One decode step: one token for each named sequence.
  Rows decode(const std::vector<int32_t>& sequences, const std::vector<int32_t>& tokens);
  /// Forgets a sequence; its pages are poisoned when poison is on.
  void drop(int32_t sequence);

  /// The batch that the next step of these sequences would be; their lengths grow.
  StepBatch next_batch(const std::vector<std::pair<int32_t, std::vector<int32_t>>>& sequences);

  GraphRunner& runner() { return *runner_; }
  device::Device& device() { return *device_; }
  const ops::Registry& registry() const { return registry_; }
  const model::Model& model() const { return *model_; }
  std::span<const Tensor> kv() const { return kv_; }
  /// Bytes of every KV page that belongs to a sequence, layer by layer, up to its length.
  std::vector<std::byte> kv_contents(int32_t sequence);
  /// Bytes of every page but the scratch pages.
  std::vector<std::byte> all_pages();
  int32_t length(int32_t sequence) const { return lengths_[static_cast<size_t>(sequence)]; }

 private:
  void add_to_batch(StepBatch& batch, int32_t sequence, std::span<const int32_t> tokens);
  int32_t page(int32_t sequence, int32_t index) const;
  Rows copy(const LogitsView& logits) const;

  Options options_;
  ops::Registry registry_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<model::Model> model_;
  std::vector<Tensor> kv_;
  std::unique_ptr<GraphRunner> runner_;
  std::vector<int32_t> lengths_;
  int32_t scratch_pages_ = 0;
  int32_t pages_ = 0;
};

}  // namespace reprise::replay
