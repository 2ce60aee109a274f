#include "cli/sglang_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "base/error.h"
#include "cli/serve_arguments.h"

namespace reprise::cli {
namespace {

using enum SglangTreatment;
using testing::ElementsAre;
using testing::HasSubstr;
using Tokens = std::vector<std::string>;

/// Options of Reprise that tests name; "-m" is the short one of "--model".
KnownOption find_option(const std::string& name) {
  static const std::set<std::string> known = {"--model",    "--graph-bs",  "--mode", "--max-prefill-tokens",
                                              "--discrete", "--option",    "--host", "--eplb-rebalance-num-iterations",
                                              "--config",   "--pack-cache"};
  if (name == "-m") return {"--model"};
  if (name == "--mode") return {name, "full"};
  if (name == "--discrete") return {name, "", true};
  if (name == "--eplb-rebalance-num-iterations") return {name, "0"};
  return {known.contains(name) ? name : ""};
}

Tokens resolve(const Tokens& arguments) { return resolve_serve_arguments(arguments, find_option).tokens; }
Tokens merge(const std::string& file, const Tokens& arguments) {
  return merge_serve_arguments(arguments, file, "a.yaml", find_option).tokens;
}

template <typename Run>
std::string refusal_of_run(const Run& run, ErrorCode code) {
  try {
    run();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "accepted";
}
std::string refused(const Tokens& arguments, ErrorCode code = ErrorCode::kUnsupported) {
  return refusal_of_run([&] { resolve(arguments); }, code);
}
std::string refused_file(const std::string& file, ErrorCode code) {
  return refusal_of_run([&] { merge(file, {}); }, code);
}

/// Each row of the table does what it says.
TEST(SglangFlags, EveryRowIsMappedOrRefused) {
  std::set<std::string_view> names;
  for (const SglangFlag& flag : sglang_flags()) {
    const std::string name(flag.name);
    EXPECT_TRUE(names.insert(flag.name).second) << name << " comes twice";
    Tokens given = {name};
    if (flag.takes_value) given.emplace_back("7");
    switch (flag.treatment) {
      case kSame:
        EXPECT_EQ(resolve(given), flag.takes_value ? Tokens{name + "=7"} : Tokens{name});
        break;
      case kRenamed:
        EXPECT_EQ(resolve(given),
                  flag.takes_value ? Tokens{std::string(flag.target) + "=7"} : Tokens{std::string(flag.target)});
        break;
      case kAlways: {
        if (!flag.takes_value) {
          EXPECT_THAT(resolve(given), ElementsAre()) << name;
          break;
        }
        EXPECT_THAT(refused(given), HasSubstr(name + " 7 is not built")) << name;
        std::stringstream allowed{std::string(flag.target)};
        for (std::string value; std::getline(allowed, value, ',');) {
          EXPECT_THAT(resolve({name, value}), ElementsAre()) << name;
        }
        EXPECT_THAT(refused({name}, ErrorCode::kInvalidArgument), HasSubstr(name + " needs one value")) << name;
        break;
      }
      case kRefused:
        EXPECT_EQ(refused(given), name + " of SGLang has no meaning here (" + std::string(flag.target) + ")");
        EXPECT_FALSE(flag.target.empty()) << name;
        break;
      case kTranslated:
        // Below, by what they become.
        EXPECT_FALSE(flag.target.empty()) << name;
        if (name != "--compilation-config") {
          EXPECT_FALSE(resolve(given).empty()) << name;
        }
    }
  }
}

TEST(SglangFlags, TheTableOfTheDocumentationIsComplete) {
  std::ifstream file(REPRISE_SOURCE_DIR "/docs/options.md");
  std::stringstream content;
  content << file.rdbuf();
  for (const SglangFlag& flag : sglang_flags()) {
    EXPECT_NE(content.str().find("| `" + std::string(flag.name) + "` |"), std::string::npos) << flag.name;
  }
}

TEST(SglangFlags, FlagsOfGraphsChooseTheMode) {
  EXPECT_THAT(resolve({"--disable-cuda-graph"}), ElementsAre("--mode=eager"));
  EXPECT_THAT(resolve({"--enable-torch-compile"}), ElementsAre("--mode=full"));
  EXPECT_THAT(resolve({"--enable-torch-compile", "--disable-cuda-graph"}), ElementsAre("--mode=force_eager"));
  EXPECT_THAT(resolve({"--enable-piecewise-npu-graph-decode"}), ElementsAre("--mode=piecewise"));
  EXPECT_THAT(resolve({"--enable-piecewise-npu-graph-decode", "--enable-torch-compile"}),
              ElementsAre("--mode=piecewise"));
  EXPECT_THAT(resolve({"--disable-cuda-graph", "--mode", "eager"}), ElementsAre("--mode=eager"));
  EXPECT_THAT(refused({"--disable-cuda-graph", "--mode", "full"}, ErrorCode::kInvalidArgument),
              HasSubstr("--disable-cuda-graph stands for --mode eager, and --mode full is given as well"));
  EXPECT_THAT(refused({"--disable-cuda-graph", "--enable-piecewise-npu-graph-decode"}, ErrorCode::kInvalidArgument),
              HasSubstr("contradict each other"));
  EXPECT_THAT(refused({"--disable-cuda-graph=yes"}, ErrorCode::kInvalidArgument), HasSubstr("takes no value, 'yes'"));
}

TEST(SglangFlags, CompilationConfigKeepsWhatRepriseHas) {
  EXPECT_THAT(resolve({"--compilation-config", R"({"splitting_ops": ["atb._npu_paged_attention", "linear"]})"}),
              ElementsAre(R"(--compilation-config={"splitting_ops":["paged_attention","linear"]})"));
  EXPECT_THAT(resolve({"--compilation-config", R"({"compiler": "piecewise"})"}), ElementsAre("--mode=piecewise"));
  EXPECT_THAT(resolve({"--compilation-config", R"({"compiler": "npugraph"})"}), ElementsAre("--mode=full"));
  EXPECT_THAT(resolve({"--compilation-config", "null"}), ElementsAre());
  EXPECT_THAT(refused({"--compilation-config", R"({"compiler": "inductor"})"}), HasSubstr("no compiler \"inductor\""));
  EXPECT_THAT(refused({"--compilation-config", "["}, ErrorCode::kInvalidArgument), HasSubstr("expected a JSON object"));
}

TEST(SglangFlags, ValuesAreTranslated) {
  EXPECT_THAT(resolve({"--cuda-graph-bs", "1", "2", "4", "--model-path", "d"}),
              ElementsAre("--graph-bs", "1", "2", "4", "--model=d"));
  EXPECT_THAT(resolve({"--cuda-graph-bs=1,2"}), ElementsAre("--graph-bs=1,2"));
  EXPECT_THAT(resolve({"--dtype", "float"}), ElementsAre("--dtype=float32"));
  EXPECT_THAT(resolve({"--dtype", "bfloat16"}), ElementsAre("--dtype=bfloat16"));
  EXPECT_THAT(resolve({"--chunked-prefill-size", "2048"}), ElementsAre("--max-prefill-tokens=2048"));
  EXPECT_THAT(resolve({"--chunked-prefill-size", "2048", "--max-prefill-tokens", "16384"}),
              ElementsAre("--max-prefill-tokens=2048"));
  EXPECT_THAT(resolve({"--max-prefill-tokens", "1024", "--chunked-prefill-size", "2048"}),
              ElementsAre("--max-prefill-tokens=1024"));
  EXPECT_THAT(refused({"--chunked-prefill-size", "-1"}), HasSubstr("always read in chunks"));
  EXPECT_THAT(refused({"--chunked-prefill-size", "x"}, ErrorCode::kInvalidArgument), HasSubstr("must be an integer"));
  EXPECT_THAT(resolve({"--enable-eplb"}), ElementsAre("--eplb-rebalance-num-iterations=1000"));
  EXPECT_THAT(resolve({"--enable-eplb", "--eplb-rebalance-num-iterations", "5"}),
              ElementsAre("--eplb-rebalance-num-iterations=5"));
}

TEST(ServeArguments, OtherArgumentsStayAsTheyAre) {
  EXPECT_THAT(resolve({"-m", "d", "--help"}), ElementsAre("-m", "d", "--help"));
  EXPECT_THAT(resolve({"-md", "--unknown", "x", "--host=", "--seed", "-1"}),
              ElementsAre("-m", "d", "--unknown=x", "--host", "", "--seed=-1"));
  EXPECT_THAT(resolve({"stray", "-O", "a=b", "-O", "c=d"}), ElementsAre("stray", "-O", "a=b", "-O", "c=d"));
}

TEST(ServeArguments, AFileComesFirstAndTheCommandLineWins) {
  const std::string file =
      "model: d\ncuda_graph_bs: [1, 2]\ndiscrete: true\nenable-torch-compile: False\nhost: null\noption:\n- a=b\n- "
      "c=d\n"
      "pack-cache: \"\"\nserved-model-name: 'true'\n";
  EXPECT_THAT(merge(file, {}), ElementsAre("--model=d", "--graph-bs=1", "--graph-bs=2", "--discrete", "--option=a=b",
                                           "--option=c=d", "--pack-cache", "", "--served-model-name=true"));
  EXPECT_THAT(merge(file, {"-m", "e", "--graph-bs", "8", "-O", "x=y"}), testing::Contains("--discrete"));
  EXPECT_THAT(merge("model: d\ngraph-bs: 4\n", {"-m", "e", "--cuda-graph-bs", "8"}),
              ElementsAre("-m", "e", "--graph-bs=8"));
  EXPECT_THAT(merge("mode: eager\n", {"--enable-torch-compile"}), ElementsAre("--mode=full"));
  EXPECT_THAT(merge("disable-cuda-graph: true\n", {"--mode", "full"}), ElementsAre("--mode=full"));
  EXPECT_THAT(merge("eplb-rebalance-num-iterations: 7\n", {"--enable-eplb"}),
              ElementsAre("--eplb-rebalance-num-iterations=7"));
  EXPECT_THAT(merge("compilation-config: {splitting_ops: [linear]}\n", {}),
              ElementsAre(R"(--compilation-config={"splitting_ops":["linear"]})"));
  EXPECT_THAT(merge("", {"--discrete"}), ElementsAre("--discrete"));
}

TEST(ServeArguments, WhatAFileGivesAsItIsAnywayDoesNotCountAsGiven) {
  EXPECT_THAT(merge("mode: full\n", {}), ElementsAre());
  EXPECT_THAT(merge("mode: \"full\"\ndisable-cuda-graph: true\n", {}), ElementsAre("--mode=eager"));
  EXPECT_THAT(merge("eplb-rebalance-num-iterations: 0\n", {"--enable-eplb"}),
              ElementsAre("--eplb-rebalance-num-iterations=1000"));
  EXPECT_THAT(merge("", {"--mode", "full"}), ElementsAre("--mode=full"));
}

TEST(ServeArguments, TellWhereTheOptionsOfAFileStand) {
  const ServeArguments read =
      merge_serve_arguments({"--host", "h"}, "model: d\n\nmax-total-tokens: 7\nhost: g\n", "a.yaml", find_option);
  EXPECT_THAT(read.places,
              ElementsAre(testing::Pair("--kv-tokens", "a.yaml, line 3"), testing::Pair("--model", "a.yaml, line 1")));
}

TEST(ServeArguments, FaultsOfAFileAreToldWithTheirLine) {
  EXPECT_THAT(refused_file("model: d\nmodle: e\n", ErrorCode::kInvalidArgument),
              HasSubstr("a.yaml, line 2: there is no option 'modle'"));
  EXPECT_THAT(refused_file("model: d\ndiscrete: maybe\n", ErrorCode::kInvalidArgument),
              HasSubstr("a.yaml, line 2: discrete is maybe, must be true or false"));
  EXPECT_THAT(refused_file("graph-bs: [1, 2]\nmodel: d\ncuda_graph_bs: 4\n", ErrorCode::kInvalidArgument),
              HasSubstr("line 3: 'cuda_graph_bs' is another name of 'graph-bs', which was given in line 1 already"));
  EXPECT_THAT(merge("graph-bs: null\ncuda_graph_bs: 4\n", {}), ElementsAre("--graph-bs=4"));
  EXPECT_THAT(refused_file("config: b.yaml\n", ErrorCode::kInvalidArgument), HasSubstr("there is no option 'config'"));
  EXPECT_THAT(refused_file("model: d\n\ntp-size: 2\n", ErrorCode::kUnsupported),
              HasSubstr("a.yaml, line 3: --tp-size 2 is not built"));
  EXPECT_THAT(refused_file("mem-fraction-static: 0.8\n", ErrorCode::kUnsupported),
              HasSubstr("a.yaml, line 1: --mem-fraction-static of SGLang has no meaning here"));
  EXPECT_THAT(refused_file("- model\n", ErrorCode::kInvalidArgument), HasSubstr("must be a map of options"));
  EXPECT_THAT(refused({"--config"}, ErrorCode::kInvalidArgument), HasSubstr("--config needs one file"));
  EXPECT_THAT(refused({"--config", "/missing/a.yaml"}, ErrorCode::kNotFound), HasSubstr("/missing/a.yaml"));
}

}  // namespace
}  // namespace reprise::cli
