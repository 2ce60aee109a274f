#include "server/step_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reprise::server {
namespace {

using replay::StepKind;
using replay::StepReason;
using testing::ElementsAre;
using testing::MatchesRegex;
using Time = StepReport::Time;

/// An engine as its snapshots and records show it.
class StepReportTest : public testing::Test {
 protected:
  StepReportTest() {
    snapshot_.kv_tokens_capacity = 1000;
    at(0);
    EXPECT_THAT(update(), ElementsAre());
  }

  void at(int milliseconds) {
    now_ = Time(std::chrono::hours(1)) + std::chrono::milliseconds(milliseconds);
    snapshot_.heartbeat = now_;
  }
  void decode(int32_t sequences, int count = 1, StepReason reason = StepReason::kReplayed) {
    for (int i = 0; i < count; ++i) {
      ++snapshot_.statistics.decode_steps;
      snapshot_.statistics.decode_tokens += sequences;
      snapshot_.statistics.generated_tokens += sequences;
      snapshot_.counters.count(StepKind::kDecode, reason);
      records_.push_back({.index = index_++,
                          .kind = StepKind::kDecode,
                          .reason = reason,
                          .sequences = sequences,
                          .kv_tokens_used = snapshot_.kv_tokens_used});
    }
  }
  void prefill(int32_t sequences, int32_t tokens, int32_t cached) {
    ++snapshot_.statistics.prefill_steps;
    snapshot_.statistics.prefill_tokens += tokens;
    snapshot_.statistics.cached_tokens += cached;
    snapshot_.statistics.generated_tokens += sequences;
    records_.push_back({.index = index_++, .kind = StepKind::kPrefill, .sequences = sequences, .tokens = tokens});
  }
  std::vector<std::string> update() {
    const std::vector<engine::StepRecord> records = std::move(records_);
    records_.clear();
    return report_.update(snapshot_, records, now_);
  }

  StepReport report_{{.graph_label = "npu graph", .decode_interval = 10, .available_gigabytes = [] { return 60.5; }}};
  engine::ServiceSnapshot snapshot_;
  std::vector<engine::StepRecord> records_;
  Time now_;
  int64_t index_ = 0;
};

TEST_F(StepReportTest, TellsOfDecodeStepsInSglangsForm) {
  snapshot_.running = 4;
  snapshot_.waiting = 3;
  snapshot_.kv_tokens_used = 125;
  decode(4, 9);
  at(1000);
  EXPECT_THAT(update(), ElementsAre()) << "one step is missing";
  decode(2);
  snapshot_.kv_tokens_used = 0;  // those of the step have ended meanwhile
  at(2000);
  // 38 tokens in two seconds.
  EXPECT_THAT(update(),
              ElementsAre("Decode batch, #running-req: 2, #token: 125, token usage: 0.12, npu graph: True, gen "
                          "throughput (token/s): 19.00, #queue-req: 3, "));
  snapshot_.kv_tokens_used = 125;
  decode(5, 9);
  decode(5, 1, StepReason::kAboveLargestBucket);
  at(3000);
  EXPECT_THAT(update(),
              ElementsAre("Decode batch, #running-req: 5, #token: 125, token usage: 0.12, npu graph: False, gen "
                          "throughput (token/s): 50.00, #queue-req: 3, "));
}

TEST_F(StepReportTest, IdleTimeIsNotCounted) {
  at(60'000);
  EXPECT_THAT(update(), ElementsAre());
  decode(1, 10);
  at(61'000);
  EXPECT_THAT(update(), ElementsAre(testing::HasSubstr("(token/s): 10.00,")));
}

TEST_F(StepReportTest, TellsOfPrompts) {
  snapshot_.kv_tokens_used = 500;
  prefill(2, 30, 16);
  prefill(1, 12, 0);
  at(10);
  EXPECT_THAT(update(), ElementsAre("Prefill batch. #new-seq: 3, #new-token: 42, #cached-token: 16, token usage: 0.50, "
                                    "#running-req: 0, #queue-req: 0, "));
  EXPECT_THAT(update(), ElementsAre());
}

TEST_F(StepReportTest, TellsOfCaptures) {
  snapshot_.captures = 2;
  snapshot_.capture_seconds = 1.5;
  snapshot_.graph_bytes = size_t{1} << 29;
  EXPECT_THAT(
      update(),
      ElementsAre(MatchesRegex("Capture npu graph end. Time elapsed: 1.50 s. mem usage=0.50 GB. avail mem=60.50 GB.")));
  EXPECT_THAT(update(), ElementsAre());
}

TEST(StepReportWithout, AnIntervalOfZeroTellsOfNoSteps) {
  StepReport report({.decode_interval = 0});
  engine::ServiceSnapshot snapshot;
  snapshot.statistics.decode_steps = 100;
  snapshot.statistics.prefill_steps = 1;
  EXPECT_THAT(report.update(snapshot, {}, Time{}), ElementsAre());
}

}  // namespace
}  // namespace reprise::server
