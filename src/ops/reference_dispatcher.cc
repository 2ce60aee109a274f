#include "ops/reference_dispatcher.h"

#include <new>

#include "base/error.h"
#include "ops/checks.h"

namespace reprise::ops {
namespace {

constexpr std::align_val_t kAlignment{64};

/// Host memory of its own.
class HostStorage final : public Storage {
 public:
  explicit HostStorage(size_t bytes) : Storage(::operator new(bytes, kAlignment), bytes) {}
  ~HostStorage() override { ::operator delete(data(), kAlignment); }
};

}  // namespace

void ReferenceDispatcher::dispatch(std::string_view op_name, std::span<const Tensor> inputs,
                                   std::span<const HostList> lists, std::span<const Attribute> attributes,
                                   std::span<Tensor> outputs, std::source_location /*where*/) {
  const OpDef& op = registry_.get(op_name);
  OpCall call{.op = op, .inputs = inputs, .lists = lists, .attributes = attributes, .outputs = outputs};
  check_call(call);
  std::vector<TensorMeta> metas(outputs.size());
  op.infer(call, metas);
  if (op.traits().view) {
    outputs[0] = inputs[0].with_meta(metas[0], op.view_offset(call));
    return;
  }
  if (op.reference() == nullptr) throw Error(ErrorCode::kUnsupported, "operator '{}' has no reference", op.name());
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i] = Tensor(metas[i], std::make_shared<HostStorage>(metas[i].contiguous_bytes()));
  }
  op.reference()(call);
}

}  // namespace reprise::ops
