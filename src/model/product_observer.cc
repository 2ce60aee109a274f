#include "model/product_observer.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "ops/eager_dispatcher.h"
#include "tensor/bfloat16.h"

namespace reprise::model {
namespace {

constexpr int64_t kPageSize = 16;

/// Calls the operators at once, and shows the products.
class ObservingDispatcher final : public ops::Dispatcher {
 public:
  ObservingDispatcher(const Model& model, const ops::Registry& registry, device::Device& device,
                      const std::function<void(const Product&)>& observe)
      : eager_(registry, device, device.default_stream()), observe_(observe) {
    constexpr std::string_view kWeight = ".weight";
    for (const auto& [name, tensor] : model.named_parameters()) {
      if (name.ends_with(kWeight)) names_.emplace(tensor.data(), name.substr(0, name.size() - kWeight.size()));
    }
  }

  void dispatch(std::string_view op, std::span<const Tensor> inputs, std::span<const ops::HostList> lists,
                std::span<const ops::Attribute> attributes, std::span<Tensor> outputs,
                std::source_location where) override {
    eager_.dispatch(op, inputs, lists, attributes, outputs, where);
    if (op != "linear" && op != "grouped_linear") return;
    const auto name = names_.find(inputs[1].data());
    if (name == names_.end()) return;
    eager_.stream().synchronize();
    observe_({op, name->second, inputs, outputs[0]});
  }

 private:
  ops::EagerDispatcher eager_;
  const std::function<void(const Product&)>& observe_;
  std::map<const void*, std::string> names_;
};

/// One sequence in pages of its own.
class SingleSequence {
 public:
  SingleSequence(const Model& model, device::Device& device, size_t longest) : device_(device) {
    const int64_t pages = (static_cast<int64_t>(longest) + kPageSize - 1) / kPageSize;
    for (const KvBuffer& buffer : model.kv_layout().buffers) {
      const bool per_token = buffer.granularity == KvBuffer::Granularity::kToken;
      Shape shape = per_token ? Shape{pages, kPageSize} : Shape{1};
      for (const Dim& dim : buffer.entry) shape.push_back(dim);
      const TensorMeta meta(buffer.dtype, shape);
      kv_.emplace_back(meta, device.allocate(meta.contiguous_bytes()));
      device.fill(kv_.back().data(), 0, meta.contiguous_bytes());
    }
    std::vector<int32_t> table(static_cast<size_t>(pages));
    for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(i);
    table_ = upload(table, Shape{1, pages});
  }

  void run(const Model& model, ops::Dispatcher& dispatcher, const std::vector<int32_t>& ids) {
    const auto tokens = static_cast<int32_t>(ids.size());
    std::vector<int32_t> positions(ids.size());
    for (int32_t i = 0; i < tokens; ++i) positions[static_cast<size_t>(i)] = i;
    const std::vector<int32_t> length = {tokens};
    ops::ForwardContext context(dispatcher);
    context.token_ids = upload(ids, Shape{tokens});
    context.positions = upload(positions, Shape{tokens});
    context.slots = context.positions;
    context.block_tables = table_;
    context.logit_rows = upload({tokens - 1}, Shape{1});
    context.sequence_slots = upload({0}, Shape{1});
    context.query_lengths = ops::HostList(length);
    context.kv_lengths = ops::HostList(length);
    model.forward(context, kv_);
    device_.default_stream().synchronize();
  }

 private:
  Tensor upload(const std::vector<int32_t>& values, const Shape& shape) {
    const Tensor tensor(TensorMeta(DType::kI32, shape), device_.allocate(values.size() * sizeof(int32_t)));
    device_.copy(tensor.data(), values.data(), values.size() * sizeof(int32_t), device::CopyKind::kHostToDevice);
    return tensor;
  }

  device::Device& device_;
  std::vector<Tensor> kv_;
  Tensor table_;
};

void check_texts(const Model& model, const std::vector<std::vector<int32_t>>& texts) {
  for (size_t i = 0; i < texts.size(); ++i) {
    if (static_cast<int64_t>(texts[i].size()) > model.info().max_positions) {
      throw Error(ErrorCode::kInvalidArgument, "text {} has {} tokens, but the model has {} positions", i + 1,
                  texts[i].size(), model.info().max_positions);
    }
    for (const int32_t id : texts[i]) {
      if (id >= 0 && id < model.info().vocabulary) continue;
      throw Error(ErrorCode::kInvalidArgument, "text {} has the token {}, but the model knows {}", i + 1, id,
                  model.info().vocabulary);
    }
  }
}

}  // namespace

void observe_products(const Model& model, const ops::Registry& registry, device::Device& device,
                      const std::vector<std::vector<int32_t>>& texts,
                      const std::function<void(const Product& product)>& observe,
                      const std::function<void(size_t done)>& progress) {
  check_texts(model, texts);
  size_t longest = 1;
  for (const std::vector<int32_t>& text : texts) longest = std::max(longest, text.size());
  ObservingDispatcher dispatcher(model, registry, device, observe);
  SingleSequence sequence(model, device, longest);
  for (size_t i = 0; i < texts.size(); ++i) {
    if (progress) progress(i);
    if (!texts[i].empty()) sequence.run(model, dispatcher, texts[i]);
  }
}

std::vector<float> values_on_host(device::Device& device, const Tensor& tensor) {
  if (!tensor.is_contiguous()) throw Error(ErrorCode::kInternal, "a product's tensor has gaps");
  std::vector<float> values(static_cast<size_t>(tensor.shape().elements()));
  if (tensor.dtype() == DType::kBF16) {
    std::vector<BFloat16> stored(values.size());
    device.copy(stored.data(), tensor.data(), stored.size() * sizeof(BFloat16), device::CopyKind::kDeviceToHost);
    std::ranges::transform(stored, values.begin(), [](BFloat16 value) { return to_float(value); });
  } else {
    REPRISE_CHECK(tensor.dtype() == DType::kF32);
    device.copy(values.data(), tensor.data(), values.size() * sizeof(float), device::CopyKind::kDeviceToHost);
  }
  return values;
}

}  // namespace reprise::model
