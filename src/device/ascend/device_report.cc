#include "device/ascend/device_report.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "device/ascend/acl_error.h"
#include "device/ascend/ascend_core.h"

namespace reprise::device::ascend {
namespace {

AscendReport::DeviceLine describe_device(const AscendOptions& options) {
  AscendReport::DeviceLine line;
  line.id = options.device_id;
  try {
    const auto core = std::make_shared<AscendCore>(options);
    const char* name = core->library->aclrtGetSocName();
    line.name = name == nullptr ? "Ascend" : name;
    line.cube_cores = core->cube_cores;
    line.vector_cores = core->vector_cores;
    line.memory = core->memory_info();
    const CaptureRoom room = core->capture_room();
    line.streams = room.streams;
    line.events = room.events;
    line.graphs_hold_streams = room.graphs_hold_streams;
    for (size_t i = 0; i < kFeatureCount; ++i) {
      const auto feature = static_cast<Feature>(i);
      line.features.push_back({std::string(name_of(feature)), core->features.why_not(feature),
                               core->features.has(feature) ? std::string() : std::string(without(feature))});
    }
  } catch (const Error& error) {
    line.failure = error.what();
  }
  return line;
}

}  // namespace

AscendReport report_ascend(const LibraryOptions& options) {
  AscendReport report;
  try {
    const std::shared_ptr<const AclLibrary> library = AclLibrary::open(options);
    report.libraries = library->files();
    report.version = library->version();
    report.emulator = library->is_emulator();
    uint32_t count = 0;
    check_acl(*library, library->aclrtGetDeviceCount(&count), "aclrtGetDeviceCount", "looking for devices");
    if (count == 0) report.failure = "AscendCL is installed, but there is no device";
    for (uint32_t id = 0; id < count; ++id) {
      AscendOptions device;
      device.device_id = static_cast<int>(id);
      device.library = options;
      report.devices.push_back(describe_device(device));
    }
  } catch (const Error& error) {
    report.failure = error.what();
  }
  return report;
}

bool has_real_device(const LibraryOptions& options) {
  try {
    const std::shared_ptr<const AclLibrary> library = AclLibrary::open(options);
    if (library->is_emulator()) return false;
    uint32_t count = 0;
    check_acl(*library, library->aclrtGetDeviceCount(&count), "aclrtGetDeviceCount", "looking for devices");
    if (count == 0) log_warning("AscendCL is installed, but there is no device");
    return count > 0;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) log_warning("no Ascend device is used: {}", error.what());
    return false;
  }
}

}  // namespace reprise::device::ascend
