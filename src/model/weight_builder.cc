#include "model/weight_builder.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/process_memory.h"
#include "load/convert.h"
#include "load/quantized_tensors.h"
#include "ops/linear_merge.h"
#include "tensor/bfloat16.h"

namespace reprise::model {
namespace {

/// Stands for the memory of a weight that is not there, so that graphs can tell one weight from another.
Tensor without_memory(const TensorMeta& meta) { return Tensor(meta, std::make_shared<Storage>(nullptr, 0)); }

/// Bytes of stored tensors between two looks at the memory.
constexpr size_t kWatchedBytes = size_t{4} << 20;

/// Errors say which weight they are about: running out of memory, above all.
template <typename Function>
auto naming(const std::string& name, const Function& function) {
  try {
    return function();
  } catch (Error& error) {
    error.add_context(fmt::format("weight '{}'", name));
    throw;
  }
}

}  // namespace

WeightBuilder::WeightBuilder(const load::Checkpoint* checkpoint, Use use, const load::ModelConfig& config,
                             const ops::Registry& registry, device::Device& device, DType dtype, Progress progress)
    : described_(checkpoint),
      checkpoint_(use == Use::kLoad ? checkpoint : nullptr),
      config_(config),
      registry_(registry),
      device_(device),
      dispatcher_(registry, device, device.default_stream()),
      context_(dispatcher_),
      dtype_(dtype),
      progress_(std::move(progress)),
      packed_(checkpoint_, registry, device, dispatcher_.stream(),
              [this](const load::StoredTensor& stored) { take(stored); }) {
  std::vector<load::ExpectedTensor> expected = load::expected_tensors(config);
  REPRISE_CHECK(use == Use::kPlan || checkpoint != nullptr);
  if (described_ != nullptr) load::check_tensors(*described_, expected);
  if (checkpoint_ != nullptr) {
    load::check_quantized_values(*checkpoint_, config);
    for (const load::ExpectedTensor& tensor : expected) {
      const load::StoredTensor* stored = checkpoint_->find(tensor.name);
      if (stored == nullptr) continue;
      total_bytes_ += stored->bytes.size();
      report_.largest_tensor = std::max(report_.largest_tensor, stored->bytes.size());
    }
    const ProcessMemory memory = process_memory();
    report_.resident_before = memory.resident;
    report_.anonymous_before = report_.peak_anonymous = memory.anonymous;
  }
  for (load::ExpectedTensor& tensor : expected) shapes_.emplace(std::move(tensor.name), tensor.shape);
}

Shape WeightBuilder::shape_of(const std::string& name) const {
  const auto place = shapes_.find(name);
  if (place == shapes_.end()) throw Error(ErrorCode::kInternal, "weight '{}' was not declared", name);
  return place->second;
}

Tensor WeightBuilder::bring(const std::string& name, DType dtype) {
  const Shape shape = shape_of(name);
  if (checkpoint_ == nullptr) return without_memory(TensorMeta(dtype, shape));
  const load::StoredTensor& stored = checkpoint_->at(name);
  take(stored);
  if (stored.dtype == dtype) return device_.import(TensorMeta(dtype, shape), stored.bytes, stored.owner);
  const TensorMeta meta(dtype, shape);
  const auto converted = std::make_shared<std::vector<std::byte>>(meta.contiguous_bytes());
  load::convert(stored.dtype, stored.bytes, dtype, *converted);
  return device_.import(meta, *converted, converted);
}

Tensor WeightBuilder::named(const std::string& label, Tensor tensor) {
  names_.emplace_back(label, tensor);
  return tensor;
}

Tensor WeightBuilder::table(const std::string& name) {
  DType dtype = dtype_;
  if (described_ != nullptr) {
    const DType stored = described_->at(name).dtype;
    dtype = stored == DType::kF16 ? DType::kF32 : stored;
  }
  return named(name, naming(name, [&] { return bring(name, dtype); }));
}

Tensor WeightBuilder::vector(const std::string& name) {
  return named(name, naming(name, [&] { return bring(name, DType::kF32); }));
}

std::pair<Tensor, Tensor> WeightBuilder::norm(const std::string& prefix) {
  const std::string weight = prefix + ".weight";
  const std::string bias = prefix + ".bias";
  if (shapes_.contains(bias)) return {vector(weight), vector(bias)};
  const bool narrow = wants_narrow_vectors() && (described_ == nullptr || described_->at(weight).dtype == dtype_);
  if (!narrow) return {vector(weight), Tensor()};
  return {named(weight, naming(weight, [&] { return bring(weight, dtype_); })), Tensor()};
}

bool WeightBuilder::wants_narrow_vectors() const {
  return device_.capabilities().vectors_like_rows && dtype_ == DType::kBF16;
}

void WeightBuilder::take(const load::StoredTensor& stored) {
  if (progress_) progress_(stored.name, done_bytes_, total_bytes_);
  done_bytes_ += stored.bytes.size();
  if (done_bytes_ - watched_bytes_ >= kWatchedBytes) watch_memory();
}

void WeightBuilder::watch_memory() {
  watched_bytes_ = done_bytes_;
  report_.peak_anonymous = std::max(report_.peak_anonymous, process_memory().anonymous);
}

PackedWeights::Item WeightBuilder::item_of(std::string name) const {
  const Shape shape = shape_of(name);
  return {{std::move(name)}, shape};
}

Tensor WeightBuilder::pack(const std::string& label, const std::string& name, DType dtype) {
  const PackedWeights::Item item = item_of(name);
  const Tensor packed = naming(name, [&] { return packed_.pack({&item, 1}, dtype); })[0];
  linear_bytes_ += packed.storage()->bytes();
  count_products(dtype, item.shape.elements());
  return named(label, packed);
}

LoadReport WeightBuilder::finish() {
  if (checkpoint_ == nullptr) return report_;
  report_.pack_cache = packed_.finish_cache();
  std::set<const Storage*> counted;
  for (const auto& [name, tensor] : names_) {
    if (counted.insert(tensor.storage().get()).second) report_.weight_bytes += tensor.storage()->bytes();
  }
  report_.mapped_bytes = packed_.mapped_bytes();
  std::set<const MappedFile*> files;
  for (const load::StoredTensor& stored : checkpoint_->tensors()) files.insert(stored.owner.get());
  // What is read in place is read again when it is needed.
  for (const MappedFile* file : files) file->release(0, file->bytes().size());
  for (const auto& [name, tensor] : names_) {
    const auto holds = [&, &tensor = tensor](const MappedFile* file) {
      const auto* data = static_cast<const std::byte*>(tensor.data());
      return data >= file->bytes().data() && data < file->bytes().data() + file->bytes().size();
    };
    if (std::ranges::any_of(files, holds)) report_.mapped_bytes += tensor.meta().contiguous_bytes();
  }
  watch_memory();
  report_.peak_resident = process_memory().peak_resident;
  return report_;
}

ops::LinearWeights WeightBuilder::experts(const ExpertNames& names, const std::string& label,
                                          std::span<const std::string> projections,
                                          ops::LinearWeights::Parallel parallel) {
  const std::string first = fmt::format("{}0.{}", names.prefix, projections[0]);
  const bool is_float = config_.quantization.scheme_of(first) == load::LinearScheme::kFloat;
  std::vector<PackedWeights::Item> items;
  for (const int32_t expert : names.places) {
    PackedWeights::Item item;
    for (const std::string& projection : projections) {
      item.sources.push_back(fmt::format("{}{}.{}.weight", names.prefix, expert, projection));
    }
    item.shape = shape_of(item.sources[0]);
    for (size_t i = 1; i < item.sources.size(); ++i) item.shape[0] = item.shape[0] + shape_of(item.sources[i])[0];
    items.push_back(std::move(item));
  }
  const auto use = names.movable ? PackedWeights::Use::kMayChange : PackedWeights::Use::kReadOnly;
  const std::vector<Tensor> packed =
      naming(first, [&] { return packed_.pack(items, is_float ? dtype_ : DType::kI8, use); });
  const TensorMeta& one = packed[0].meta();
  const auto count = static_cast<int64_t>(names.places.size());
  const TensorMeta stack(one.dtype, Shape{count, one.shape[0], one.shape[1]}, one.format);
  ops::LinearWeights weights;
  weights.parallel = parallel;
  weights.weight = named(fmt::format("{}{}.weight", names.prefix, label), Tensor(stack, packed[0].storage()));
  const size_t one_expert = weights.weight.storage()->bytes() / names.places.size();
  linear_bytes_ += one_expert * static_cast<size_t>(names.active);
  count_products(one.dtype, items[0].shape.elements() * names.active);
  if (!is_float) weights.scale = expert_scales(names, label, projections);
  return weights;
}

Tensor WeightBuilder::expert_scales(const ExpertNames& names, const std::string& label,
                                    std::span<const std::string> projections) {
  std::vector<float> values;
  for (const int32_t expert : names.places) {
    for (const std::string& projection : projections) {
      const std::string name = fmt::format("{}{}.{}.weight_scale", names.prefix, expert, projection);
      std::vector<float> part(static_cast<size_t>(shape_of(name).elements()));
      if (checkpoint_ != nullptr) part = load::scale_values(checkpoint_->at(name));
      values.insert(values.end(), part.begin(), part.end());
    }
  }
  const auto places = static_cast<int64_t>(names.places.size());
  const int64_t channels = static_cast<int64_t>(values.size()) / places;
  linear_bytes_ += static_cast<size_t>(channels * names.active) * sizeof(float);
  return owned(fmt::format("{}{}.weight_scale", names.prefix, label), TensorMeta(DType::kF32, {places, channels}),
               std::as_bytes(std::span(values)));
}

DType WeightBuilder::weight_dtype(const std::string& prefix) const {
  return config_.quantization.scheme_of(prefix) == load::LinearScheme::kFloat ? dtype_ : DType::kI8;
}

ops::LinearWeights WeightBuilder::linear(const std::string& prefix, bool bias, ops::LinearWeights::Parallel parallel) {
  ops::LinearWeights weights = linear_without_weight(prefix, bias, parallel);
  const PackedWeights::Item item = item_of(prefix + ".weight");
  weights.weight = naming(item.sources[0], [&] { return packed_.pack({&item, 1}, weight_dtype(prefix)); })[0];
  rename(prefix + ".weight", weights.weight);
  return weights;
}

ops::LinearWeights WeightBuilder::linear_without_weight(const std::string& prefix, bool bias,
                                                        ops::LinearWeights::Parallel parallel) {
  const std::string label = prefix + ".weight";
  const ops::PackedLayout layout =
      ops::packed_layout(registry_, device_.name(), TensorMeta(weight_dtype(prefix), shape_of(label)));
  ops::LinearWeights weights;
  weights.weight = named(label, Tensor(layout.meta, std::make_shared<Storage>(nullptr, layout.bytes)));
  weights.parallel = parallel;
  linear_bytes_ += layout.bytes;
  count_products(weight_dtype(prefix), shape_of(label).elements());
  const load::LinearScheme scheme = config_.quantization.scheme_of(prefix);
  if (scheme == load::LinearScheme::kFloat) {
    if (bias) weights.bias = vector(prefix + ".bias");
  } else {
    add_scales(weights, prefix, scheme, bias);
  }
  return weights;
}

void WeightBuilder::add_scales(ops::LinearWeights& weights, const std::string& prefix, load::LinearScheme scheme,
                               bool bias) {
  if (scheme == load::LinearScheme::kW8A8Dynamic) {
    weights.scale = scale(prefix + ".weight_scale");
    if (bias) weights.bias = vector(prefix + ".bias");
    return;
  }
  weights.scale = scale(prefix + ".deq_scale");
  weights.quant_bias = integers(prefix + ".quant_bias");
  add_input_scales(weights, prefix, shape_of(prefix + ".weight").size(1));
}

void WeightBuilder::add_input_scales(ops::LinearWeights& weights, const std::string& prefix, int64_t columns) {
  const std::string names[] = {prefix + ".input_scale", prefix + ".input_offset"};
  Tensor* const places[] = {&weights.input_scale, &weights.input_offset};
  // Without files the usual case: scales that were stored in the compute dtype.
  float values[] = {1, 0};
  for (size_t i = 0; described_ != nullptr && i < 2; ++i) values[i] = load::scale_values(described_->at(names[i]))[0];
  const auto is_exact = [](float value) { return to_float(to_bfloat16(value)) == value; };
  const bool narrow = wants_narrow_vectors() && is_exact(values[0]) && is_exact(values[1]);
  for (size_t i = 0; i < 2; ++i) {
    if (!narrow) {
      *places[i] = scale(names[i]);
      continue;
    }
    const std::vector<BFloat16> repeated(static_cast<size_t>(columns), to_bfloat16(values[i]));
    linear_bytes_ += std::as_bytes(std::span(repeated)).size();
    *places[i] = naming(names[i], [&] {
      return owned(names[i], TensorMeta(dtype_, Shape{columns}), std::as_bytes(std::span(repeated)));
    });
  }
}

Tensor WeightBuilder::scale(const std::string& name) {
  const Shape shape{shape_of(name).elements()};
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  if (checkpoint_ != nullptr) values = load::scale_values(checkpoint_->at(name));
  linear_bytes_ += values.size() * sizeof(float);
  return naming(name, [&] { return constant(name, std::move(values), shape); });
}

Tensor WeightBuilder::integers(const std::string& name) {
  const TensorMeta meta(DType::kI32, Shape{shape_of(name).elements()});
  linear_bytes_ += meta.contiguous_bytes();
  if (checkpoint_ == nullptr) return named(name, without_memory(meta));
  const load::StoredTensor& stored = checkpoint_->at(name);
  return named(name, naming(name, [&] { return device_.import(meta, stored.bytes, stored.owner); }));
}

bool WeightBuilder::same_values(const std::string& a, const std::string& b) const {
  // Without files the usual case: one calibration of what is the input of all.
  if (described_ == nullptr) return true;
  return load::scale_values(described_->at(a)) == load::scale_values(described_->at(b));
}

void WeightBuilder::share_input_scales(std::span<const std::string> prefixes, std::span<ops::LinearWeights> weights) {
  for (size_t i = 1; i < weights.size(); ++i) {
    if (!weights[0].input_scale.defined()) return;
    if (!same_values(prefixes[0] + ".input_scale", prefixes[i] + ".input_scale") ||
        !same_values(prefixes[0] + ".input_offset", prefixes[i] + ".input_offset")) {
      continue;
    }
    weights[i].input_scale = weights[0].input_scale;
    weights[i].input_offset = weights[0].input_offset;
    // Names are of what is there.
    std::erase_if(names_, [&](const auto& name) {
      return name.first == prefixes[i] + ".input_scale" || name.first == prefixes[i] + ".input_offset";
    });
  }
}

std::vector<ops::LinearWeights> WeightBuilder::linears(std::span<const std::string> prefixes, bool bias,
                                                       ops::LinearWeights::Parallel parallel) {
  std::vector<ops::LinearWeights> weights;
  std::vector<PackedWeights::Item> items;
  for (const std::string& prefix : prefixes) {
    weights.push_back(linear_without_weight(prefix, bias, parallel));
    items.push_back(item_of(prefix + ".weight"));
  }
  share_input_scales(prefixes, weights);
  const bool merges = ops::merge_hazard(registry_, device_.name(), weights).empty();
  const DType dtype = weight_dtype(prefixes[0]);
  naming(items[0].sources[0], [&] {
    // One after the other in one storage, or each in its own.
    if (merges) {
      const std::vector<Tensor> packed = packed_.pack(items, dtype);
      for (size_t i = 0; i < items.size(); ++i) weights[i].weight = packed[i];
      return;
    }
    for (size_t i = 0; i < items.size(); ++i) weights[i].weight = packed_.pack({&items[i], 1}, dtype)[0];
  });
  if (!merges) {
    for (size_t i = 0; i < items.size(); ++i) rename(prefixes[i] + ".weight", weights[i].weight);
    return weights;
  }
  std::vector<ops::LinearWeights> parts = ops::merge_linear_weights(registry_, device_, weights).parts;
  for (size_t i = 0; i < parts.size(); ++i) {
    rename(prefixes[i] + ".weight", parts[i].weight);
    if (parts[i].bias.defined()) rename(prefixes[i] + ".bias", parts[i].bias);
    if (parts[i].quant_bias.defined()) rename(prefixes[i] + ".quant_bias", parts[i].quant_bias);
    const char* scale = parts[i].input_scale.defined() ? ".deq_scale" : ".weight_scale";
    if (parts[i].scale.defined()) rename(prefixes[i] + scale, parts[i].scale);
  }
  return parts;
}

void WeightBuilder::rename(const std::string& label, const Tensor& tensor) {
  const auto place = std::find_if(names_.begin(), names_.end(), [&](const auto& name) { return name.first == label; });
  REPRISE_CHECK(place != names_.end());
  place->second = tensor;
}

ops::LinearWeights WeightBuilder::head() {
  if (load::quantizes_head(config_)) return linear("lm_head", false, ops::LinearWeights::Parallel::kColumn);
  std::string source = config_.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  if (checkpoint_ != nullptr) {
    const load::HeadChoice choice = load::choose_head(*checkpoint_, config_);
    if (choice.contradicts_config) {
      log_warning(
          "config.json ties the head to the embedding, but the checkpoint's lm_head.weight differs; it is used");
    }
    source = choice.tensor->name;
  }
  ops::LinearWeights weights;
  weights.parallel = ops::LinearWeights::Parallel::kColumn;
  weights.weight = pack("lm_head.weight", source, dtype_);
  return weights;
}

ops::LinearWeights WeightBuilder::router(const std::string& prefix) {
  const std::string name = prefix + ".weight";
  ops::LinearWeights weights;
  weights.weight = pack(name, name, dtype_);
  return weights;
}

Tensor WeightBuilder::counters(const std::string& label, const Shape& shape) {
  const TensorMeta meta(DType::kI64, shape);
  if (checkpoint_ == nullptr) return named(label, without_memory(meta));
  const Tensor tensor(meta, device_.allocate(meta.contiguous_bytes()));
  device_.fill(tensor.data(), 0, meta.contiguous_bytes());
  return named(label, tensor);
}

Tensor WeightBuilder::indices(const std::string& label, const std::vector<int32_t>& values, const Shape& shape) {
  return owned(label, TensorMeta(DType::kI32, shape), std::as_bytes(std::span(values)));
}

Tensor WeightBuilder::owned(const std::string& label, const TensorMeta& meta, std::span<const std::byte> values) {
  REPRISE_CHECK(values.size() == meta.contiguous_bytes());
  if (checkpoint_ == nullptr) return named(label, without_memory(meta));
  const Tensor tensor(meta, device_.allocate(values.size()));
  device_.copy(tensor.data(), values.data(), values.size(), device::CopyKind::kHostToDevice);
  return named(label, tensor);
}

Tensor WeightBuilder::constant(const std::string& label, std::vector<float> values, const Shape& shape) {
  const TensorMeta meta(DType::kF32, shape);
  REPRISE_CHECK(values.size() * sizeof(float) == meta.contiguous_bytes());
  if (checkpoint_ == nullptr) return named(label, without_memory(meta));
  const auto owner = std::make_shared<std::vector<float>>(std::move(values));
  return named(label, device_.import(meta, std::as_bytes(std::span(*owner)), owner));
}

}  // namespace reprise::model
