#include "compile/pass_manager.h"

#include <chrono>

#include "base/error.h"
#include "compile/standard_passes.h"
#include "graph/stream_order.h"
#include "graph/verify.h"

namespace reprise::compile {
namespace {

/// What the outside knows of a graph, as text; passes keep it.
std::string signature(const graph::Graph& graph) {
  std::string text;
  for (const graph::SymDim& symbol : graph.symbols()) text += fmt::format("symbol {}; ", symbol.name);
  for (const graph::ValueId id : graph.inputs()) {
    text += fmt::format("input {} {}; ", graph.value(id).name, graph.value(id).meta.to_string());
  }
  for (const graph::ValueId id : graph.lists()) {
    text += fmt::format("list {} {}; ", graph.value(id).name, graph.value(id).length.to_string());
  }
  for (const graph::ValueId id : graph.outputs()) text += fmt::format("result {}; ", graph.value(id).meta.to_string());
  return text;
}

/// Throws kInternal for a graph that takes or gives something else than it did.
void check_signature(const graph::Graph& graph, const std::string& expected) {
  const std::string found = signature(graph);
  if (found == expected) return;
  throw Error(ErrorCode::kInternal, "it changes what graph '{}' takes and gives, from '{}' to '{}'", graph.name(),
              expected, found)
      .remedy("let a pass keep symbols, inputs, lists and the shapes and dtypes of the results");
}

}  // namespace

PassManager PassManager::standard(const ops::Registry& registry, const PassOptions& options) {
  PassManager manager;
  for (Pass& pass : standard_passes(registry, options)) manager.add(std::move(pass));
  return manager;
}

PassManager PassManager::lowering(const ops::Registry& registry) {
  PassManager manager;
  for (Pass& pass : lowering_passes(registry)) manager.add(std::move(pass));
  return manager;
}

std::vector<std::string> PassManager::names() const {
  std::vector<std::string> names;
  for (const Pass& pass : passes_) names.push_back(pass.name);
  return names;
}

std::vector<PassReport> PassManager::run(graph::Graph& graph) const {
  graph::check_streams(graph);
  std::vector<PassReport> reports;
  const std::string expected = signature(graph);
  for (const Pass& pass : passes_) {
    PassReport report;
    report.pass = pass.name;
    report.nodes_before = static_cast<int64_t>(graph.order().size());
    const auto start = std::chrono::steady_clock::now();
    try {
      PassResult result = pass.run(graph);
      graph::verify(graph);
      check_signature(graph, expected);
      report.matches = result.matches;
      report.refusals = std::move(result.refusals);
    } catch (Error& error) {
      error.add_context(fmt::format("pass '{}' on graph '{}'", pass.name, graph.name()));
      throw;
    }
    report.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    report.nodes_after = static_cast<int64_t>(graph.order().size());
    reports.push_back(std::move(report));
    if (observer_) observer_(pass, graph);
  }
  return reports;
}

}  // namespace reprise::compile
