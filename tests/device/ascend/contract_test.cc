// Ascend's part in the contract, over the emulator of this build.
#ifdef REPRISE_EMULATOR_DIR
#include "device/contract/contract.h"

#include <algorithm>

#include "device/ascend/test_kernels.h"

namespace reprise::device::contract {

namespace {

/// The device without the functions whose names contain one of these.
Subject subject_without(const std::string& name, const std::vector<std::string>& missing) {
  ascend::AscendOptions options = ascend::emulator_options();
  options.library.hide = [missing](std::string_view symbol) {
    return std::any_of(missing.begin(), missing.end(),
                       [symbol](const std::string& part) { return symbol.find(part) != symbol.npos; });
  };
  return {name, [options] { return ascend::create_ascend_device(options); }, ascend::make_test_kernels};
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Ascend, DeviceContract,
                         testing::Values(subject_without("Emulator", {}),
                                         // External events of the runtime, and waits that ask again and again.
                                         subject_without("ExternalEvents", {"aclrtValueWait", "WithTimeout"})),
                         [](const auto& subject) { return subject.param.name; });

}  // namespace reprise::device::contract

#endif  // REPRISE_EMULATOR_DIR
