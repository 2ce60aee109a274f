#include "api/devices.h"

#include "base/error.h"
#include "device/cpu/cpu_device.h"
#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/register_cpu_kernels.h"
#include "kernels/cpu/register_empty_kernels.h"

namespace reprise::api {

std::unique_ptr<device::Device> open_device(const DeviceRequest& request, ops::Registry& registry) {
  if (request.name != "auto" && request.name != "cpu") {
    throw Error(ErrorCode::kUnsupported, "there is no device '{}' in this build", request.name)
        .remedy("use auto or cpu");
  }
  if (request.threads < 0) {
    throw Error(ErrorCode::kInvalidArgument, "--threads is {}, must be at least 1 (0: by CPU quota)", request.threads);
  }
  kernels::cpu::register_cpu_kernels(registry);
  return device::cpu::create_cpu_device({.threads = request.threads, .discrete = request.discrete});
}

std::string describe(const device::Device& device) {
  const std::string& text = device.capabilities().description;
  if (device.name() != "cpu") return text;
  return fmt::format("{}; {} kernels", text, name_of(kernels::cpu::instruction_set_from_environment()));
}

ops::Registry with_empty_kernels(const ops::Registry& registry, const device::Device& device) {
  if (device.name() != "cpu") {
    throw Error(ErrorCode::kUnsupported, "there are no empty kernels for the device '{}'", device.name());
  }
  return kernels::cpu::with_empty_cpu_kernels(registry);
}

}  // namespace reprise::api
