#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compile/pass.h"

namespace reprise::compile {

/// One pass of a run.
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
  /// The pipeline that every optimised mode uses.
  static PassManager standard();

  void add(Pass pass) { passes_.push_back(pass); }
  /// Called with the graph after each pass: for dumps.
  void set_observer(std::function<void(const Pass&, const graph::Graph&)> observer) { observer_ = std::move(observer); }
  std::vector<PassReport> run(graph::Graph& graph) const;

 private:
  std::vector<Pass> passes_;
  std::function<void(const Pass&, const graph::Graph&)> observer_;
};

}  // namespace reprise::compile
