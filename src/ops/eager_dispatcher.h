#pragma once

#include <array>
#include <cstdint>

#include "device/device.h"
#include "ops/dispatcher.h"
#include "ops/registry.h"

namespace reprise::ops {

/// Launches each operator on a stream as model code reaches it. Results are new device memory; nothing else is
/// allocated on the host or the device once every operator has been seen. One thread at a time; the registry's kernels
/// must be set before the first call and stay.
class EagerDispatcher final : public Dispatcher {
 public:
  /// All three must outlive the dispatcher.
  EagerDispatcher(const Registry& registry, device::Device& device, device::Stream& stream)
      : registry_(registry), device_(device), stream_(stream) {}

  /// Errors name the operator and the line of model code: kInvalidArgument for arguments that do not fit, kUnsupported
  /// when the device has no kernel, kFailedPrecondition for tensors without memory.
  void dispatch(std::string_view op, std::span<const Tensor> inputs, std::span<const HostList> lists,
                std::span<const Attribute> attributes, std::span<Tensor> outputs, std::source_location where) override;

  /// Calls so far, views included.
  int64_t dispatches() const { return dispatches_; }
  device::Stream& stream() const { return stream_; }

 private:
  struct Entry {
    const OpDef* op = nullptr;
    const OpKernel* kernel = nullptr;
  };

  const Entry& find(std::string_view op);
  void run(const Entry& entry, OpCall& call);
  void prepare_tiling(const OpKernel& kernel, OpCall& call);
  void prepare_workspace(const OpKernel& kernel, OpCall& call);

  const Registry& registry_;
  device::Device& device_;
  device::Stream& stream_;
  /// Direct-mapped by the address of the name, which is a literal at nearly every call.
  std::array<Entry, 128> entries_{};
  Tiling tiling_;
  Tensor workspace_;  ///< grows to the largest need; launches of one stream follow each other, so they can share it
  int64_t dispatches_ = 0;
};

}  // namespace reprise::ops
