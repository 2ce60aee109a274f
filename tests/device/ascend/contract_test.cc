// Ascend's part in the contract, over the emulator of this build.
#ifdef REPRISE_EMULATOR_DIR
#include "device/contract/contract.h"

#include "device/ascend/test_kernels.h"

namespace reprise::device::contract {

INSTANTIATE_TEST_SUITE_P(Ascend, DeviceContract,
                         testing::Values(Subject{
                             "Emulator", [] { return ascend::create_ascend_device(ascend::emulator_options()); },
                             ascend::make_test_kernels}),
                         [](const auto& subject) { return subject.param.name; });

}  // namespace reprise::device::contract

#endif  // REPRISE_EMULATOR_DIR
