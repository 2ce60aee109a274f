#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "ops/dispatcher.h"
#include "ops/launch_labels.h"
#include "ops/registry.h"
#include "ops/scope_stack.h"

namespace reprise::ops {

/// Launches each operator on a stream as model code reaches it. Results are new device memory; nothing else is
/// allocated on the host or the device once every operator has been seen. One thread at a time; the registry's kernels
/// must be set before the first call and stay.
///
/// Side streams and events of the model's code are made when they are first named, and kept. A side stream's work comes
/// behind what is queued on the dispatcher's own stream when its scope is opened.
class EagerDispatcher final : public Dispatcher {
 public:
  /// All three must outlive the dispatcher.
  EagerDispatcher(const Registry& registry, device::Device& device, device::Stream& stream)
      : registry_(registry), device_(device), stream_(stream) {
    lanes_.emplace_back().stream = &stream;
  }

  /// Errors name the operator and the line of model code: kInvalidArgument for arguments that do not fit, kUnsupported
  /// when the device has no kernel, kFailedPrecondition for tensors without memory.
  void dispatch(std::string_view op, std::span<const Tensor> inputs, std::span<const HostList> lists,
                std::span<const Attribute> attributes, std::span<Tensor> outputs, std::source_location where) override;

  /// Events that the method has not recorded, and limits above the device's cores: kInvalidArgument.
  void scope(const ScopeChange& change, std::source_location where) override;
  /// To be called behind a method, also behind one that threw: the dispatcher's own stream waits for the side streams,
  /// and events are forgotten. Throws kGraphBreak for scopes that were not closed in order; they are closed then.
  void finish_method();

  /// What others queue on stream() until end_outside() runs behind what the current stream has by now, and before what
  /// it gets later: for calls of other methods inside of this one.
  void begin_outside();
  void end_outside();

  /// While the device is observed, calls are spans of the host with these labels, and so are their launches. Must
  /// outlive the dispatcher.
  void set_labels(LaunchLabels& labels) { labels_ = &labels; }

  /// Calls so far, views included.
  int64_t dispatches() const { return dispatches_; }
  device::Stream& stream() const { return stream_; }

 private:
  struct Entry {
    const OpDef* op = nullptr;
    const OpKernel* kernel = nullptr;
  };

  /// A stream, the dispatcher's own one first.
  struct Lane {
    device::Stream* stream = nullptr;
    std::unique_ptr<device::Stream> owned;  ///< side streams
    std::unique_ptr<device::Event> fork, join;
    bool open = false;  ///< has been entered since the last join
    Tensor workspace;   ///< grows to the largest need; launches of one stream follow each other, so they can share it
  };
  struct NamedEvent {
    std::unique_ptr<device::Event> event;
    bool recorded = false;  ///< in this method
  };

  const Entry& find(std::string_view op);
  Lane& lane() { return lanes_[static_cast<size_t>(scopes_.stream())]; }
  int32_t side_stream(std::string_view name);
  void fork(Lane& lane);
  NamedEvent& event(std::string_view name);
  void change_scope(const ScopeChange& change, std::source_location where);
  void apply_core_limit();
  void run(const Entry& entry, OpCall& call);
  void run_labelled(const Entry& entry, OpCall& call);
  void prepare_tiling(const OpKernel& kernel, OpCall& call);
  void prepare_workspace(const OpKernel& kernel, OpCall& call);

  const Registry& registry_;
  device::Device& device_;
  device::Stream& stream_;
  /// Direct-mapped by the address of the name, which is a literal at nearly every call.
  std::array<Entry, 128> entries_{};
  Tiling tiling_;
  ScopeStack scopes_;
  std::vector<Lane> lanes_;
  std::map<std::string, int32_t, std::less<>> lane_numbers_;
  std::map<std::string, NamedEvent, std::less<>> events_;
  device::CoreLimit outer_limit_;  ///< of the dispatcher's own stream outside of all scopes
  LaunchLabels* labels_ = nullptr;
  int64_t dispatches_ = 0;
};

}  // namespace reprise::ops
