#include "reprise/library.h"

#include <algorithm>
#include <cstdlib>

#include "api/compiled_method_state.h"
#include "api/devices.h"
#include "api/graph_method.h"
#include "api/library_state.h"
#include "base/error.h"
#include "base/nearest_name.h"
#include "graph/graph.h"
#include "ops/in_place.h"
#include "replay/debug_dump.h"

namespace reprise {
namespace {

/// Names for arguments that have none, and checks of those that are given.
void complete_names(compile::MethodSpec& spec, MethodOptions& options) {
  if (spec.name.empty()) spec.name = options.name;
  if (spec.names.empty()) spec.names = options.argument_names;
  if (spec.names.empty()) {
    for (size_t i = 0; i < spec.kinds.size(); ++i) spec.names.push_back(fmt::format("a{}", i));
  }
  if (spec.names.size() != spec.kinds.size()) {
    throw Error(ErrorCode::kInvalidArgument, "{}: {} argument names for {} arguments", spec.name, spec.names.size(),
                spec.kinds.size());
  }
  const auto check_name = [&](const std::string& name, std::string_view what) {
    if (graph::is_name(name)) return;
    throw Error(ErrorCode::kInvalidArgument, "{}: '{}' cannot be the name of {}", spec.name, name, what)
        .remedy("names have letters, digits, '_' and '.'");
  };
  check_name(spec.name, "a method");
  for (const std::string& name : spec.names) check_name(name, "an argument");
  std::vector<std::string> sorted = spec.names;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    throw Error(ErrorCode::kInvalidArgument, "{}: two arguments are named '{}'", spec.name, *twice);
  }
}

template <typename T>
std::vector<T> elements(const Library& library, const Tensor& tensor, DType dtype) {
  if (tensor.dtype() != dtype) {
    throw Error(ErrorCode::kInvalidArgument, "{} is not {}", tensor.meta().to_string(), name_of(dtype));
  }
  std::vector<T> values(static_cast<size_t>(tensor.shape().elements()));
  const std::vector<std::byte> bytes = library.to_bytes(tensor);
  std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(std::span(values)).begin());
  return values;
}

void require_sizes(const Shape& shape) {
  for (const Dim& dim : shape) {
    if (dim.is_constant() && dim.offset() >= 0) continue;
    throw Error(ErrorCode::kInvalidArgument, "a tensor of shape {}: sizes are constants from 0 on", shape.to_string());
  }
}

void require_count(const Shape& shape, size_t count) {
  require_sizes(shape);
  if (static_cast<size_t>(shape.elements()) == count) return;
  throw Error(ErrorCode::kInvalidArgument, "{} values for a tensor of shape {}, which has {}", count, shape.to_string(),
              shape.elements());
}

/// Options that say how a method's own code is traced have nothing to act on.
void require_graph_options(const graph::Graph& graph, const MethodOptions& options) {
  const MethodOptions defaults;
  std::string idle;
  const auto name = [&](bool set, std::string_view option) {
    if (set) idle += fmt::format("{}{}", idle.empty() ? "" : ", ", option);
  };
  name(options.name != defaults.name, "name");
  name(!options.argument_names.empty(), "argument_names");
  name(options.dynamic != defaults.dynamic, "dynamic");
  name(options.recompile_limit != defaults.recompile_limit, "recompile_limit");
  name(options.retrace_every != defaults.retrace_every, "retrace_every");
  if (idle.empty()) return;
  throw Error(ErrorCode::kInvalidArgument, "graph '{}': without effect on a graph: {}", graph.name(), idle)
      .remedy("names and sizes are those of the graph");
}

}  // namespace

Library::Library(std::unique_ptr<device::Device> device, ops::Registry registry)
    : implementation_(std::make_shared<Implementation>(std::move(device), std::move(registry))) {}

Library Library::open(std::string_view device, int threads) {
  ops::Registry registry = ops::make_catalogue();
  std::unique_ptr<device::Device> opened = api::open_device({std::string(device), threads, false}, registry);
  return Library(std::move(opened), std::move(registry));
}

ops::OpDef& Library::register_operator(ops::OpDef op) { return implementation_->registry.add(std::move(op)); }

void Library::register_replacement(compile::ReplacementRule rule) {
  implementation_->replacements.add(std::move(rule));
}

void Library::register_backend(std::string name, Backend backend) {
  if (replay::mode_from_name(name)) {
    throw Error(ErrorCode::kInvalidArgument, "a backend cannot be called '{}', which is a mode", name);
  }
  if (name.empty() || backend == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, "a backend needs a name and a function");
  }
  if (!implementation_->backends.emplace(name, std::move(backend)).second) {
    throw Error(ErrorCode::kInvalidArgument, "there is a backend '{}' already", name);
  }
}

void Library::prepare(compile::MethodSpec& spec, MethodOptions& options) const {
  complete_names(spec, options);
  if (options.recompile_limit < 1) {
    throw Error(ErrorCode::kInvalidArgument, "{}: recompile_limit is {}, must be at least 1", spec.name,
                options.recompile_limit);
  }
  if (options.compile.capture_limit < 1) {
    throw Error(ErrorCode::kInvalidArgument, "{}: capture_limit is {}, must be at least 1", spec.name,
                options.compile.capture_limit);
  }
  if (options.compile.force_eager) {
    if (options.mode != Mode::kFull && options.mode != Mode::kForceEager) {
      throw Error(ErrorCode::kInvalidArgument, "{}: force_eager contradicts mode {}", spec.name, name_of(options.mode));
    }
    options.mode = Mode::kForceEager;
  }
  if (const char* directory = std::getenv("REPRISE_DEBUG_DIR");
      directory != nullptr && options.debug_directory.empty()) {
    options.debug_directory = directory;
  }
  replay::DebugDump::make_root(options.debug_directory);
  if (options.pool != nullptr && &options.pool->device() != implementation_->device.get()) {
    throw Error(ErrorCode::kInvalidArgument, "{}: its pool has memory of another library's device", spec.name)
        .remedy("make the pool with this library's device()");
  }
  if (options.mode == Mode::kPiecewise) {
    for (const std::string& op : options.splitting_ops) implementation_->registry.get(op);
    options.splitting_ops = ops::with_in_place_variants(implementation_->registry, std::move(options.splitting_ops));
  }
  if (!options.backend.empty() && !implementation_->backends.contains(options.backend)) {
    std::vector<std::string> known;
    for (const auto& [name, _] : implementation_->backends) known.push_back(name);
    const std::string nearest = nearest_name(options.backend, known);
    throw Error(ErrorCode::kNotFound, "{}: there is no backend '{}'", spec.name, options.backend)
        .remedy(nearest.empty() ? "register it first" : fmt::format("did you mean '{}'?", nearest));
  }
  options.compile.passes.device = std::string(implementation_->device->name());
  if (implementation_->replacements.size() > 0) {
    auto& sets = options.compile.passes.replacements;
    sets.insert(sets.begin(), implementation_->replacements);
  }
}

CompiledMethod Library::compile_method(compile::MethodSpec spec, MethodOptions options) {
  prepare(spec, options);
  return CompiledMethod(
      std::make_shared<CompiledMethod::Implementation>(implementation_, std::move(spec), std::move(options)));
}

CompiledMethod Library::compile_graph(graph::Graph graph, MethodOptions options, std::source_location where) {
  if (options.mode == Mode::kEager && options.backend.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "graph '{}': mode eager runs a method's own code, a graph has none",
                graph.name())
        .remedy("use aot_eager");
  }
  require_graph_options(graph, options);
  compile::MethodSpec spec = api::spec_of(graph, where);
  prepare(spec, options);
  compile::TracedMethod traced = api::traced_of(std::move(graph), spec);
  return CompiledMethod(std::make_shared<CompiledMethod::Implementation>(implementation_, std::move(spec),
                                                                         std::move(options), std::move(traced)));
}

Scope Library::set_stance(Stance stance) {
  const int64_t scope = implementation_->stances.open(stance);
  return Scope([state = implementation_, scope] { state->stances.close(scope); });
}

Scope Library::limit_core_num(int matrix_cores, int vector_cores) {
  const int cores = implementation_->device->capabilities().cores;
  if (matrix_cores < 1 || matrix_cores > cores || vector_cores < 0 || vector_cores > cores) {
    throw Error(ErrorCode::kInvalidArgument, "a core limit of {}, {} on a device of {} cores", matrix_cores,
                vector_cores, cores);
  }
  if (implementation_->core_limits.empty()) implementation_->outer_core_limit = stream().core_limit();
  const device::CoreLimit limit{matrix_cores, vector_cores};
  stream().set_core_limit(limit);
  const int64_t scope = implementation_->core_limits.open(limit);
  return Scope([state = implementation_, scope] {
    auto& limits = state->core_limits;
    limits.close(scope);
    state->stream->set_core_limit(limits.empty() ? state->outer_core_limit : limits.latest());
  });
}

ops::ForwardContext Library::eager() const { return ops::ForwardContext(implementation_->eager); }

device::Device& Library::device() const { return *implementation_->device; }
device::Stream& Library::stream() const { return *implementation_->stream; }
const ops::Registry& Library::registry() const { return implementation_->registry; }
void Library::synchronize() const { implementation_->stream->synchronize(); }

Tensor Library::empty(const TensorMeta& meta) const {
  require_sizes(meta.shape);
  return Tensor(meta, device().allocate(std::max<size_t>(meta.contiguous_bytes(), 1)));
}

Tensor Library::from_bytes(const TensorMeta& meta, std::span<const std::byte> bytes) const {
  require_sizes(meta.shape);
  if (bytes.size() != meta.contiguous_bytes() || !meta.is_contiguous()) {
    throw Error(ErrorCode::kInvalidArgument, "{} bytes for {}, which takes {}", bytes.size(), meta.to_string(),
                meta.contiguous_bytes());
  }
  Tensor tensor = empty(meta);
  if (!bytes.empty()) device().copy(tensor.data(), bytes.data(), bytes.size(), device::CopyKind::kHostToDevice);
  return tensor;
}

std::vector<std::byte> Library::to_bytes(const Tensor& tensor) const {
  if (tensor.data() == nullptr && (!tensor.defined() || tensor.shape().elements() > 0)) {
    throw Error(ErrorCode::kInvalidArgument, "a tensor without memory has no contents");
  }
  if (!tensor.is_contiguous() || !tensor.format().is_plain()) {
    throw Error(ErrorCode::kInvalidArgument, "{} is not contiguous", tensor.meta().to_string()).remedy("copy it first");
  }
  synchronize();
  std::vector<std::byte> bytes(tensor.meta().contiguous_bytes());
  if (!bytes.empty()) device().copy(bytes.data(), tensor.data(), bytes.size(), device::CopyKind::kDeviceToHost);
  return bytes;
}

Tensor Library::from_floats(const Shape& shape, std::span<const float> values) const {
  require_count(shape, values.size());
  return from_bytes(TensorMeta(DType::kF32, shape), std::as_bytes(values));
}
std::vector<float> Library::to_floats(const Tensor& tensor) const {
  return elements<float>(*this, tensor, DType::kF32);
}

Tensor Library::from_integers(const Shape& shape, std::span<const int32_t> values) const {
  require_count(shape, values.size());
  return from_bytes(TensorMeta(DType::kI32, shape), std::as_bytes(values));
}
std::vector<int32_t> Library::to_integers(const Tensor& tensor) const {
  return elements<int32_t>(*this, tensor, DType::kI32);
}

}  // namespace reprise
