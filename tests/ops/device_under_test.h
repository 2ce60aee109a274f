#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "device/device.h"
#include "ops/conformance_cases.h"
#include "ops/eager_dispatcher.h"
#include "ops/forward_context.h"
#include "ops/registry.h"

namespace reprise::ops {

/// What a call leaves: its results, then the arguments that it changes.
using Results = std::vector<Tensor>;

/// What the operator's reference makes of a case.
Results run_reference(const Registry& registry, const ConformanceCase& one);

/// One device with its kernels, and calls on it.
class DeviceUnderTest {
 public:
  /// `register_kernels` ties the device's kernels to the catalogue.
  DeviceUnderTest(std::unique_ptr<device::Device> device,
                  const std::function<void(Registry& registry, device::Device& device)>& register_kernels);

  /// The results in host memory.
  Results run(const ConformanceCase& one);
  const Registry& registry() const { return registry_; }
  /// Since it was opened.
  int64_t launches() const { return device_->counters().launches; }

 private:
  Tensor pack(const Tensor& weight);
  Tensor upload(const Tensor& host);
  Tensor download(const Tensor& tensor);
  Tensor unpack(const Tensor& weight);
  Tensor unpack_int8(const Tensor& weight);

  Registry registry_ = make_catalogue();
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  EagerDispatcher dispatcher_{registry_, *device_, *stream_};
  ForwardContext context_{dispatcher_};
};

/// Fails the running test unless a device's result is within the bound of the reference's. int8 may differ by the
/// absolute bound.
void expect_within(const Tensor& expected, const Tensor& got, const Bound& bound);

}  // namespace reprise::ops
