#include "replay/debug_dump.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fstream>

#include "base/error.h"
#include "base/log.h"
#include "graph/text_writer.h"

namespace reprise::replay {

DebugDump::DebugDump(const std::filesystem::path& root, const std::string& method) {
  if (root.empty()) return;
  std::error_code failure;
  directory_ = root / method;
  for (int number = 1; std::filesystem::exists(directory_, failure); ++number) {
    directory_ = root / fmt::format("{}.{}", method, number);
  }
  std::filesystem::create_directories(directory_, failure);
  if (failure) {
    throw Error(ErrorCode::kIo, "cannot make the debug directory {}: {}", directory_.string(), failure.message());
  }
}

void DebugDump::make_root(const std::filesystem::path& root) {
  if (root.empty()) return;
  std::error_code failure;
  std::filesystem::create_directories(root, failure);
  if (!failure && ::access(root.c_str(), W_OK) == 0) return;
  throw Error(ErrorCode::kIo, "cannot write into the debug directory {}: {}", root.string(),
              failure ? failure.message() : std::strerror(errno));
}

void DebugDump::write(const std::string& name, const std::string& text) {
  if (!enabled()) return;
  std::ofstream file(directory_ / name, std::ios::binary);
  file << text;
  file.close();
  if (file) return;
  // A full disk is no reason to fail what is watched.
  log_warning("cannot write {}: nothing more is written about this method", (directory_ / name).string());
  directory_.clear();
}

void DebugDump::traced(const graph::Graph& graph) {
  if (enabled()) write(fmt::format("{:03}_traced.txt", graphs_++), graph::to_text(graph));
}

void DebugDump::after_pass(const std::string& pass, const graph::Graph& graph) {
  if (enabled()) write(fmt::format("{:03}_after_{}.txt", graphs_++, pass), graph::to_text(graph));
}

void DebugDump::passes(const std::vector<compile::PassReport>& reports) {
  if (enabled()) write("passes.log", pass_table(reports));
}

void DebugDump::program(const std::string& name, const std::string& text, const std::string& json) {
  if (!enabled()) return;
  write(fmt::format("program_{}.txt", name), text);
  write(fmt::format("program_{}.json", name), json);
}

void DebugDump::text(const std::string& name, const std::string& text) {
  if (enabled()) write(name, text);
}

std::string pass_table(const std::vector<compile::PassReport>& reports) {
  std::string text =
      fmt::format("{:<30} {:>6} {:>6} {:>8} {:>8} {:>9}\n", "pass", "before", "after", "matches", "refusals", "ms");
  for (const compile::PassReport& report : reports) {
    text += fmt::format("{:<30} {:>6} {:>6} {:>8} {:>8} {:>9.3f}\n", report.pass, report.nodes_before,
                        report.nodes_after, report.matches, report.refusals.size(), report.milliseconds);
  }
  for (const compile::PassReport& report : reports) {
    for (const std::string& refusal : report.refusals) text += fmt::format("{} left alone: {}\n", report.pass, refusal);
  }
  return text;
}

}  // namespace reprise::replay
