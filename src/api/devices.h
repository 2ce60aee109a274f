#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "ops/registry.h"

namespace reprise::api {

struct DeviceRequest {
  /// "auto", "cpu", "ascend" or "ascend:N".
  std::string name = "auto";
  int threads = 0;        ///< of the CPU
  bool discrete = false;  ///< of the CPU
};

/// Makes the device that the user names and ties its kernels to the operators. The only place above the devices that
/// knows them by name. "auto" takes what the environment's REPRISE_DEVICE names, else the first Ascend device if there
/// is one that is not emulated and nothing is said about the CPU, and else the CPU. kInvalidArgument for a name of
/// another form.
std::unique_ptr<device::Device> open_device(const DeviceRequest& request, ops::Registry& registry);

/// Throws what open_device() would throw without opening anything: for a name that cannot be one, and for settings that
/// the named device does not have.
void check_device(const DeviceRequest& request);

/// The device, its threads and the kernels that open_device() chose for it, for people.
std::string describe(const device::Device& device);

/// A copy of a registry whose kernels on the device compute nothing; what a run costs then is the host's part.
ops::Registry with_empty_kernels(const ops::Registry& registry, const device::Device& device);

/// What was found when looking for devices.
struct DeviceListing {
  struct Feature {
    std::string name;
    std::string why_not;  ///< empty: it is there
    std::string without;  ///< what is done instead
  };
  struct Entry {
    std::string name;         ///< as for DeviceRequest: "ascend:0"
    std::string description;  ///< model, cores, memory
    std::string failure;      ///< why it cannot be opened; empty when it can
    device::MemoryInfo memory;
    std::vector<Feature> features;
    std::vector<std::string> facts;  ///< further lines for people
  };
  std::vector<Entry> devices;
  std::vector<std::string> notes;  ///< where the search went, and why there is not more
};

/// Looks for all devices, and opens each for a moment.
DeviceListing list_devices();

}  // namespace reprise::api
