#include "device/ascend/resource_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace reprise::device::ascend {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int32_t> sizes_to(int32_t last) {
  std::vector<int32_t> sizes(static_cast<size_t>(last));
  std::iota(sizes.begin(), sizes.end(), 1);
  return sizes;
}

TEST(ResourceBudget, WhatFitsIsLeftAsItIs) {
  const CaptureRoom room = documented_room("Ascend910B3");
  EXPECT_EQ(room.streams, 1984);
  const CaptureBudget budget = trim_captures({.sizes = sizes_to(32), .actions = 1000, .external_events = 64}, room);
  EXPECT_EQ(budget.sizes, sizes_to(32));
  EXPECT_THAT(budget.text, AllOf(HasSubstr("32 of 32 batch sizes"), HasSubstr("documented for Ascend910B3"),
                                 HasSubstr("floor((1984 streams - 100) / (1 graphs x 1 streams)) = 1884")));
}

TEST(ResourceBudget, PiecesOfManyLayersLeaveFewSizesEvenlySpreadWithTheLargest) {
  // Qwen3-32B in pieces: 64 layers cut at attention.
  const CaptureBudget budget = trim_captures({.sizes = sizes_to(100), .graphs = 65}, documented_room("Ascend910B3"));
  ASSERT_EQ(budget.sizes.size(), 28u);  // floor(1884 / 65)
  EXPECT_EQ(budget.sizes.back(), 100);
  EXPECT_EQ(budget.sizes.front(), 3);
  for (size_t i = 1; i < budget.sizes.size(); ++i) {
    EXPECT_GE(budget.sizes[i] - budget.sizes[i - 1], 3);
    EXPECT_LE(budget.sizes[i] - budget.sizes[i - 1], 4);
  }
  EXPECT_THAT(budget.text,
              AllOf(HasSubstr("28 of 100 batch sizes"),
                    HasSubstr("floor((1984 streams - 100) / (65 graphs x 1 streams)) = 28; 100 sizes take 6500")));
}

TEST(ResourceBudget, LongGraphsAndSideStreamsTakeMoreStreams) {
  CaptureRoom room = documented_room("Ascend310P3");
  EXPECT_EQ(room.streams, 1024);
  // 5000 tasks go over two chained streams; 924 / (10 * (2 + 2)) = 23.
  const CaptureBudget budget =
      trim_captures({.sizes = sizes_to(50), .graphs = 10, .streams = 2, .actions = 5000}, room);
  EXPECT_EQ(budget.sizes.size(), 23u);
  EXPECT_THAT(budget.text, HasSubstr("2 of them because queues have 2048 places"));
}

TEST(ResourceBudget, EventsOfTheRuntimeCanBeWhatIsShort) {
  CaptureRoom room = documented_room("Ascend310P3");
  room.events_per_external = 1;
  // (1023 - 256) / (1 + 1 + 200) = 3
  const CaptureBudget budget = trim_captures({.sizes = {1, 2, 4, 8, 16}, .external_events = 200}, room);
  EXPECT_THAT(budget.sizes, ElementsAre(1, 4, 16));
  EXPECT_THAT(budget.text, HasSubstr("events: floor((1023 events - 256) / 202) = 3"));
}

TEST(ResourceBudget, WhereGraphsHoldNoStreamsOnlyEventsCount) {
  CaptureRoom room = documented_room("Ascend910B3");
  room.graphs_hold_streams = false;
  const CaptureBudget budget = trim_captures({.sizes = sizes_to(400), .graphs = 65}, room);
  EXPECT_EQ(budget.sizes.size(), 400u);
  EXPECT_THAT(budget.text, HasSubstr("graphs hold no streams on this device"));
}

TEST(ResourceBudget, WithoutRoomTheLargestSizeIsTriedAllTheSame) {
  CaptureRoom room;
  room.streams = 50;
  room.events = 1000;
  room.source = "free on the device now";
  const CaptureBudget budget = trim_captures({.sizes = {1, 2}}, room);
  EXPECT_THAT(budget.sizes, ElementsAre(2));
  EXPECT_THAT(budget.text, AllOf(HasSubstr("0 of 2 batch sizes can be captured (free on the device now)"),
                                 HasSubstr("; batch size 2 is tried all the same")));
}

TEST(ResourceBudget, UnknownDevicesGetTheSmallestRoom) {
  EXPECT_EQ(documented_room("").streams, 512);
  EXPECT_EQ(documented_room("Ascend910ProB").streams, 2048);
  EXPECT_EQ(documented_room("Ascend910_9391").streams, 1984);
}

}  // namespace
}  // namespace reprise::device::ascend
