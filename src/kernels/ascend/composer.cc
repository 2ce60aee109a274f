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
  Launch(const device::ascend::AclLibrary& library, const char* name,
         aclnnStatus (*second)(void*, uint64_t, aclOpExecutor*, aclrtStream), std::unique_ptr<AclnnArguments> arguments,
         void* workspace, uint64_t bytes, aclOpExecutor* executor)
      : library_(library),
        name_(name),
        second_(second),
        arguments_(std::move(arguments)),
        workspace_(workspace),
        bytes_(bytes),
        executor_(executor) {
    if (workspace_ != nullptr) arguments_->add_address(workspace_);
  }
  ~Launch() override {
    // An executor goes with its second phase.
    if (executor_ != nullptr && library_.aclDestroyAclOpExecutor != nullptr)
      device::ascend::log_acl(library_, library_.aclDestroyAclOpExecutor(executor_), "aclDestroyAclOpExecutor",
                              "giving up a launch");
  }

  int issue(aclrtStream stream) override {
    return second_(workspace_, bytes_, std::exchange(executor_, nullptr), stream);
  }
  const char* name() const override { return name_; }
  uint64_t digest() const override { return arguments_->digest(); }
  std::span<const void* const> addresses() const override { return arguments_->addresses(); }

 private:
  const device::ascend::AclLibrary& library_;
  const char* name_;
  aclnnStatus (*second_)(void*, uint64_t, aclOpExecutor*, aclrtStream);
  std::unique_ptr<AclnnArguments> arguments_;
  void* workspace_;
  uint64_t bytes_;
  aclOpExecutor* executor_;
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

void Composer::finish(const char* name, aclnnStatus (*second)(void*, uint64_t, aclOpExecutor*, aclrtStream),
                      std::unique_ptr<AclnnArguments> arguments, uint64_t bytes, aclOpExecutor* executor) {
  void* workspace = nullptr;
  const size_t there = call_.workspace.defined() ? call_.workspace.meta().contiguous_bytes() : 0;
  const size_t wanted = aligned(bytes);
  if (!measures() && bytes > 0 && scratch_bytes_ + wanted <= there) {
    // At the end: the intermediates that are still to come lie at the beginning.
    workspace = call_.workspace.data_as<std::byte>() + (there - wanted) / kAlignment * kAlignment;
  }
  auto launch =
      std::make_unique<Launch>(resources_.library, name, second, std::move(arguments), workspace, bytes, executor);
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
