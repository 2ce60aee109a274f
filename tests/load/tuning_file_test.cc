#include "load/tuning_file.h"

#include <fmt/format.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "load/test_files.h"

namespace reprise::load {
namespace {

using TuningChoices = TuningFile::Choices;

std::string tuning_text(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

const TuningChoices kSomeChoices = {{"a product", "a way"}, {"another", "another way"}};

TEST(TuningFile, GivesEachMachineItsOwnChoicesAgain) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "new" / "autotune.json";
  TuningFile first(path, "one");
  EXPECT_TRUE(first.choices().empty());
  EXPECT_EQ(first.problem(), "");
  TuningFile other(path, "\"other\" machine");
  first.write(kSomeChoices);
  other.write({{"a product", "a third way"}});
  EXPECT_EQ(TuningFile(path, "one").choices(), kSomeChoices);
  EXPECT_EQ(TuningFile(path, "\"other\" machine").choices(), (TuningChoices{{"a product", "a third way"}}));
  const TuningFile unknown(path, "a third");
  EXPECT_TRUE(unknown.choices().empty());
  EXPECT_EQ(unknown.problem(), "");
  // Nothing is left of what was written on the way.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory / "new"), {}), 1);
}

TEST(TuningFile, KeepsWhatAnotherProcessOfTheMachineHasChosenMeanwhile) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "autotune.json";
  TuningFile first(path, "one");
  TuningFile second(path, "one");
  first.write({{"a product", "a way"}, {"both", "of the first"}});
  second.write({{"another", "another way"}, {"both", "of the second"}});
  const TuningChoices all = {{"a product", "a way"}, {"another", "another way"}, {"both", "of the second"}};
  EXPECT_EQ(TuningFile(path, "one").choices(), all);
}

TEST(TuningFile, LosesNothingWhenSeveralWriteAtOnce) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "new" / "autotune.json";
  constexpr int kWriters = 4, kWrites = 5;
  std::vector<std::thread> writers;
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&path, writer] {
      for (int i = 0; i < kWrites; ++i) {
        TuningFile(path, writer % 2 == 0 ? "one" : "other").write({{fmt::format("{} of {}", i, writer), "a way"}});
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  for (const char* machine : {"one", "other"}) {
    const TuningFile file(path, machine);
    EXPECT_EQ(file.problem(), "");
    EXPECT_EQ(file.choices().size(), size_t{kWriters / 2 * kWrites}) << machine;
  }
}

TEST(TuningFile, IgnoresADamagedFileAndReplacesIt) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "autotune.json";
  TuningFile(path, "one").write(kSomeChoices);
  const std::string whole = tuning_text(path);
  for (const std::string& damaged :
       {whole.substr(0, whole.size() / 2), std::string(), std::string(R"({"reprise_autotune": 1, "machines": []})"),
        std::string(R"({"reprise_autotune": 1})"), std::string(R"({"reprise_autotune": 2, "machines": {}})"),
        std::string(R"({"reprise_autotune": 1, "machines": {"one": 3}})"),
        std::string(R"({"reprise_autotune": 1, "machines": {"one": {"a product": 4}}})")}) {
    SCOPED_TRACE(damaged);
    write_text_file(path, damaged);
    TuningFile file(path, "one");
    EXPECT_TRUE(file.choices().empty());
    EXPECT_NE(file.problem(), "");
    EXPECT_FALSE(file.is_foreign());
    file.write(kSomeChoices);
    EXPECT_EQ(TuningFile(path, "one").choices(), kSomeChoices);
  }
}

TEST(TuningFile, KeepsTheSoundMachinesBesideADamagedOne) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "autotune.json";
  for (const char* damaged : {"other", "one"}) {
    write_text_file(path, fmt::format(R"({{"reprise_autotune": 1, "machines":
        {{"{}": {{"x": 5}}, "{}": {{"a": "b"}}, "third": {{"c": "d"}}}}}})",
                                      damaged, damaged == std::string("one") ? "other" : "one"));
    TuningFile file(path, "one");
    EXPECT_EQ(file.problem().empty(), damaged == std::string("other"));
    EXPECT_EQ(file.choices().size(), damaged == std::string("other") ? 1u : 0u);
    file.write({{"a", "b"}});
    EXPECT_EQ(TuningFile(path, "one").choices(), (TuningChoices{{"a", "b"}}));
    EXPECT_EQ(TuningFile(path, "third").choices(), (TuningChoices{{"c", "d"}}));
  }
}

TEST(TuningFile, LeavesWhatOthersHaveWrittenAsItIs) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "config.json";
  for (const std::string& foreign : {std::string(R"({"architectures": []})"), std::string(200, 'x')}) {
    SCOPED_TRACE(foreign);
    write_text_file(path, foreign);
    TuningFile file(path, "one");
    EXPECT_TRUE(file.choices().empty());
    EXPECT_THAT(file.problem(), testing::HasSubstr("does not begin"));
    EXPECT_EQ(error_of([&] { file.write(kSomeChoices); }).code(), ErrorCode::kFailedPrecondition);
    EXPECT_EQ(tuning_text(path), foreign);
  }
  const TuningFile folder(directory.path(), "one");
  EXPECT_THAT(folder.problem(), testing::HasSubstr("no regular file"));
}

TEST(TuningFile, LiesInTheUsersCache) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string cache_before = cache == nullptr ? "" : cache;
  const std::string home_before = home == nullptr ? "" : home;
  ::setenv("HOME", "/home/of", 1);
  ::setenv("XDG_CACHE_HOME", "/of/caches", 1);
  EXPECT_EQ(TuningFile::usual_path(), "/of/caches/reprise/autotune.json");
  for (const char* unusable : {"", "relative"}) {
    ::setenv("XDG_CACHE_HOME", unusable, 1);
    EXPECT_EQ(TuningFile::usual_path(), "/home/of/.cache/reprise/autotune.json");
  }
  ::unsetenv("XDG_CACHE_HOME");
  ::unsetenv("HOME");
  EXPECT_TRUE(TuningFile::usual_path().empty());
  if (cache != nullptr) ::setenv("XDG_CACHE_HOME", cache_before.c_str(), 1);
  if (home != nullptr) ::setenv("HOME", home_before.c_str(), 1);
}

}  // namespace
}  // namespace reprise::load
