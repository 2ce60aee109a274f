#pragma once

#include "ops/dispatcher.h"
#include "ops/registry.h"

namespace reprise::ops {

/// Runs every operator's reference at once on host memory: no device and no kernels, slow and plain. What other ways of
/// running a model are compared with. Tensors must be host-addressable.
class ReferenceDispatcher final : public Dispatcher {
 public:
  explicit ReferenceDispatcher(const Registry& registry) : registry_(registry) {}

  void dispatch(std::string_view op, std::span<const Tensor> inputs, std::span<const HostList> lists,
                std::span<const Attribute> attributes, std::span<Tensor> outputs, std::source_location where) override;
  /// Nothing to do: every operator is done before the next one begins.
  void scope(const ScopeChange& /*change*/, std::source_location /*where*/) override {}

 private:
  const Registry& registry_;
};

}  // namespace reprise::ops
