#include "reprise/compiled_method.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "api/compiled_method_state.h"
#include "base/error.h"
#include "base/log.h"
#include "graph/hash.h"
#include "graph/infer.h"
#include "graph/text_writer.h"
#include "replay/debug_dump.h"

namespace reprise {
namespace {

/// Answers a method that runs as it is called.
class EagerHost final : public compile::MethodHost {
 public:
  EagerHost(device::Device& device, device::Stream& stream) : device_(device), stream_(stream) {}

  bool branch(const Dim& left, compile::Relation relation, const Dim& right, std::source_location /*where*/) override {
    return compile::holds(relation, left.value(), right.value());
  }

  double item(const Tensor& tensor, std::source_location /*where*/) override {
    if (tensor.shape().elements() != 1 || (tensor.dtype() != DType::kF32 && tensor.dtype() != DType::kI32)) {
      throw Error(ErrorCode::kInvalidArgument, "item() of {}, expected one float32 or int32",
                  tensor.meta().to_string());
    }
    stream_.synchronize();
    union {
      float number;
      int32_t integer;
    } value{};
    device_.copy(&value, tensor.data(), sizeof(value), device::CopyKind::kDeviceToHost);
    return tensor.dtype() == DType::kF32 ? static_cast<double>(value.number) : static_cast<double>(value.integer);
  }

 private:
  device::Device& device_;
  device::Stream& stream_;
};

/// Set while a method is traced.
class TracingMark {
 public:
  explicit TracingMark(bool& flag) : flag_(flag), before_(std::exchange(flag, true)) {}
  TracingMark(const TracingMark&) = delete;
  TracingMark& operator=(const TracingMark&) = delete;
  ~TracingMark() { flag_ = before_; }

 private:
  bool& flag_;
  bool before_;
};

/// The first constant of a method that is no longer where it was, with the operator that takes it; "" if there is none.
std::string moved_parameter(const graph::Graph& graph, std::span<const void* const> addresses) {
  for (size_t i = 0; i < graph.parameters().size(); ++i) {
    const graph::Value& value = graph.value(graph.parameters()[i]);
    if (i < addresses.size() && value.tensor.data() == addresses[i]) continue;
    const std::vector<graph::NodeId> users = graph.users(graph.parameters()[i]);
    return fmt::format("'{}' is another tensor now{}", value.label,
                       users.empty() ? "" : fmt::format(", in {}", graph::describe(graph.node(users[0]))));
  }
  return "";
}

/// The first line in which two texts differ.
std::string first_difference(const std::string& before, const std::string& now) {
  size_t begin = 0;
  while (begin < before.size() && begin < now.size()) {
    const size_t end = std::min(before.find('\n', begin), before.size());
    const size_t now_end = std::min(now.find('\n', begin), now.size());
    const std::string_view line = std::string_view(before).substr(begin, end - begin);
    const std::string_view now_line = std::string_view(now).substr(begin, now_end - begin);
    if (line != now_line) return fmt::format("'{}' is now '{}'", line, now_line);
    begin = end + 1;
  }
  return "one is longer";
}

/// What the passes did: a table of those that did something or left something alone, and the names of the others.
std::string effects(const std::vector<compile::PassReport>& reports) {
  std::vector<compile::PassReport> telling;
  std::string others;
  for (const compile::PassReport& report : reports) {
    if (report.matches > 0 || !report.refusals.empty() || report.nodes_before != report.nodes_after) {
      telling.push_back(report);
    } else {
      others += (others.empty() ? "nothing to do: " : ", ") + report.pass;
    }
  }
  if (!others.empty()) others += '\n';
  return (telling.empty() ? "" : replay::pass_table(telling)) + others;
}

}  // namespace

CompiledMethod::Implementation::Implementation(std::shared_ptr<Library::Implementation> library,
                                               compile::MethodSpec spec, MethodOptions options)
    : library_(std::move(library)),
      spec_(std::move(spec)),
      options_(std::move(options)),
      state_{library_->registry, *library_->device, *library_->stream, spec_, options_, counters_} {
  dynamic_.dynamic.assign(spec_.kinds.size(), options_.dynamic == Dynamic::kAlways);
  dynamic_.own_symbol.assign(spec_.kinds.size(), false);
  fixed_.assign(spec_.kinds.size(), false);
}

CompiledMethod::Implementation::Implementation(std::shared_ptr<Library::Implementation> library,
                                               compile::MethodSpec spec, MethodOptions options,
                                               compile::TracedMethod traced)
    : Implementation(std::move(library), std::move(spec), std::move(options)) {
  add_trace(std::move(traced), dynamic_);
}

const api::MethodVariant& CompiledMethod::Implementation::variant(int64_t index) const {
  if (index >= 0 && index < variants()) return *variants_[static_cast<size_t>(index)].variant;
  throw Error(ErrorCode::kInvalidArgument, "{} has {} traces, there is no number {}", spec_.name, variants(), index);
}

void CompiledMethod::Implementation::check(std::span<const compile::Argument> arguments) const {
  if (arguments.size() != spec_.kinds.size()) {
    throw Error(ErrorCode::kInvalidArgument, "{} takes {} arguments, {} are given", spec_.name, spec_.kinds.size(),
                arguments.size());
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!compile::fits(spec_.kinds[i], arguments[i])) {
      throw Error(ErrorCode::kInvalidArgument, "{}: argument '{}' is no {}", spec_.name, spec_.names[i],
                  name_of(spec_.kinds[i]));
    }
    const Tensor* tensor = compile::tensor_of(arguments[i]);
    if (tensor == nullptr || !tensor->defined() || tensor->data() != nullptr || tensor->shape().elements() == 0)
      continue;
    throw Error(ErrorCode::kInvalidArgument, "{}: argument '{}' has no memory", spec_.name, spec_.names[i])
        .remedy("make tensors with Library::empty() or from_floats()");
  }
}

std::vector<Tensor> CompiledMethod::Implementation::call(std::span<const compile::Argument> arguments) {
  const bool eager = options_.mode == Mode::kEager && options_.backend.empty();
  if (library_->tracing && !eager) {
    // Its results would become constants of the other's graph, and be overwritten by its next call.
    throw Error(ErrorCode::kGraphBreak, "{} is called inside of a method that is traced, and is compiled itself",
                spec_.name)
        .remedy("call its code as a function, or compile the outer method with mode eager");
  }
  check(arguments);
  ops::EagerDispatcher* outer = library_->running;
  if (outer == nullptr) return run(arguments);
  // Inside of another method, maybe on a side stream of it.
  outer->begin_outside();
  try {
    std::vector<Tensor> results = run(arguments);
    outer->end_outside();
    return results;
  } catch (...) {
    outer->end_outside();
    throw;
  }
}

std::vector<Tensor> CompiledMethod::Implementation::run(std::span<const compile::Argument> arguments) {
  ++counters_.calls;
  if (options_.mode == Mode::kEager && options_.backend.empty()) return run_eager(arguments);
  Trace* trace = find(arguments);
  if (trace == nullptr) trace = this->trace(arguments);
  if (trace == nullptr) return run_eager(arguments);
  std::vector<Tensor> results = trace->variant->run(arguments);
  if (options_.retrace_every > 0 && counters_.calls % options_.retrace_every == 0) check_retrace(*trace, arguments);
  return results;
}

CompiledMethod::Implementation::Trace* CompiledMethod::Implementation::find(
    std::span<const compile::Argument> arguments) {
  const bool telling = library_->stance() == Stance::kSkipGuardEvalUnsafe;
  // The latest first: it is the most general one.
  for (auto trace = variants_.rbegin(); trace != variants_.rend(); ++trace) {
    if (compile::first_failure(telling ? trace->telling : trace->variant->guards(), arguments) == nullptr)
      return &*trace;
  }
  return nullptr;
}

CompiledMethod::Implementation::Trace* CompiledMethod::Implementation::trace(
    std::span<const compile::Argument> arguments) {
  if (spec_.method == nullptr) {
    const compile::Guard* guard = compile::first_failure(variants_.back().variant->guards(), arguments);
    throw Error(ErrorCode::kInvalidArgument, "graph '{}': {}, but {}", spec_.name, guard->found(arguments, spec_.names),
                guard->expression(spec_.names))
        .remedy("a compiled graph takes what it was built for; compile the method to have it traced again");
  }
  compile::DynamicArguments dynamic = dynamic_;
  if (!variants_.empty()) {
    const std::vector<compile::Guard>& guards = nearest_guards(arguments);
    const compile::Guard* guard = compile::first_failure(guards, arguments);
    if (guard == nullptr) throw Error(ErrorCode::kInternal, "{}: no trace fits, but no guard failed", spec_.name);
    if (variants() >= options_.recompile_limit) {
      ++counters_.fallbacks[static_cast<size_t>(FallbackReason::kRecompileLimit)];
      if (!limit_reported_) {
        log_warning(
            "{}: recompile limit of {} is reached, calls that no trace fits run eagerly; {}. Pass fewer different "
            "values, let sizes be dynamic, or raise recompile_limit (logged once)",
            spec_.name, options_.recompile_limit, guard->failure(arguments, spec_.names));
      }
      limit_reported_ = true;
      return nullptr;
    }
    ++counters_.recompiles[std::string(guard->reason())];
    log_info("recompiling {}: {}", spec_.name, guard->failure(arguments, spec_.names));
    widen(dynamic, guards, arguments);
  }
  compile::GeneralTrace general = run_trace(arguments, dynamic);
  ++counters_.traces;
  add_trace(std::move(general.traced), std::move(general.dynamic));
  // A call that fails teaches nothing.
  dynamic_ = std::move(dynamic);
  return &variants_.back();
}

compile::GeneralTrace CompiledMethod::Implementation::run_trace(std::span<const compile::Argument> arguments,
                                                                compile::DynamicArguments& dynamic) {
  const TracingMark mark(library_->tracing);
  const auto run = [&] {
    return compile::trace_general(library_->registry, spec_, arguments, dynamic, options_.compile.frozen_parameter,
                                  counters_.method_runs);
  };
  try {
    return run();
  } catch (const Error& error) {
    // A method may use as a number what has just become symbolic; with the number as it was it has a graph.
    if (error.code() != ErrorCode::kGraphBreak || dynamic.dynamic == dynamic_.dynamic) throw;
    const std::vector<bool> widened = std::exchange(dynamic.dynamic, dynamic_.dynamic);
    compile::GeneralTrace general = run();
    for (size_t i = 0; i < widened.size(); ++i) fixed_[i] = fixed_[i] || widened[i] != dynamic.dynamic[i];
    log_info("{} is traced for these sizes alone: {}", spec_.name, error.message());
    return general;
  }
}

const std::vector<compile::Guard>& CompiledMethod::Implementation::nearest_guards(
    std::span<const compile::Argument> arguments) const {
  const std::vector<compile::Guard>* nearest = nullptr;
  std::ptrdiff_t fewest = std::numeric_limits<std::ptrdiff_t>::max();
  for (auto trace = variants_.rbegin(); trace != variants_.rend(); ++trace) {
    const std::vector<compile::Guard>& guards = trace->variant->guards();
    const auto failures = std::count_if(guards.begin(), guards.end(),
                                        [&](const compile::Guard& guard) { return !guard.holds(arguments); });
    if (failures >= fewest) continue;
    nearest = &guards;
    fewest = failures;
  }
  return *nearest;
}

void CompiledMethod::Implementation::widen(compile::DynamicArguments& dynamic, std::span<const compile::Guard> guards,
                                           std::span<const compile::Argument> arguments) const {
  if (options_.dynamic == Dynamic::kNever) return;
  using Kind = compile::Quantity::Kind;
  // The sizes of another kind of tensor, or of none, do not say that a size changes.
  std::vector<bool> another(arguments.size(), false);
  for (const compile::Guard& guard : guards) {
    const compile::Quantity& quantity = guard.left.quantity;
    if (!guard.left.has_quantity || (quantity.kind != Kind::kGiven && quantity.kind != Kind::kRank)) continue;
    if (!guard.holds(arguments)) another[static_cast<size_t>(quantity.argument)] = true;
  }
  for (const compile::Guard& guard : guards) {
    const compile::Quantity& quantity = guard.left.quantity;
    if (guard.from_branch || guard.by_value || !guard.left.has_quantity || guard.holds(arguments)) continue;
    const size_t argument = static_cast<size_t>(quantity.argument);
    if (fixed_[argument] || another[argument]) continue;
    if (guard.right.has_quantity) {
      dynamic.own_symbol[argument] = true;
      continue;
    }
    const bool size = (quantity.kind == Kind::kSize && quantity.axis == 0) || quantity.kind == Kind::kLength;
    const bool dimension = quantity.kind == Kind::kValue && spec_.kinds[argument] == compile::ArgumentKind::kDimension;
    if (size || dimension) dynamic.dynamic[argument] = true;
  }
}

void CompiledMethod::Implementation::add_trace(compile::TracedMethod traced, compile::DynamicArguments dynamic) {
  Trace trace;
  if (options_.retrace_every > 0) {
    trace.text = graph::to_text(traced.graph);
    for (const graph::ValueId id : traced.graph.parameters()) {
      trace.parameters.push_back(traced.graph.value(id).tensor.data());
    }
  }
  trace.dynamic = std::move(dynamic);
  trace.dynamic.symbols = traced.argument_symbols;
  trace.variant = std::make_unique<api::MethodVariant>(state_, std::move(traced), backend());
  variants_.push_back(std::move(trace));
  // Guards that every trace has do not tell them apart.
  for (Trace& one : variants_) {
    one.telling.clear();
    for (const compile::Guard& guard : one.variant->guards()) {
      const bool shared = std::all_of(variants_.begin(), variants_.end(), [&](const Trace& other) {
        const auto& guards = other.variant->guards();
        return std::find(guards.begin(), guards.end(), guard) != guards.end();
      });
      if (!shared) one.telling.push_back(guard);
    }
  }
}

void CompiledMethod::Implementation::check_retrace(const Trace& trace, std::span<const compile::Argument> arguments) {
  if (spec_.method == nullptr) return;
  ++counters_.method_runs;
  const TracingMark mark(library_->tracing);
  const compile::TracedMethod again =
      compile::trace_method(library_->registry, spec_, arguments, trace.dynamic, options_.compile.frozen_parameter);
  std::string difference;
  if (graph::structural_hash(again.graph) != trace.variant->traced_hash()) {
    difference = first_difference(trace.text, graph::to_text(again.graph));
  } else if (again.guards != trace.variant->guards()) {
    difference = first_difference(trace.variant->guards_text(), compile::to_text(again.guards, spec_.names));
  } else {
    // The hash is that of what is computed, whatever memory the weights lie in.
    difference = moved_parameter(again.graph, trace.parameters);
  }
  if (difference.empty()) return;
  throw Error(ErrorCode::kFailedPrecondition,
              "tracing {} again gives another graph: it depends on something that is no argument; {}", spec_.name,
              difference)
      .remedy("pass what changes as an argument");
}

std::vector<Tensor> CompiledMethod::Implementation::run_eager(std::span<const compile::Argument> arguments) {
  ++counters_.eager_runs;
  ++counters_.method_runs;
  if (eager_ == nullptr) {
    eager_ = std::make_unique<ops::EagerDispatcher>(library_->registry, *library_->device, *library_->stream);
  }
  EagerHost host(*library_->device, *library_->stream);
  compile::MethodContext context(*eager_, host);
  const std::vector<compile::MethodValue> values = compile::eager_values(arguments);
  std::vector<Tensor> results;
  ops::EagerDispatcher* const outer = std::exchange(library_->running, eager_.get());
  try {
    results = spec_.method(context, values);
    library_->running = outer;
  } catch (...) {
    library_->running = outer;
    // Side streams are joined, whatever they have queued by now.
    try {
      eager_->finish_method();
    } catch (const Error& error) {
      log_debug("ending a method that failed: {}", error.what());
    }
    throw;
  }
  eager_->finish_method();
  return results;
}

const Backend* CompiledMethod::Implementation::backend() const {
  return options_.backend.empty() ? nullptr : &library_->backends.find(options_.backend)->second;
}

std::string CompiledMethod::Implementation::explain() const {
  std::string text = fmt::format("method {}: mode {}, {} traces\n", spec_.name, name_of(options_.mode), variants());
  const bool several = variants_.size() > 1;
  if (several) {
    std::vector<compile::Guard> shared = variants_[0].variant->guards();
    const std::vector<compile::Guard>& telling = variants_[0].telling;
    std::erase_if(shared, [&](const compile::Guard& guard) {
      return std::find(telling.begin(), telling.end(), guard) != telling.end();
    });
    text += "\nguards of every trace:\n" + compile::to_text(shared, spec_.names);
  }
  for (int64_t i = 0; i < variants(); ++i) {
    const api::MethodVariant& one = variant(i);
    text +=
        fmt::format("\ntrace {}: {} nodes, {} captured graphs\n", i, one.graph().order().size(), one.captured_graphs());
    text += effects(one.pass_reports());
    text += "guards:\n" +
            (several ? compile::to_text(variants_[static_cast<size_t>(i)].telling, spec_.names) : one.guards_text());
    text += one.keys_text();
  }
  return text + "\n" + counters_.to_text();
}

std::vector<Tensor> CompiledMethod::operator()(std::span<const compile::Argument> arguments) {
  return implementation_->call(arguments);
}
const MethodCounters& CompiledMethod::counters() const { return implementation_->counters(); }
int64_t CompiledMethod::variants() const { return implementation_->variants(); }
const graph::Graph& CompiledMethod::graph(int64_t variant) const { return implementation_->variant(variant).graph(); }
std::string CompiledMethod::guards_text(int64_t variant) const {
  return implementation_->variant(variant).guards_text();
}
int64_t CompiledMethod::captured_graphs(int64_t variant) const {
  return implementation_->variant(variant).captured_graphs();
}
std::string CompiledMethod::explain() const { return implementation_->explain(); }

}  // namespace reprise
