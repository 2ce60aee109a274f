#include "replay/debug_dump.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <sstream>

#include "base/error.h"
#include "graph/hash.h"
#include "graph/text_parser.h"
#include "harness/step_harness.h"

namespace reprise::replay {
namespace {

/// A directory that is gone after the test.
struct TemporaryDirectory {
  TemporaryDirectory() {
    std::string pattern = std::filesystem::temp_directory_path() / "reprise_dump_XXXXXX";
    path = ::mkdtemp(pattern.data());
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

StepHarness::Options options_with(const std::filesystem::path& directory) {
  StepHarness::Options options;
  options.model = std::filesystem::path(REPRISE_SOURCE_DIR) / "tests/data/models/dense";
  options.debug_directory = directory;
  return options;
}

}  // namespace

TEST(DebugDump, HoldsTheGraphAfterEachPassAndEveryCapturedProgram) {
  const TemporaryDirectory root;
  StepHarness harness(options_with(root.path));
  harness.feed(0, {1, 2, 3});
  harness.decode({0}, {4});
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(root.path / "decode")) {
    names.insert(entry.path().filename().string());
  }
  EXPECT_TRUE(names.contains("000_traced.txt"));
  EXPECT_TRUE(names.contains("001_after_remove_noop_ops.txt"));
  EXPECT_TRUE(names.contains("passes.log"));
  EXPECT_TRUE(names.contains("program_bs1.txt"));
  EXPECT_TRUE(names.contains("program_bs1.json"));
  EXPECT_TRUE(std::filesystem::exists(root.path / "prefill" / "000_traced.txt"));

  // The last dump is the graph that runs, and reads back as it.
  const size_t passes = harness.runner().decode_pass_reports().size();
  const std::string last = *std::next(names.begin(), static_cast<std::ptrdiff_t>(passes));
  const graph::Graph parsed = graph::parse(read(root.path / "decode" / last), harness.registry());
  EXPECT_EQ(graph::structural_hash(parsed), graph::structural_hash(harness.runner().decode_graph())) << last;
}

TEST(DebugDump, AnotherRunTakesADirectoryOfItsOwn) {
  const TemporaryDirectory root;
  for (int run = 0; run < 2; ++run) {
    StepHarness harness(options_with(root.path));
    harness.runner().decode_graph();
  }
  EXPECT_TRUE(std::filesystem::exists(root.path / "decode"));
  EXPECT_TRUE(std::filesystem::exists(root.path / "decode.1"));
}

TEST(DebugDump, ADirectoryThatCannotBeMadeIsNamed) {
  try {
    DebugDump("/proc/nowhere", "decode");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_NE(std::string(error.what()).find("/proc/nowhere/decode"), std::string::npos) << error.what();
  }
}

TEST(DebugDump, TheTableShowsEachPassAndEachRefusal) {
  compile::PassReport report;
  report.pass = "swiglu";
  report.nodes_before = 12;
  report.nodes_after = 10;
  report.matches = 2;
  report.refusals = {"qwen3.cc:9: mul: used outside"};
  const std::string table = pass_table({report});
  EXPECT_NE(table.find("swiglu                             12     10        2        1"), std::string::npos) << table;
  EXPECT_NE(table.find("swiglu left alone: qwen3.cc:9: mul: used outside"), std::string::npos) << table;
}

}  // namespace reprise::replay
