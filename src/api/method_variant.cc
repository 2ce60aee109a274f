#include "api/method_variant.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "compile/pass_manager.h"
#include "graph/alias.h"
#include "graph/hash.h"

namespace reprise::api {
namespace {

/// Memory of a result: it keeps the arena, and its use count tells whether the caller still holds the result.
class ResultStorage final : public Storage {
 public:
  ResultStorage(const Tensor& tensor, size_t bytes) : Storage(tensor.data(), bytes), owner_(tensor.storage()) {}

 private:
  std::shared_ptr<Storage> owner_;
};

/// Bytes from the first element of a tensor to the end of its last one.
size_t extent(const Tensor& tensor) {
  const auto range = graph::memory_range(tensor);
  if (!range) return 0;
  if (!tensor.format().is_plain() && tensor.storage() != nullptr)
    return tensor.storage()->bytes() - tensor.offset_bytes();
  return static_cast<size_t>(range->end - range->begin);
}

bool lies_in(const Tensor& tensor, const Storage& storage) {
  const auto* begin = static_cast<const std::byte*>(storage.data());
  const auto* data = static_cast<const std::byte*>(tensor.data());
  return data != nullptr && data >= begin && data < begin + storage.bytes();
}

}  // namespace

MethodVariant::MethodVariant(const MethodState& state, compile::TracedMethod traced, const Backend* backend)
    : state_(state), traced_(std::move(traced)), dump_(state.options.debug_directory, state.spec.name) {
  const MethodOptions& options = state_.options;
  traced_hash_ = graph::structural_hash(traced_.graph);
  dump_.traced(traced_.graph);
  symbols_.resize(traced_.symbols.size());
  if (dump_.enabled()) dump_.text("guards.txt", guards_text());
  if (backend != nullptr) {
    backend_ = (*backend)(traced_.graph.clone(), {state_.registry, state_.device, options.compile});
    if (backend_ != nullptr) return;
    throw Error(ErrorCode::kFailedPrecondition, "{}: backend '{}' made no program", state_.spec.name, options.backend);
  }
  if (options.mode != Mode::kAotEager) {
    compile::PassManager manager = compile::PassManager::standard(state_.registry, options.compile.passes);
    if (dump_.enabled()) {
      manager.set_observer(
          [this](const compile::Pass& pass, const graph::Graph& now) { dump_.after_pass(pass.name, now); });
    }
    pass_reports_ = manager.run(traced_.graph);
    dump_.passes(pass_reports_);
  } else {
    compile::PassManager::lowering(state_.registry).run(traced_.graph);
  }
  classify();
  if (options.pool != nullptr) {
    pool_ = options.pool;
  } else if (options.compile.reuse_graph_pool_in_same_fx) {
    pool_ = std::make_shared<replay::GraphPool>(state_.device);
  }
  if (captures()) {
    replay::CaptureOptions capture;
    capture.mode = options.compile.capture_error_mode;
    if (options.mode == Mode::kPiecewise) capture.splitting_ops = options.splitting_ops;
    cache_ = std::make_unique<replay::CaptureCache>(
        state_.device, options.update_order.value_or(state_.device.capabilities().preferred_update_order),
        std::move(capture));
  }
}

MethodVariant::~MethodVariant() = default;

int64_t MethodVariant::captured_graphs() const {
  int64_t count = 0;
  for (const auto& [_, entry] : entries_) count += 1 + static_cast<int64_t>(entry.captured->variants.size());
  return count;
}

void MethodVariant::classify() {
  const graph::Graph& graph = traced_.graph;
  std::set<graph::ValueId> written;
  for (const graph::NodeId id : graph.order()) {
    for (const graph::ValueId root : graph::written_roots(graph, graph.node(id))) written.insert(root);
  }
  for (const graph::ValueId id : graph.parameters()) {
    const auto range = graph::memory_range(graph.value(id).tensor);
    if (range && written.contains(graph::alias_root(graph, id))) written_parameters_.emplace_back(*range, id);
  }
  for (size_t i = 0; i < traced_.lists.size(); ++i) list_in_key_.push_back(!is_updatable(graph.lists()[i]));
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    Input input;
    input.argument = traced_.inputs[i];
    const bool parameter = state_.spec.kinds[static_cast<size_t>(input.argument)] == compile::ArgumentKind::kParameter;
    if (written.contains(graph.inputs()[i])) {
      input.kind = InputKind::kMutated;
    } else if (parameter) {
      input.kind = InputKind::kParameter;
    } else if (!state_.options.compile.clone_input) {
      input.kind = InputKind::kBound;
    }
    inputs_.push_back(std::move(input));
  }
  for (const graph::ValueId id : graph.outputs()) {
    Output output;
    const auto root = std::find(graph.inputs().begin(), graph.inputs().end(), graph::alias_root(graph, id));
    if (root != graph.inputs().end()) output.input = static_cast<int32_t>(root - graph.inputs().begin());
    outputs_.push_back(output);
  }
}

bool MethodVariant::is_updatable(graph::ValueId list) const {
  for (const graph::NodeId id : traced_.graph.order()) {
    const graph::Node& node = traced_.graph.node(id);
    for (size_t i = 0; i < node.lists.size(); ++i) {
      if (node.lists[i] != list) continue;
      if (!node.op->traits().host_tiled || !node.op->schema().lists[i].updatable) return false;
    }
  }
  return true;
}

const Tensor& MethodVariant::argument_tensor(std::span<const compile::Argument> arguments, size_t input) const {
  return *compile::tensor_of(arguments[static_cast<size_t>(inputs_[input].argument)]);
}

void MethodVariant::make_key(std::span<const compile::Argument> arguments) {
  key_.assign(symbols_.begin(), symbols_.end());
  for (size_t i = 0; i < traced_.lists.size(); ++i) {
    if (!list_in_key_[i]) continue;
    const auto list = std::get<std::span<const int32_t>>(arguments[static_cast<size_t>(traced_.lists[i])]);
    key_.insert(key_.end(), list.begin(), list.end());
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].kind != InputKind::kParameter) continue;
    key_.push_back(static_cast<int64_t>(reinterpret_cast<uintptr_t>(argument_tensor(arguments, i).data())));
  }
}

std::vector<ops::HostList> MethodVariant::lists_of(std::span<const compile::Argument> arguments) const {
  std::vector<ops::HostList> lists;
  for (const int32_t argument : traced_.lists) {
    lists.emplace_back(std::get<std::span<const int32_t>>(arguments[static_cast<size_t>(argument)]));
  }
  return lists;
}

void MethodVariant::check_frozen(std::span<const compile::Argument> arguments) const {
  const std::vector<std::string>& names = state_.spec.names;
  for (const auto& [argument, address] : traced_.frozen) {
    if (compile::tensor_of(arguments[static_cast<size_t>(argument)])->data() == address) continue;
    throw Error(ErrorCode::kInvalidArgument, "{}: parameter '{}' has moved, which frozen_parameter excludes",
                state_.spec.name, names[static_cast<size_t>(argument)])
        .remedy("keep weights where they are, or turn frozen_parameter off");
  }
}

void MethodVariant::check_memory(std::span<const compile::Argument> arguments) const {
  const auto name = [&](size_t input) { return state_.spec.names[static_cast<size_t>(inputs_[input].argument)]; };
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Tensor& tensor = argument_tensor(arguments, i);
    const std::optional<graph::MemoryRange> range = graph::memory_range(tensor);
    for (const auto& [written, id] : written_parameters_) {
      if (!range || range->begin >= written.end || written.begin >= range->end) continue;
      throw Error(ErrorCode::kInvalidArgument, "{}: argument '{}' shares memory with '{}', which the method writes",
                  state_.spec.name, name(i), traced_.graph.value(id).label)
          .remedy("pass a copy");
    }
    const bool own_memory = inputs_[i].kind == InputKind::kMutated || inputs_[i].kind == InputKind::kParameter;
    if (own_memory && is_overwritten(tensor)) {
      throw Error(ErrorCode::kInvalidArgument, "{}: argument '{}' is a result that this call would overwrite",
                  state_.spec.name, name(i))
          .remedy("set clone_output, or copy the result");
    }
    if (inputs_[i].kind != InputKind::kMutated) continue;
    for (size_t j = 0; j < inputs_.size(); ++j) {
      if (i == j || !graph::share_memory(tensor, argument_tensor(arguments, j))) continue;
      throw Error(ErrorCode::kInvalidArgument, "{}: arguments '{}' and '{}' share memory, and the method writes '{}'",
                  state_.spec.name, name(i), name(j), name(i))
          .remedy("pass the tensor once, and make the other a view of it inside the method");
    }
    for (const graph::ValueId id : traced_.graph.parameters()) {
      const graph::Value& parameter = traced_.graph.value(id);
      if (!graph::share_memory(tensor, parameter.tensor)) continue;
      throw Error(ErrorCode::kInvalidArgument, "{}: argument '{}', which the method writes, shares memory with '{}'",
                  state_.spec.name, name(i), parameter.label)
          .remedy("pass the tensor as an argument only");
    }
  }
}

bool MethodVariant::is_overwritten(const Tensor& tensor) const {
  if (pool_ != nullptr && pool_->arena() != nullptr && lies_in(tensor, *pool_->arena())) return true;
  return std::any_of(arenas_.begin(), arenas_.end(), [&](const auto* arena) { return lies_in(tensor, *arena); });
}

void MethodVariant::note_arenas() {
  arenas_.clear();
  for (const auto& [_, entry] : entries_) arenas_.insert(entry.arena.get());
  if (node_entry_ != nullptr) arenas_.insert(node_entry_->arena.get());
}

Tensor MethodVariant::bind_input(size_t index, const Tensor& given) {
  Input& input = inputs_[index];
  // Where the graph has its own memory nothing can stay bound.
  if (input.kind == InputKind::kBound && is_overwritten(given)) input.kind = InputKind::kCopied;
  if (input.kind != InputKind::kCopied) return given;
  const size_t bytes = std::max<size_t>(extent(given), 1);
  if (input.buffer == nullptr || input.buffer->bytes() < bytes) input.buffer = state_.device.allocate(bytes);
  return Tensor(given.meta(), input.buffer);
}

MethodVariant::Entry MethodVariant::make_entry(std::span<const compile::Argument> arguments) {
  Entry entry;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Tensor& given = argument_tensor(arguments, i);
    entry.inputs.push_back(bind_input(i, given));
    entry.origins.push_back(inputs_[i].kind == InputKind::kCopied ? nullptr : given.data());
  }
  entry.limit = state_.stream.core_limit();
  const compile::Executable executable(traced_.graph.clone(), state_.device.name(), symbols_);
  const size_t bytes = executable.arena_bytes();
  entry.arena = pool_ != nullptr ? pool_->acquire(bytes) : replay::GraphPool(state_.device).acquire(bytes);
  entry.nodes = executable.bind(symbols_, entry.arena, entry.inputs);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Tensor& tensor = entry.nodes->outputs()[i];
    outputs_[i].in_arena = outputs_[i].input < 0 && entry.arena == tensor.storage();
    entry.outputs.push_back(
        outputs_[i].in_arena ? Tensor(tensor.meta(), std::make_shared<ResultStorage>(tensor, extent(tensor))) : tensor);
  }
  return entry;
}

std::optional<RecaptureReason> MethodVariant::recapture_reason(const Entry& entry,
                                                               std::span<const compile::Argument> arguments) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const void* address = argument_tensor(arguments, i).data();
    Input& input = inputs_[i];
    if (input.kind == InputKind::kMutated && entry.origins[i] != address) return RecaptureReason::kMutatedInputMoved;
    // A caller whose tensors move gets a buffer for them: captured once more, and copied from then on.
    if (input.kind == InputKind::kBound && entry.origins[i] != address) input.kind = InputKind::kCopied;
    if (input.kind == InputKind::kCopied && entry.origins[i] != nullptr) return RecaptureReason::kInputMoved;
  }
  if (!(entry.limit == state_.stream.core_limit())) return RecaptureReason::kCoreLimitChanged;
  if (entry.captured != nullptr && entry.captured->is_broken()) return RecaptureReason::kUpdateFailed;
  if (state_.options.compile.force_recapture) return RecaptureReason::kForced;
  return std::nullopt;
}

MethodVariant::Entry* MethodVariant::captured_entry(std::span<const compile::Argument> arguments,
                                                    std::span<const ops::HostList> lists) {
  const auto known = entries_.find(key_);
  if (known != entries_.end()) {
    const auto reason = recapture_reason(known->second, arguments);
    if (!reason) return &known->second;
    log_info("capturing {} again: {} ({})", state_.spec.name, name_of(*reason), describe_key(key_));
    ++state_.counters.recaptures[static_cast<size_t>(*reason)];
  } else {
    if (failed_.contains(key_)) {
      ++state_.counters.fallbacks[static_cast<size_t>(FallbackReason::kCaptureFailed)];
      return nullptr;
    }
    if (captured_graphs() >= state_.options.compile.capture_limit) {
      ++state_.counters.fallbacks[static_cast<size_t>(FallbackReason::kCaptureLimit)];
      report_limit();
      return nullptr;
    }
  }
  Entry entry = make_entry(arguments);
  try {
    entry.captured = &cache_->capture(key_, std::move(entry.nodes), lists, entry.limit);
  } catch (const Error& error) {
    failed_.insert(key_);
    if (known != entries_.end()) forget(known);
    ++state_.counters.fallbacks[static_cast<size_t>(FallbackReason::kCaptureFailed)];
    log_warning("capture of {} ({}) failed, it runs node by node: {}", state_.spec.name, describe_key(key_),
                error.what());
    return nullptr;
  }
  if (dump_.enabled()) {
    dump_.program(fmt::format("key{}", dumped_programs_++), entry.captured->to_text(), entry.captured->to_json());
  }
  if (known != entries_.end()) {
    forget(known);
  } else {
    ++state_.counters.captures;
  }
  Entry& kept = entries_.emplace(key_, std::move(entry)).first->second;
  note_arenas();
  if (dump_.enabled()) dump_.text("keys.txt", keys_text());
  return &kept;
}

bool MethodVariant::replay(Entry& entry, std::span<const ops::HostList> lists) {
  replay::CaptureCache::Entry& captured = *entry.captured;
  std::optional<replay::GuardMiss> miss = cache_->replay(captured, state_.stream, lists);
  if (miss) {
    if (captured_graphs() >= state_.options.compile.capture_limit) {
      ++state_.counters.fallbacks[static_cast<size_t>(FallbackReason::kCaptureLimit)];
      report_limit();
      return false;
    }
    log_info("capturing {} again ({}): {}", state_.spec.name, describe_key(key_), miss->to_string());
    ++state_.counters.recaptures[static_cast<size_t>(RecaptureReason::kChoiceChanged)];
    try {
      cache_->capture_variant(captured, lists);
    } catch (const Error& error) {
      ++state_.counters.fallbacks[static_cast<size_t>(FallbackReason::kCaptureFailed)];
      log_warning("capture of {} ({}) failed, it runs node by node: {}", state_.spec.name, describe_key(key_),
                  error.what());
      return false;
    }
    miss = cache_->replay(captured, state_.stream, lists);
    if (miss) throw Error(ErrorCode::kInternal, "{} for the same lists", miss->to_string());
  }
  ++state_.counters.replays;
  return true;
}

void MethodVariant::forget(std::map<std::vector<int64_t>, Entry>::iterator entry) {
  if (last_entry_ == &entry->second) last_entry_ = nullptr;
  entries_.erase(entry);
  note_arenas();
}

MethodVariant::Entry& MethodVariant::node_entry(std::span<const compile::Argument> arguments) {
  if (node_entry_ == nullptr || node_key_ != key_ || recapture_reason(*node_entry_, arguments)) {
    if (last_entry_ == node_entry_.get()) last_entry_ = nullptr;
    node_entry_ = std::make_unique<Entry>(make_entry(arguments));
    node_key_ = key_;
    note_arenas();
  }
  return *node_entry_;
}

void MethodVariant::copy_inputs(Entry& entry, std::span<const compile::Argument> arguments) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (entry.origins[i] != nullptr || inputs_[i].kind != InputKind::kCopied) continue;
    const Tensor& given = argument_tensor(arguments, i);
    const size_t bytes = extent(given);
    if (bytes != extent(entry.inputs[i])) {  // only where guards are not evaluated
      throw Error(ErrorCode::kInvalidArgument, "{}: argument '{}' is {}, captured for {}", state_.spec.name,
                  state_.spec.names[static_cast<size_t>(inputs_[i].argument)], given.meta().to_string(),
                  entry.inputs[i].meta().to_string());
    }
    if (bytes == 0 || given.data() == entry.inputs[i].data()) continue;
    state_.stream.copy_async(entry.inputs[i].data(), given.data(), bytes, device::CopyKind::kDeviceToDevice);
    ++state_.counters.copied_inputs;
  }
}

void MethodVariant::warn_of_overwritten_outputs(std::span<const compile::Argument> arguments) {
  if (overwriting_reported_ || last_entry_ == nullptr || state_.options.compile.clone_output) return;
  const auto is_held = [&](size_t output) {
    if (!outputs_[output].in_arena) return false;
    const std::shared_ptr<Storage>& storage = last_entry_->outputs[output].storage();
    // An argument that is read before it is overwritten does no harm: the caller's handle, and the argument's.
    const auto given = std::count_if(arguments.begin(), arguments.end(), [&](const compile::Argument& argument) {
      const Tensor* tensor = compile::tensor_of(argument);
      return tensor != nullptr && tensor->storage() == storage;
    });
    return storage.use_count() > 1 + 2 * given;
  };
  bool held = false;
  for (size_t i = 0; i < outputs_.size(); ++i) held = held || is_held(i);
  if (!held) return;
  overwriting_reported_ = true;
  log_warning(
      "{}: a result of an earlier call is still held and may be overwritten by this one; drop it before the next call, "
      "or set clone_output (logged once)",
      state_.spec.name);
}

std::vector<Tensor> MethodVariant::results(Entry& entry, std::span<const compile::Argument> arguments) {
  std::vector<Tensor> results;
  results.reserve(outputs_.size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Tensor& output = entry.outputs[i];
    if (outputs_[i].input < 0) {
      results.push_back(state_.options.compile.clone_output ? clone(output) : output);
      continue;
    }
    // A view of an argument is one of the caller's tensor, not of the buffer that it was copied to.
    const size_t input = static_cast<size_t>(outputs_[i].input);
    const auto offset =
        static_cast<const std::byte*>(output.data()) - static_cast<const std::byte*>(entry.inputs[input].data());
    results.push_back(argument_tensor(arguments, input).with_meta(output.meta(), static_cast<size_t>(offset)));
  }
  return results;
}

Tensor MethodVariant::clone(const Tensor& tensor) {
  const size_t bytes = extent(tensor);
  Tensor copy(tensor.meta(), state_.device.allocate(std::max<size_t>(bytes, 1)));
  if (bytes > 0) state_.stream.copy_async(copy.data(), tensor.data(), bytes, device::CopyKind::kDeviceToDevice);
  return copy;
}

std::vector<Tensor> MethodVariant::run_backend(std::span<const compile::Argument> arguments) {
  std::vector<Tensor> inputs;
  for (const int32_t argument : traced_.inputs) {
    inputs.push_back(*compile::tensor_of(arguments[static_cast<size_t>(argument)]));
  }
  std::vector<Tensor> outputs = backend_->run({symbols_, inputs, lists_of(arguments), state_.stream});
  ++state_.counters.node_runs;
  if (outputs.size() == traced_.graph.outputs().size()) return outputs;
  throw Error(ErrorCode::kInvalidArgument, "{}: backend '{}' gave {} results, the graph has {}", state_.spec.name,
              state_.options.backend, outputs.size(), traced_.graph.outputs().size());
}

std::vector<Tensor> MethodVariant::run(std::span<const compile::Argument> arguments) {
  for (size_t i = 0; i < symbols_.size(); ++i) symbols_[i] = compile::read_integer(traced_.symbols[i], arguments);
  check_frozen(arguments);
  if (backend_ != nullptr) return run_backend(arguments);
  check_memory(arguments);
  warn_of_overwritten_outputs(arguments);
  make_key(arguments);
  const std::vector<ops::HostList> lists = lists_of(arguments);
  Entry* entry = captures() ? captured_entry(arguments, lists) : nullptr;
  if (entry != nullptr) {
    copy_inputs(*entry, arguments);
    if (!replay(*entry, lists)) entry = nullptr;
  }
  if (entry == nullptr) {
    entry = &node_entry(arguments);
    copy_inputs(*entry, arguments);
    entry->nodes->run(state_.stream, lists);
    ++state_.counters.node_runs;
  }
  last_entry_ = entry;
  return results(*entry, arguments);
}

}  // namespace reprise::api
