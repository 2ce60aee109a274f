#include "emulator/runtime/graph_json.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "emulator/runtime/kernel_task.h"
#include "emulator/runtime/task_group.h"

namespace reprise::emulator {
namespace {

nlohmann::ordered_json arguments_of(const GraphNode& node, bool verbose) {
  nlohmann::ordered_json arguments = {{"sequence", node.sequence}};
  if (node.disabled) arguments["disabled"] = true;
  if (node.group.lock()) arguments["in_group"] = true;
  if (!verbose) return arguments;
  arguments["task"] = node.task->describe();
  if (node.task->kind() == TaskKind::kKernel) {
    const auto& kernel = static_cast<const KernelTask&>(*node.task);
    arguments["blocks"] = kernel.blocks();
    arguments["argument_bytes"] = kernel.arguments().size();
  }
  return arguments;
}

}  // namespace

std::string describe(const CapturedGraph& graph) {
  std::string text = fmt::format("graph {} '{}': {} streams, {} tasks, {} groups\n", graph.id, graph.name,
                                 graph.streams.size(), graph.node_count(), graph.groups.size());
  for (const std::unique_ptr<InnerStream>& stream : graph.streams) {
    text += fmt::format("  stream {} (recorded from {})\n", stream->id, stream->user_stream);
    for (const std::shared_ptr<GraphNode>& node : stream->nodes) {
      text +=
          fmt::format("    {}: {}{}\n", node->sequence, node->task->describe(), node->disabled ? " (disabled)" : "");
    }
  }
  return text;
}

Status write_json(const CapturedGraph& graph, const char* path, bool verbose) {
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  for (const std::unique_ptr<InnerStream>& stream : graph.streams) {
    events.push_back({{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", graph.id},
                      {"tid", stream->id},
                      {"args", {{"name", fmt::format("stream {}", stream->user_stream)}}}});
    for (const std::shared_ptr<GraphNode>& node : stream->nodes) {
      const bool kernel = node->task->kind() == TaskKind::kKernel;
      events.push_back(
          {{"name", kernel ? static_cast<const KernelTask&>(*node->task).kernel().name : name_of(node->task->kind())},
           {"cat", name_of(node->task->kind())},
           {"ph", "X"},
           {"pid", graph.id},
           {"tid", stream->id},
           // Recorded tasks have no time yet; their place in the order stands for it.
           {"ts", node->sequence},
           {"dur", 1},
           {"args", arguments_of(*node, verbose)}});
    }
  }
  std::ofstream file(path);
  // A kernel's name is the program's own bytes: what is no UTF-8 is replaced.
  file << events.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
  if (file.flush()) return {};
  return Status(ACL_ERROR_RT_PARAM_INVALID, fmt::format("cannot write graph {} to '{}'", graph.id, path));
}

}  // namespace reprise::emulator
