#include "compile/pass_manager.h"

#include <chrono>

#include "base/error.h"
#include "compile/standard_passes.h"
#include "graph/stream_order.h"
#include "graph/verify.h"

namespace reprise::compile {

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
  for (const Pass& pass : passes_) {
    PassReport report;
    report.pass = pass.name;
    report.nodes_before = static_cast<int64_t>(graph.order().size());
    const auto start = std::chrono::steady_clock::now();
    try {
      PassResult result = pass.run(graph);
      graph::verify(graph);
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
