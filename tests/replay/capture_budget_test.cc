// A device that has room for few captured graphs: which batch sizes are captured then, and what is told of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/step_harness.h"

namespace reprise::replay {
namespace {

using testing::ElementsAre;

/// The CPU, as a device on which only `room` graphs have a place.
class SmallDevice : public device::Device {
 public:
  SmallDevice(std::unique_ptr<device::Device> inner, int64_t room, device::CaptureDemand& asked)
      : inner_(std::move(inner)), capabilities_(inner_->capabilities()), room_(room), asked_(asked) {
    capabilities_.limited_captures = true;
  }
  device::CaptureBudget plan_captures(const device::CaptureDemand& demand) override {
    asked_ = demand;
    std::vector<int32_t> sizes = demand.sizes;
    while (static_cast<int64_t>(sizes.size()) * demand.graphs > room_) sizes.erase(sizes.begin());
    return {sizes, "room for few"};
  }

  std::string_view name() const override { return inner_->name(); }
  const device::Capabilities& capabilities() const override { return capabilities_; }
  device::MemoryInfo memory_info() override { return inner_->memory_info(); }
  device::DeviceCounters counters() const override { return inner_->counters(); }
  std::shared_ptr<Storage> allocate(size_t bytes, device::MemoryKind kind) override {
    return inner_->allocate(bytes, kind);
  }
  std::shared_ptr<device::Arena> reserve_arena(size_t bytes) override { return inner_->reserve_arena(bytes); }
  Tensor import(const TensorMeta& meta, std::span<const std::byte> host, std::shared_ptr<const void> owner) override {
    return inner_->import(meta, host, std::move(owner));
  }
  device::Stream& default_stream() override { return inner_->default_stream(); }
  std::unique_ptr<device::Stream> create_stream(device::StreamOptions options) override {
    return inner_->create_stream(std::move(options));
  }
  std::unique_ptr<device::Event> create_event(device::EventKind kind) override { return inner_->create_event(kind); }
  void copy(void* destination, const void* source, size_t bytes, device::CopyKind kind) override {
    inner_->copy(destination, source, bytes, kind);
  }
  void fill(void* destination, unsigned char value, size_t bytes) override { inner_->fill(destination, value, bytes); }
  void synchronize() override { inner_->synchronize(); }
  device::CaptureMode exchange_capture_mode(device::CaptureMode mode) override {
    return inner_->exchange_capture_mode(mode);
  }

 private:
  std::unique_ptr<device::Device> inner_;
  device::Capabilities capabilities_;
  int64_t room_;
  device::CaptureDemand& asked_;
};

StepHarness::Options options_for(int64_t room, device::CaptureDemand& asked) {
  StepHarness::Options options;
  options.model = std::filesystem::path(REPRISE_SOURCE_DIR) / "models/mini";
  options.wrap_device = [room, &asked](std::unique_ptr<device::Device> inner) {
    return std::make_unique<SmallDevice>(std::move(inner), room, asked);
  };
  return options;
}

TEST(CaptureBudget, SizesWithoutRoomAreLeftOutAndTheirStepsPaddedToTheNextOne) {
  device::CaptureDemand asked;
  StepHarness harness(options_for(2, asked));
  harness.runner().capture();
  EXPECT_THAT(asked.sizes, ElementsAre(1, 2, 4, 8));
  EXPECT_EQ(asked.graphs, 1);
  EXPECT_EQ(asked.streams, 1);
  EXPECT_GT(asked.actions, 10);
  EXPECT_EQ(asked.external_events, 0);
  EXPECT_THAT(harness.runner().buckets(), ElementsAre(4, 8));
  EXPECT_EQ(harness.runner().capture_report().buckets.size(), 2u);
  EXPECT_EQ(harness.runner().capture_report().budget, "room for few");
  harness.feed(0, {1, 2, 3});
  harness.decode({0}, {4});
  EXPECT_EQ(harness.runner().last_reason(), StepReason::kReplayed);
}

TEST(CaptureBudget, AStepWithoutCapturesAheadIsHeldAgainstTheRoomAsWell) {
  device::CaptureDemand asked;
  StepHarness::Options options = options_for(1, asked);
  options.update_order = device::UpdateOrder::kReplayThenUpdate;
  StepHarness harness(options);
  harness.feed(0, {1, 2, 3});
  harness.decode({0}, {4});
  EXPECT_EQ(harness.runner().last_reason(), StepReason::kReplayed);
  EXPECT_THAT(harness.runner().buckets(), ElementsAre(8));
  EXPECT_GT(asked.external_events, 0);  // a gate in front of each layer's attention
}

TEST(CaptureBudget, PiecesCountAsGraphs) {
  device::CaptureDemand asked;
  StepHarness::Options options = options_for(1000, asked);
  options.mode = Mode::kPiecewise;
  StepHarness harness(options);
  const std::vector<int32_t> size = {8};
  harness.runner().capture(size);
  ASSERT_EQ(harness.runner().capture_report().buckets.size(), 1u);
  EXPECT_EQ(asked.graphs, harness.runner().capture_report().buckets[0].pieces);
  EXPECT_GT(asked.graphs, 1);
  EXPECT_THAT(harness.runner().buckets(), ElementsAre(1, 2, 4, 8));
}

TEST(CaptureBudget, WithoutAnyRoomTheLargestIsTriedAlone) {
  device::CaptureDemand asked;
  StepHarness harness(options_for(0, asked));
  harness.runner().capture();
  EXPECT_THAT(harness.runner().buckets(), ElementsAre(8));
}

}  // namespace
}  // namespace reprise::replay
