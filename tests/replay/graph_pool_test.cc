#include "replay/graph_pool.h"

#include <gtest/gtest.h>

#include "device/ascend/ascend_device.h"
#include "device/cpu/cpu_device.h"

namespace reprise::replay {
namespace {

constexpr size_t kBytes = size_t{8} << 20;

TEST(GraphPool, LargerGraphsFindTheirPlaceWhereReservationsCostNothing) {
  const auto device = device::cpu::create_cpu_device();
  GraphPool pool(*device);
  const void* first = pool.acquire(kBytes)->data();
  EXPECT_EQ(pool.bytes(), kBytes);
  EXPECT_EQ(pool.acquire(4 * kBytes)->data(), first);
  EXPECT_EQ(pool.bytes(), 4 * kBytes);
}

#ifdef REPRISE_EMULATOR_DIR
TEST(GraphPool, ADeviceWithoutReservationsGivesNoMoreThanAGraphNeeds) {
  const auto device =
      device::ascend::create_ascend_device({.library = {.folder = REPRISE_EMULATOR_DIR, .hide = nullptr}});
  GraphPool pool(*device);
  const std::shared_ptr<device::Arena> first = pool.acquire(kBytes);
  EXPECT_LT(device->memory_info().allocated_bytes, 2 * kBytes);
  EXPECT_EQ(pool.acquire(kBytes / 2), first);
  EXPECT_NE(pool.acquire(2 * kBytes), first);
}
#endif

}  // namespace
}  // namespace reprise::replay
