#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "compile/pass_manager.h"
#include "graph/graph.h"

namespace reprise::replay {

/// Writes what happens to one compiled method into a directory of its own, readable without other tools: the graph as
/// traced (`000_traced.txt`), after each pass (`007_after_in_place.txt`), a log of the passes, and each captured
/// program as text and JSON. Off when made without a directory.
class DebugDump {
 public:
  DebugDump() = default;
  /// `root`/`method`, or with a number behind it when that is taken by an earlier run. Throws kIo.
  DebugDump(const std::filesystem::path& root, const std::string& method);

  /// Makes the directory in which those of methods are made, unless it is empty. Throws kIo.
  static void make_root(const std::filesystem::path& root);

  bool enabled() const { return !directory_.empty(); }
  void traced(const graph::Graph& graph);
  void after_pass(const std::string& pass, const graph::Graph& graph);
  /// "passes.log": nodes before and after, matches, refusals with their reasons, and the time of each pass.
  void passes(const std::vector<compile::PassReport>& reports);
  /// "program_NAME.txt" and ".json"; `name`: "bs4".
  void program(const std::string& name, const std::string& text, const std::string& json);
  /// A file of another name.
  void text(const std::string& name, const std::string& text);

 private:
  /// Ends the dump, with a warning, where it fails.
  void write(const std::string& name, const std::string& text);

  std::filesystem::path directory_;
  int graphs_ = 0;
};

/// The report of a pipeline for people: one line a pass, then each refusal with its reason.
std::string pass_table(const std::vector<compile::PassReport>& reports);

}  // namespace reprise::replay
