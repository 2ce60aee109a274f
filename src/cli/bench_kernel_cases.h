#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/device.h"
#include "load/model_config.h"
#include "ops/eager_dispatcher.h"
#include "ops/forward_context.h"
#include "ops/moe.h"

namespace reprise::cli {

/// One operator of a step with its memory, ready to be called.
struct KernelCase {
  std::string kernel;  ///< of the operator, e.g. "linear"
  std::string what;    ///< where it stands in a step, with its sizes: "gate_up 6144x1024"
  DType dtype = DType::kBF16;
  std::optional<DType> multiplies_as{};  ///< where products are made in another dtype
  int64_t rows = 0;
  /// What a call must move to or from memory that caches do not hold: weights, keys and values. 0: all is in caches.
  int64_t bytes = 0;
  int64_t multiply_adds = 0;
  /// Launches the operator; each call takes the next copy of what it reads.
  std::function<void()> call;

  DType product_dtype() const { return multiplies_as.value_or(dtype); }
};

/// What cases are made of.
struct KernelCaseOptions {
  std::vector<int32_t> rows = {1, 8, 32, 64, 512};
  int32_t context = 1024;   ///< tokens that a row of attention reads when decoding
  int64_t working_set = 0;  ///< bytes that the copies of a weight take at least
  /// Rows from here on are a prompt: attention reads itself, and the output head is left out.
  static constexpr int32_t kPrefillRows = 128;
};

/// Makes the cases of a model's shapes one after the other, so that the memory of one is there at a time.
class KernelCases {
 public:
  using Use = std::function<void(KernelCase&&)>;
  KernelCases(const load::ModelConfig& config, const KernelCaseOptions& options, const ops::Registry& registry,
              device::Device& device);
  using Wanted = std::function<bool(const std::string&)>;
  /// Calls use() with each case whose operator's name `wanted` accepts.
  void each(const Wanted& wanted, const Use& use);
  /// The cases that each() gives.
  size_t count(const Wanted& wanted) const;
  device::Stream& stream() { return *stream_; }
  ops::ForwardContext& context() { return context_; }
  /// Memory filled with small numbers, whatever their dtype.
  Tensor filled(DType dtype, const Shape& shape);

 private:
  /// Packed weights [outputs, inputs], `count` times.
  Tensor weight_stack(DType dtype, int64_t outputs, int64_t inputs, int64_t count);
  /// The same as single weights, in as many copies as the working set asks for.
  std::vector<Tensor> weights(DType dtype, int64_t outputs, int64_t inputs);
  void products(const Use& use);
  void product(const std::string& name, DType dtype, int64_t outputs, int64_t inputs, const Use& use);
  /// Stacks of the model's experts, in as many copies.
  std::vector<Tensor> expert_stacks(DType dtype, int64_t outputs, int64_t inputs);
  /// How `rows` rows may lie evenly among the experts: each turn goes on where the one before it ended.
  std::vector<Tensor> expert_offsets(int64_t rows);
  void expert_product(const std::string& name, DType dtype, int64_t outputs, int64_t inputs, const Use& use);
  /// The same as choices of a router.
  std::vector<ops::ExpertChoice> expert_choices(int64_t tokens);
  void expert_layer(DType dtype, const Use& use);
  void experts(const Use& use);
  /// Of caches of a dtype, which is that of the queries or int8.
  void attention(DType cache_dtype, const Use& use);
  void row_kernels(const Use& use);
  void norms(int32_t rows, const Use& use);
  void heads(int32_t rows, const Use& use);
  void activations(int32_t rows, const Use& use);
  /// A kernel that moves nothing but rows of activations.
  void row_kernel(const std::string& name, int64_t columns, int32_t rows, std::function<void()> call, const Use& use);
  Tensor integers(const std::vector<int32_t>& values);
  int64_t copies_for(int64_t bytes) const { return 1 + (options_.working_set - 1) / bytes; }

  const load::ModelConfig& config_;
  const KernelCaseOptions& options_;
  device::Device& device_;
  std::unique_ptr<device::Stream> stream_;
  ops::EagerDispatcher dispatcher_;
  ops::ForwardContext context_;
  Wanted wanted_;
};

}  // namespace reprise::cli
