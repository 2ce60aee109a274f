// The CPU's part in the contract: one thread, as many as usual, more than the machine may have, and device memory that
// the host cannot reach.
#include "device/contract/contract.h"

#include "device/cpu/test_kernels.h"

namespace reprise::device::contract {

INSTANTIATE_TEST_SUITE_P(Cpu, DeviceContract,
                         testing::Values(cpu::cpu_subject("OneThread", {.threads = 1, .discrete = false}),
                                         cpu::cpu_subject("TwoThreads", {.threads = 2, .discrete = false}),
                                         cpu::cpu_subject("FiveThreads", {.threads = 5, .discrete = false}),
                                         cpu::cpu_subject("Discrete", {.threads = 2, .discrete = true})),
                         [](const auto& subject) { return subject.param.name; });

}  // namespace reprise::device::contract
