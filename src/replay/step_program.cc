#include "replay/step_program.h"

#include <algorithm>

#include "base/error.h"
#include "compile/tracer.h"
#include "device/observer.h"
#include "graph/hash.h"

namespace reprise::replay {

StepProgram::StepProgram(const ops::Registry& registry, device::Device& device, const CountedMethod& method,
                         const ParameterNames& names, Options options)
    : registry_(registry),
      device_(device),
      method_(method),
      names_(names),
      options_(std::move(options)),
      inputs_(device, options_.limits, options_.poison) {
  options_.passes.device = std::string(device.name());
  const device::HostSpan span(device_, "compile " + options_.name);
  dump_ = DebugDump(options_.debug_directory, options_.name);
  executable_ =
      std::make_unique<compile::Executable>(compile_method(dump_, pass_reports_), device.name(),
                                            std::vector<int64_t>{options_.limits.tokens, options_.limits.sequences});
}

void StepProgram::reserve() {
  if (arena_ != nullptr) return;
  auto arena = device_.reserve_arena(std::max<size_t>(executable_->arena_bytes(), compile::kAlignment));
  arena->commit(executable_->arena_bytes());
  arena_ = std::move(arena);
}

graph::Graph StepProgram::compile_method(DebugDump& dump, std::vector<compile::PassReport>& reports) const {
  graph::Graph graph = trace_method();
  dump.traced(graph);
  if (!options_.optimise) {
    compile::PassManager::lowering(registry_).run(graph);
    return graph;
  }
  compile::PassManager manager = compile::PassManager::standard(registry_, options_.passes);
  if (dump.enabled()) {
    manager.set_observer(
        [&dump](const compile::Pass& pass, const graph::Graph& now) { dump.after_pass(pass.name, now); });
  }
  const device::HostSpan span(device_, "passes");
  reports = manager.run(graph);
  dump.passes(reports);
  return graph;
}

graph::Graph StepProgram::trace_method() const {
  const device::HostSpan span(device_, "trace");
  const StepLimits& limits = options_.limits;
  compile::Tracer tracer(registry_, options_.name);
  const Dim tokens = Dim::symbolic(tracer.symbol("tokens", 1, limits.tokens));
  const Dim sequences = Dim::symbolic(tracer.symbol("sequences", 1, limits.sequences));
  for (const auto& [label, tensor] : names_) tracer.name_parameter(label, tensor);
  const auto input = [&](const char* name, const Shape& shape) {
    return tracer.input(name, TensorMeta(DType::kI32, shape));
  };
  ops::ForwardContext context(tracer);
  context.token_ids = input("token_ids", {tokens});
  context.positions = input("positions", {tokens});
  context.slots = input("slots", {tokens});
  context.block_tables = input("block_tables", {sequences, limits.pages});
  context.token_count = input("token_count", {1});
  if (!options_.all_logits) context.logit_rows = input("logit_rows", {sequences});
  if (limits.sequence_state) context.sequence_slots = input("sequence_slots", {sequences});
  context.query_lengths = tracer.host_list("query_lengths", sequences);
  context.kv_lengths = tracer.host_list("kv_lengths", sequences);
  const Tensor logits = method_(context);
  return tracer.finish({&logits, 1});
}

std::unique_ptr<compile::BoundGraph> StepProgram::bind(int32_t tokens, int32_t sequences) {
  const device::HostSpan span(device_, "bind");
  const std::vector<int64_t> symbols = {tokens, sequences};
  auto bound = executable_->bind(symbols, arena_, inputs_.tensors(tokens, sequences, options_.all_logits));
  if (options_.labels != nullptr) bound->set_labels(*options_.labels);
  return bound;
}

void StepProgram::poison_arena(device::Stream& stream) {
  if (executable_->arena_bytes() > 0) stream.fill_async(arena_->data(), 0xFF, executable_->arena_bytes());
}

void StepProgram::check_retrace() const {
  DebugDump no_dump;
  std::vector<compile::PassReport> reports;
  const graph::Graph again = compile_method(no_dump, reports);
  if (graph::structural_hash(again) != graph::structural_hash(executable_->graph())) {
    throw Error(ErrorCode::kInternal,
                "tracing '{}' again gives another graph: the method depends on something unguarded", options_.name);
  }
}

}  // namespace reprise::replay
