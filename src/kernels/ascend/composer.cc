#include "kernels/ascend/composer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "device/ascend/acl_error.h"

namespace reprise::kernels::ascend {
namespace {

/// What operators' workspaces and tensors are aligned to.
constexpr size_t kAlignment = 512;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

const AscendResources& resources_of(const ops::OpCall& call) {
  const ops::OpKernel* kernel = call.op.kernel("ascend");
  REPRISE_CHECK(kernel != nullptr && kernel->resources != nullptr);
  return *static_cast<const AscendResources*>(kernel->resources.get());
}

}  // namespace

/// A call behind its first phase.
class Composer::Launch final : public device::ascend::PreparedLaunch {
 public:
  Launch(const AscendResources& resources, Call made, void* workspace)
      : resources_(resources), made_(std::move(made)), workspace_(workspace) {
    if (workspace_ != nullptr) made_.signature.add_address(workspace_);
  }
  ~Launch() override {
    // A single executor goes with its second phase, one that may be called again with its owner.
    aclOpExecutor* executor = made_.prepared.executor;
    if (executor != nullptr && resources_.library.aclDestroyAclOpExecutor != nullptr)
      resources_.executors->destroy(executor);
  }

  int issue(aclrtStream stream) override {
    PreparedExecutor& prepared = made_.prepared;
    if (!made_.key) {
      aclOpExecutor* single = std::exchange(prepared.executor, nullptr);
      return made_.second(workspace_, prepared.workspace_bytes, single, stream);
    }
    const int status = made_.second(workspace_, prepared.workspace_bytes, prepared.executor, stream);
    if (status == ACLNN_SUCCESS) {
      resources_.executors->give_back(*made_.key, std::move(prepared));
      prepared = {};
    }
    return status;
  }
  const char* name() const override { return made_.name; }
  uint64_t digest() const override { return made_.signature.digest(); }
  std::span<const void* const> addresses() const override { return made_.signature.addresses(); }

 private:
  const AscendResources& resources_;
  Call made_;
  void* workspace_;
};

Composer::Composer(const ops::OpCall& call)
    : call_(call),
      resources_(resources_of(call)),
      outputs_(call.outputs),
      stream_(static_cast<device::ascend::AscendStream*>(call.stream)) {
  REPRISE_CHECK(stream_ != nullptr);
}

Composer::Composer(const ops::OpCall& call, std::span<const Tensor> outputs)
    : call_(call), resources_(resources_of(call)), outputs_(outputs) {}

size_t Composer::measure(const ops::OpCall& call, void (*compose)(Composer&)) {
  if (!call.lists.empty()) return measure_anew(call, compose);
  WorkspaceSizes& sizes = *resources_of(call).workspaces;
  const uint64_t key = WorkspaceSizes::key_of(call);
  if (const std::optional<size_t> bytes = sizes.find(key)) return *bytes;
  const size_t bytes = measure_anew(call, compose);
  sizes.add(key, bytes);
  return bytes;
}

size_t Composer::measure_anew(const ops::OpCall& call, void (*compose)(Composer&)) {
  std::vector<TensorMeta> metas(call.op.schema().outputs.size());
  if (call.outputs.size() == metas.size()) {
    for (size_t i = 0; i < metas.size(); ++i) metas[i] = call.outputs[i].meta();
  } else {
    // Shapes are all that is known of the host's lists.
    std::vector<ops::HostList> lists;
    for (const ops::HostList& list : call.lists) lists.push_back(ops::HostList::traced(list.length, 0));
    const ops::OpCall shapes{
        .op = call.op, .inputs = call.inputs, .lists = lists, .attributes = call.attributes, .outputs = {}};
    call.op.infer(shapes, metas);
  }
  std::vector<Tensor> outputs;
  for (const TensorMeta& meta : metas) outputs.emplace_back(meta, nullptr);
  Composer composer(call, outputs);
  compose(composer);
  return composer.scratch_bytes_ + aligned(composer.workspace_bytes_);
}

TensorView Composer::scratch(aclDataType dtype, std::initializer_list<int64_t> sizes) {
  TensorView view = TensorView::contiguous(nullptr, dtype, sizes);
  const size_t begin = scratch_bytes_;
  scratch_bytes_ += aligned(view.bytes());
  if (measures()) return view;
  const size_t there = call_.workspace.defined() ? call_.workspace.meta().contiguous_bytes() : 0;
  if (scratch_bytes_ > there) {
    throw Error(ErrorCode::kInternal, "{}: intermediates of {} bytes in a workspace of {}", call_.op.name(),
                scratch_bytes_, there);
  }
  view.data = call_.workspace.data_as<std::byte>() + begin;
  return view;
}

TensorView Composer::scratch_like(const TensorView& like, aclDataType dtype) {
  const TensorView flat = scratch(dtype, {like.elements()});
  TensorView view = flat;
  view.rank = like.rank;
  int64_t stride = 1;
  for (size_t axis = like.rank; axis-- > 0; stride *= std::max<int64_t>(like.sizes[axis], 1)) {
    view.sizes[axis] = like.sizes[axis];
    view.strides[axis] = stride;
  }
  return view;
}

std::optional<device::ascend::LimitScope> Composer::limit_scope() {
  if (measures()) return std::nullopt;
  return std::optional<device::ascend::LimitScope>(std::in_place, *stream_);
}

bool Composer::find_executor(Call& made) {
  if (measures() || !resources_.executors->may_keep(made.name, made.signature)) return false;
  // A captured call is made once, and what it refers to is the graph's.
  if (stream_->capture_info().status != device::CaptureStatus::kNone) return false;
  const device::CoreLimit limit = stream_->core_limit();
  made.key = {made.name, made.signature.digest(), limit.matrix_cores, limit.vector_cores};
  std::optional<PreparedExecutor> kept = resources_.executors->take(*made.key, made.signature.addresses());
  if (!kept) return false;
  made.prepared = std::move(*kept);
  return made.is_used_again = true;
}

void Composer::finish(Call made) {
  if (made.key && !made.is_used_again && !resources_.executors->make_repeatable(made.name, made.prepared.executor)) {
    made.key.reset();
  }
  const char* const name = made.name;
  const uint64_t bytes = made.prepared.workspace_bytes;
  void* workspace = nullptr;
  const size_t there = call_.workspace.defined() ? call_.workspace.meta().contiguous_bytes() : 0;
  const size_t wanted = aligned(bytes);
  if (!measures() && bytes > 0 && scratch_bytes_ + wanted <= there) {
    // At the end: the intermediates that are still to come lie at the beginning.
    workspace = call_.workspace.data_as<std::byte>() + (there - wanted) / kAlignment * kAlignment;
  }
  auto launch = std::make_unique<Launch>(resources_, std::move(made), workspace);
  if (measures()) {
    workspace_bytes_ = std::max<size_t>(workspace_bytes_, bytes);
    return;
  }
  if (bytes > 0 && workspace == nullptr) {
    throw Error(ErrorCode::kInternal, "{}: {} wants a workspace of {} bytes behind {}, of {} in all", call_.op.name(),
                name, bytes, scratch_bytes_, there);
  }
  try {
    stream_->launch(std::move(launch));
  } catch (Error& error) {
    error.add_context(call_.op.name());
    throw;
  }
}

void Composer::fail_missing(const char* name) const {
  throw Error(ErrorCode::kUnsupported, "operator '{}' needs {}, which the installed operators' libraries do not have",
              call_.op.name(), name)
      .remedy("install a newer CANN with its kernels' package");
}

void Composer::fail_phase(aclnnStatus status, const char* name) const {
  throw device::ascend::acl_error(resources_.library, status, name,
                                  fmt::format("preparing the operator '{}'", call_.op.name()));
}

}  // namespace reprise::kernels::ascend
