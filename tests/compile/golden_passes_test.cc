// Each standard pass alone: tests/data/passes/NAME.in.txt becomes NAME.out.txt, which begins with what the pass
// reports; NAME-VARIANT.in.txt is one more graph for the pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "compile/pass_manager.h"
#include "graph/diff.h"
#include "graph/text_parser.h"
#include "graph/text_writer.h"
#include "ops/registry.h"

namespace reprise::compile {
namespace {

const std::filesystem::path kGoldenData = std::filesystem::path(REPRISE_SOURCE_DIR) / "tests/data/passes";

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw Error(ErrorCode::kNotFound, "there is no file {}", path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> pass_names() {
  const ops::Registry registry = ops::make_catalogue();
  return PassManager::standard(registry).names();
}

/// The passes' options with all of them off but one.
PassOptions only(const std::string& name) {
  PassOptions options;
  options.inexact_fusions = true;
  for (const std::string& other : pass_names()) {
    if (other != name) options.disabled_passes.push_back(other);
  }
  return options;
}

/// As a loader leaves them: the weights of each prefix ("layers.0.mlp.") one after the other in a storage of its own.
void lay_out_weights(graph::Graph& graph) {
  std::map<std::string, std::pair<std::shared_ptr<Storage>, size_t>> storages;
  for (const graph::ValueId id : graph.parameters()) {
    const graph::Value& value = graph.value(id);
    if (value.meta.shape.rank() != 2) continue;
    const std::string stem = value.label.substr(0, value.label.rfind('.'));
    auto& [storage, used] = storages[stem.substr(0, stem.rfind('.') + 1)];
    if (storage == nullptr) storage = std::make_shared<Storage>(nullptr, 1 << 20);
    graph.bind_parameter(id, Tensor(value.meta, storage, used));
    used += value.meta.contiguous_bytes();
  }
}

/// Every pass has a graph of its name, and perhaps others.
std::vector<std::string> graph_names() {
  std::vector<std::string> names = pass_names();
  for (const auto& file : std::filesystem::directory_iterator(kGoldenData)) {
    const std::string name = file.path().filename().string();
    const size_t end = name.find(".in.txt");
    if (end != std::string::npos && name.find('-') < end) names.push_back(name.substr(0, end));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

class GoldenPass : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenPass, MakesTheExpectedGraph) {
  const std::string pass = GetParam().substr(0, GetParam().find('-'));
  const ops::Registry registry = ops::make_catalogue();
  graph::Graph graph = graph::parse(read_file(kGoldenData / (GetParam() + ".in.txt")), registry);
  if (GetParam() == "merge_linears") lay_out_weights(graph);
  const std::vector<PassReport> reports = PassManager::standard(registry, only(pass)).run(graph);
  ASSERT_EQ(reports.size(), 1u);
  ASSERT_GT(reports[0].matches, 0);
  std::string text = fmt::format("# matches: {}\n", reports[0].matches);
  for (const std::string& refusal : reports[0].refusals) text += "# refused: " + refusal + "\n";
  text += graph::to_text(graph);
  const std::string expected = read_file(kGoldenData / (GetParam() + ".out.txt"));
  EXPECT_EQ(graph::diff_lines(expected, text), "") << "the pass makes\n" << text;
  // What a pass leaves can be read back, and it has done all there is to do.
  EXPECT_EQ(graph::to_text(graph::parse(graph::to_text(graph), registry)), graph::to_text(graph));
  EXPECT_EQ(PassManager::standard(registry, only(pass)).run(graph)[0].matches, 0);
}

INSTANTIATE_TEST_SUITE_P(Passes, GoldenPass, ::testing::ValuesIn(graph_names()), [](const auto& tested) {
  std::string name = tested.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace reprise::compile
