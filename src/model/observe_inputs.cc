#include "model/observe_inputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "ops/eager_dispatcher.h"
#include "tensor/bfloat16.h"

namespace reprise::model {
namespace {

constexpr int64_t kPageSize = 16;

/// Calls the operators at once, and looks at the inputs of linear layers.
class ObservingDispatcher final : public ops::Dispatcher {
 public:
  ObservingDispatcher(const Model& model, const ops::Registry& registry, device::Device& device)
      : device_(device), eager_(registry, device, device.default_stream()) {
    constexpr std::string_view kWeight = ".weight";
    for (const auto& [name, tensor] : model.named_parameters()) {
      if (name.ends_with(kWeight)) names_.emplace(tensor.data(), name.substr(0, name.size() - kWeight.size()));
    }
  }

  void dispatch(std::string_view op, std::span<const Tensor> inputs, std::span<const ops::HostList> lists,
                std::span<const ops::Attribute> attributes, std::span<Tensor> outputs,
                std::source_location where) override {
    if (op == "linear") {
      const auto name = names_.find(inputs[1].data());
      if (name != names_.end()) observe(name->second, inputs[0]);
    }
    eager_.dispatch(op, inputs, lists, attributes, outputs, where);
  }

  std::map<std::string, load::ActivationRange> take_ranges() { return std::move(ranges_); }

 private:
  void observe(const std::string& layer, const Tensor& x) {
    if (!x.is_contiguous()) throw Error(ErrorCode::kInternal, "the input of {} has gaps", layer);
    eager_.stream().synchronize();
    const auto count = static_cast<size_t>(x.shape().elements());
    bytes_.resize(count * size_of(x.dtype()));
    device_.copy(bytes_.data(), x.data(), bytes_.size(), device::CopyKind::kDeviceToHost);
    const auto [place, is_new] = ranges_.emplace(layer, load::ActivationRange());
    for (size_t i = 0; i < count; ++i) {
      const float value = value_at(x.dtype(), i);
      if (!std::isfinite(value)) throw Error(ErrorCode::kCorruptData, "the input of {} holds {}", layer, value);
      place->second.least = std::min(place->second.least, value);
      place->second.largest = std::max(place->second.largest, value);
    }
  }

  float value_at(DType dtype, size_t index) const {
    if (dtype == DType::kBF16) {
      BFloat16 value;
      std::memcpy(&value, bytes_.data() + index * sizeof(value), sizeof(value));
      return to_float(value);
    }
    float value;
    std::memcpy(&value, bytes_.data() + index * sizeof(value), sizeof(value));
    return value;
  }

  device::Device& device_;
  ops::EagerDispatcher eager_;
  std::map<const void*, std::string> names_;
  std::map<std::string, load::ActivationRange> ranges_;
  std::vector<std::byte> bytes_;
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

}  // namespace

std::map<std::string, load::ActivationRange> observe_linear_inputs(const Model& model, const ops::Registry& registry,
                                                                   device::Device& device,
                                                                   const std::vector<std::vector<int32_t>>& texts,
                                                                   const std::function<void(size_t done)>& progress) {
  size_t longest = 1;
  for (size_t i = 0; i < texts.size(); ++i) {
    longest = std::max(longest, texts[i].size());
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
  ObservingDispatcher dispatcher(model, registry, device);
  SingleSequence sequence(model, device, longest);
  for (size_t i = 0; i < texts.size(); ++i) {
    if (progress) progress(i);
    if (!texts[i].empty()) sequence.run(model, dispatcher, texts[i]);
  }
  return dispatcher.take_ranges();
}

}  // namespace reprise::model
