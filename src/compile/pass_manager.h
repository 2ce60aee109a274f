#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "compile/pass.h"
#include "compile/pass_options.h"
#include "ops/registry.h"

namespace reprise::compile {

/// One pass of a run: what it did and how long it took.
struct PassReport {
  std::string pass;
  int64_t nodes_before = 0;
  int64_t nodes_after = 0;
  int64_t matches = 0;
  std::vector<std::string> refusals;
  double milliseconds = 0;
};

/// Runs passes in order; after each the graph is verified, so that a fault is reported with the pass that made it.
class PassManager {
 public:
  /// The pipeline that every optimised mode uses. The registry must outlive the manager and the graphs; it need not
  /// have the catalogue's operators: fusions into those that it lacks are left out. Throws kInvalidArgument for a
  /// disabled pass that does not exist.
  static PassManager standard(const ops::Registry& registry, const PassOptions& options = {});

  /// Only what every graph needs before it can run: its side streams forked and joined, its core limits set. Graphs
  /// without them stay as they are.
  static PassManager lowering(const ops::Registry& registry);

  void add(Pass pass) { passes_.push_back(std::move(pass)); }
  /// Names of the passes, in order.
  std::vector<std::string> names() const;
  /// Called with the graph after each pass: for dumps.
  void set_observer(std::function<void(const Pass&, const graph::Graph&)> observer) { observer_ = std::move(observer); }
  /// Throws kInvalidArgument, in front of the first pass, for streams that race (check_streams() of
  /// graph/stream_order.h).
  std::vector<PassReport> run(graph::Graph& graph) const;

 private:
  std::vector<Pass> passes_;
  std::function<void(const Pass&, const graph::Graph&)> observer_;
};

}  // namespace reprise::compile
