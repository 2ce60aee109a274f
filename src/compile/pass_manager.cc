#include "compile/pass_manager.h"

#include <chrono>

#include "base/error.h"
#include "compile/passes/eliminate_dead_code.h"
#include "compile/passes/remove_noop_ops.h"
#include "graph/verify.h"

namespace reprise::compile {

PassManager PassManager::standard() {
  PassManager manager;
  manager.add({"remove_noop_ops", remove_noop_ops});
  // Last, so that what the passes before made useless is gone.
  manager.add({"eliminate_dead_code", eliminate_dead_code});
  return manager;
}

std::vector<PassReport> PassManager::run(graph::Graph& graph) const {
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
