#pragma once

#include <memory>
#include <string>

#include "device/device.h"
#include "ops/registry.h"

namespace reprise::api {

struct DeviceRequest {
  std::string name = "auto";
  int threads = 0;
  bool discrete = false;
};

/// Makes the device that the user names ("auto": the best one there is) and ties its kernels to the operators. The only
/// place above the devices that knows them by name.
std::unique_ptr<device::Device> open_device(const DeviceRequest& request, ops::Registry& registry);

/// The device, its threads and the kernels that open_device() chose for it, for people.
std::string describe(const device::Device& device);

/// A copy of a registry whose kernels on the device compute nothing; what a run costs then is the host's part.
ops::Registry with_empty_kernels(const ops::Registry& registry, const device::Device& device);

}  // namespace reprise::api
