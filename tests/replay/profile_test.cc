#include "replay/profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/malloc_counter.h"
#include "harness/step_harness.h"
#include "replay/profile_recording.h"
#include "replay/profile_report.h"

namespace reprise::replay {
namespace {

StepHarness::Options profile_options(Mode mode = Mode::kFull) {
  StepHarness::Options options;
  options.model = std::filesystem::path(REPRISE_SOURCE_DIR) / "tests/data/models/dense";
  options.mode = mode;
  options.threads = 2;
  options.poison = false;
  return options;
}

int64_t count_spans(const Profile& profile, std::string_view name) {
  return std::count_if(profile.spans().begin(), profile.spans().end(),
                       [&](const Profile::Span& span) { return span.name == name; });
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

TEST(Profile, OfACaptureShowsEachSizeAndItsKernelsWithTheirShapes) {
  StepHarness harness(profile_options());
  Profile profile(harness.device());
  harness.runner().capture();
  profile.stop();
  // As many graphs as sizes, each replayed twice; these are no steps.
  EXPECT_EQ(count_spans(profile, "capture_graph"), 4);
  EXPECT_EQ(count_spans(profile, "end_capture"), 4);
  for (const char* step : {"decode step of 1", "decode step of 2", "decode step of 4", "decode step of 8"}) {
    EXPECT_EQ(count_spans(profile, step), 2) << step;
  }
  EXPECT_EQ(harness.runner().counters().steps(StepKind::kDecode), 0);

  int64_t launches = 0;
  for (const CaptureReport::Bucket& bucket : harness.runner().capture_report().buckets) launches += bucket.launches;
  const std::vector<ops::LaunchLabel> labels = harness.runner().labels().all();
  int64_t labelled = 0;
  for (const device::WorkRecord& work : profile.work()) {
    EXPECT_LE(work.begin, work.end);
    ASSERT_LE(work.label, labels.size());
    labelled += work.label > 0 ? 1 : 0;
  }
  EXPECT_EQ(labelled, 2 * launches);
  std::set<std::string> operators;
  for (const ops::LaunchLabel& label : labels) operators.insert(label.op);
  EXPECT_TRUE(operators.contains("paged_attention"));
  EXPECT_TRUE(std::any_of(labels.begin(), labels.end(),
                          [](const ops::LaunchLabel& label) { return label.shapes.starts_with("[[8, "); }));
}

TEST(Profile, LeavesNothingBehind) {
  StepHarness plain(profile_options());
  plain.runner().capture();
  StepHarness harness(profile_options());
  std::optional<Profile> profile(harness.device());
  harness.runner().capture();
  const Rows profiled_prompt = harness.feed(0, {5, 6, 7, 8});
  const Rows profiled_step = harness.decode({0}, {9});
  profile->stop();
  EXPECT_EQ(harness.device().observer(), nullptr);
  // The same bits, while it is profiled and afterwards.
  EXPECT_EQ(profiled_prompt, plain.feed(0, {5, 6, 7, 8}));
  EXPECT_EQ(profiled_step, plain.decode({0}, {9}));
  EXPECT_EQ(harness.decode({0}, {3}), plain.decode({0}, {3}));

  const size_t work = profile->work().size(), spans = profile->spans().size(), memory = profile->memory().size();
  const StepBatch batch = harness.next_batch({{0, {4}}});
  harness.runner().run(batch);  // what allocates once has done so
  const device::DeviceCounters before = harness.device().counters();
  const int64_t dispatches = harness.runner().operator_dispatches();
  const MallocCounter allocations;
  for (int i = 0; i < 20; ++i) harness.runner().run(batch);
  EXPECT_EQ(allocations.count(), 0);
  EXPECT_EQ(harness.runner().operator_dispatches(), dispatches);
  const device::DeviceCounters after = harness.device().counters();
  EXPECT_EQ(after.replays, before.replays + 20);
  EXPECT_EQ(after.allocations, before.allocations);
  // Nobody was told anything.
  EXPECT_EQ(profile->work().size(), work);
  EXPECT_EQ(profile->spans().size(), spans);
  EXPECT_EQ(profile->memory().size(), memory);
}

TEST(Profile, TellsOfEagerStepsToo) {
  for (const Mode mode : {Mode::kEager, Mode::kForceEager, Mode::kPiecewise}) {
    StepHarness harness(profile_options(mode));
    harness.feed(0, {5, 6, 7});
    Profile profile(harness.device());
    harness.decode({0}, {8});
    profile.stop();
    const std::vector<ops::LaunchLabel> labels = harness.runner().labels().all();
    const bool has_attention =
        std::any_of(profile.work().begin(), profile.work().end(), [&](const device::WorkRecord& work) {
          return work.label > 0 && labels[work.label - 1].op == "paged_attention";
        });
    EXPECT_TRUE(has_attention) << name_of(mode);
    EXPECT_EQ(count_spans(profile, "decode step of 1"), 1) << name_of(mode);
  }
}

TEST(Profile, EndsAfterSoManySteps) {
  StepHarness harness(profile_options());
  harness.feed(0, {5, 6, 7});
  const std::filesystem::path directory = std::filesystem::path(testing::TempDir()) / "profile_of_two";
  std::string text;
  std::optional<ProfileRecording> recording;
  recording.emplace(harness.runner(), 2, [&] { text = recording->save(directory); });
  harness.decode({0}, {8});
  EXPECT_EQ(text, "");
  EXPECT_NE(harness.device().observer(), nullptr);
  harness.decode({0}, {9});
  EXPECT_NE(text.find("Idle share of a decode step of 1: "), std::string::npos) << text;
  EXPECT_EQ(harness.device().observer(), nullptr);
  harness.decode({0}, {10});
  std::filesystem::remove_all(directory);
}

TEST(Profile, TablesHaveTheColumnsOfTorch) {
  StepHarness harness(profile_options());
  Profile profile(harness.device());
  harness.runner().capture();
  profile.stop();
  const ProfileReport report(profile, harness.runner().labels().all());
  const std::vector<std::string> lines = lines_of(report.tables());
  ASSERT_GT(lines.size(), 32u);
  EXPECT_EQ(lines[0], "Sorted by Device Time:");
  EXPECT_EQ(lines[1].substr(0, 71), std::string(55, '-') + "  " + std::string(12, '-') + "  ");
  EXPECT_TRUE(lines[2].starts_with(std::string(51, ' ') +
                                   "Name    Self CPU %      Self CPU   CPU total %     CPU total  "
                                   "CPU time avg   Self Device  Self Device %  Device total  Device time avg"))
      << lines[2];
  EXPECT_TRUE(lines[2].ends_with("  # of Calls  " + std::string(68, ' ') + "Input Shapes")) << lines[2];
  for (size_t i = 1; i <= 14; ++i) EXPECT_EQ(lines[i].size(), lines[1].size()) << lines[i];
  EXPECT_EQ(lines[14], lines[1]);
  EXPECT_TRUE(lines[15].starts_with("Self CPU time total: "));
  EXPECT_TRUE(lines[16].starts_with("Self Device time total: "));
  EXPECT_EQ(lines[18], "Sorted by CPU Time:");

  // Self times add up to what was seen; no step is idle by less than nothing or more than all.
  int64_t self_device = 0, seen = 0;
  for (const ProfileRow& row : report.rows()) {
    EXPECT_GE(row.self_host, 0) << row.name;
    EXPECT_LE(row.self_host, row.total_host) << row.name;
    self_device += row.self_device;
  }
  for (const device::WorkRecord& work : profile.work()) seen += work.end - work.begin;
  EXPECT_EQ(self_device, seen);
  ASSERT_EQ(report.idle().size(), 4u);
  for (const StepIdle& step : report.idle()) {
    EXPECT_EQ(step.steps, 2);
    EXPECT_GT(step.idle_share(), 0);
    EXPECT_LT(step.idle_share(), 1);
  }
}

TEST(Profile, OfADeviceThatGivesNoTimesOfKernelsHasNoIdleShare) {
  StepHarness harness(profile_options());
  Profile profile(harness.device());
  profile.begin_span("decode step of 1", 0);
  profile.end_span();
  profile.stop();
  const ProfileReport report(profile, {});
  EXPECT_TRUE(report.idle().empty());
  const std::string tables = report.tables();
  EXPECT_TRUE(tables.starts_with("This device gives no times of kernels: ")) << tables;
  EXPECT_EQ(tables.find("Idle share"), std::string::npos) << tables;
  EXPECT_EQ(tables.find("Sorted by Device Time"), std::string::npos) << tables;
  EXPECT_NE(tables.find("Sorted by CPU Time"), std::string::npos) << tables;
  EXPECT_NE(tables.find("Self Device time total: not known\n"), std::string::npos) << tables;
}

TEST(Profile, FilesAreWhatToolsRead) {
  const std::filesystem::path directory = std::filesystem::path(testing::TempDir()) / "profile_files";
  StepHarness harness(profile_options());
  ProfileRecording recording(harness.runner());
  harness.runner().capture();
  const std::string text = recording.save(directory);
  EXPECT_TRUE(text.ends_with("\nMemory Usage is saved to " + (directory / "memory.json").string() + "\n")) << text;

  const auto trace = nlohmann::json::parse(std::ifstream(directory / "trace.json"));
  std::map<std::string, int> kinds;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    ++kinds[event.at("ph").get<std::string>()];
    if (event["ph"] != "X") continue;
    EXPECT_GE(event.at("ts").get<double>(), 0);
    EXPECT_GE(event.at("dur").get<double>(), 0);
    EXPECT_FALSE(event.at("name").get<std::string>().empty());
  }
  EXPECT_GT(kinds["X"], 100);
  EXPECT_GT(kinds["C"], 0);

  const auto memory = nlohmann::json::parse(std::ifstream(directory / "memory.json"));
  auto allocated = memory.at("allocated_before").get<int64_t>();
  int commits = 0;
  for (const nlohmann::json& event : memory.at("events")) {
    commits += event.at("action") == "commit" ? 1 : 0;
    allocated = event.at("allocated").get<int64_t>();
  }
  EXPECT_GE(commits, 1);  // the arena
  EXPECT_EQ(static_cast<size_t>(allocated), harness.device().memory_info().allocated_bytes);
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace reprise::replay
