#include "cli/bench_kernel_cases.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "ops/attention.h"
#include "ops/fused_norm.h"
#include "ops/int8_grouped_linear.h"
#include "ops/int8_linear.h"
#include "ops/linear.h"
#include "ops/moe_experts.h"
#include "ops/norm.h"
#include "ops/quantize.h"
#include "ops/split_qkv.h"
#include "ops/swiglu.h"
#include "ops/views.h"
#include "ops/weight_stack.h"

namespace reprise::cli {
namespace {

constexpr int64_t kPageSize = 16;
constexpr double kEpsilon = 1e-6;  ///< of norms

/// Every copy in turn.
template <typename T>
class Rotation {
 public:
  explicit Rotation(std::vector<T> copies) : copies_(std::move(copies)) {}
  const T& next() { return copies_[at_++ % copies_.size()]; }

 private:
  std::vector<T> copies_;
  size_t at_ = 0;
};

}  // namespace

KernelCases::KernelCases(const load::ModelConfig& config, const KernelCaseOptions& options,
                         const ops::Registry& registry, device::Device& device)
    : config_(config),
      options_(options),
      device_(device),
      stream_(device.create_stream({0, "kernels"})),
      dispatcher_(registry, device, *stream_),
      context_(dispatcher_) {}

void KernelCases::each(const Wanted& wanted, const Use& use) {
  wanted_ = wanted;
  products(use);
  if (config_.num_experts > 0) experts(use);
  for (const DType dtype : {DType::kBF16, DType::kI8}) attention(dtype, use);
  row_kernels(use);
}

size_t KernelCases::count(const Wanted& wanted) const {
  const size_t rows = options_.rows.size();
  const auto decode_rows = static_cast<size_t>(std::count_if(
      options_.rows.begin(), options_.rows.end(), [](int32_t r) { return r < KernelCaseOptions::kPrefillRows; }));
  size_t cases = 0;
  const auto add = [&](const char* kernel, size_t number) { cases += wanted(kernel) ? number : 0; };
  add("linear", 2 * (4 * rows + decode_rows));
  add("int8_linear", 4 * rows + decode_rows);
  if (config_.num_experts > 0) {
    add("grouped_linear", 2 * rows);
    add("int8_grouped_linear", 2 * rows);
    add("moe_experts", rows);
    add("int8_moe_experts", rows);
    add("moe_gating_top_k", rows);
  }
  add("paged_attention", 2 * rows);
  for (const char* kernel : {"rms_norm", "add_rms_norm", "add_rms_norm_quantize", "add_rms_norm_dynamic_quantize",
                             "embedding_rms_norm", "quantize", "dynamic_quantize", "split_qkv_rms_norm_rope",
                             "split_qkv_rms_norm_rope_store", "swiglu", "swiglu_quantize", "swiglu_dynamic_quantize"}) {
    add(kernel, rows);
  }
  return cases;
}

Tensor KernelCases::filled(DType dtype, const Shape& shape) {
  const TensorMeta meta(dtype, shape);
  Tensor tensor(meta, device_.allocate(meta.contiguous_bytes()));
  // As bfloat16 and float32 about 0.01, as int8 60.
  device_.fill(tensor.data(), 0x3C, meta.contiguous_bytes());
  return tensor;
}

Tensor KernelCases::integers(const std::vector<int32_t>& values) {
  const TensorMeta meta(DType::kI32, {static_cast<int64_t>(values.size())});
  Tensor tensor(meta, device_.allocate(meta.contiguous_bytes()));
  device_.copy(tensor.data(), values.data(), meta.contiguous_bytes(), device::CopyKind::kHostToDevice);
  return tensor;
}

Tensor KernelCases::weight_stack(DType dtype, int64_t outputs, int64_t inputs, int64_t count) {
  const Tensor packed = ops::pack_linear_weight(context_, filled(dtype, {outputs, inputs}));
  stream_->synchronize();
  ops::WeightStack stack(device_, count);
  for (int64_t i = 0; i < count; ++i) stack.add(packed);
  return stack.finish();
}

std::vector<Tensor> KernelCases::expert_stacks(DType dtype, int64_t outputs, int64_t inputs) {
  const int64_t experts = config_.num_experts;
  const int64_t count = copies_for(experts * outputs * inputs * static_cast<int64_t>(size_of(dtype)));
  const Tensor all = weight_stack(dtype, outputs, inputs, count * experts);
  const size_t bytes = all.storage()->bytes() / static_cast<size_t>(count);
  std::vector<Tensor> copies;
  for (int64_t i = 0; i < count; ++i) {
    const TensorMeta meta(dtype, {experts, outputs, inputs}, all.format());
    copies.push_back(all.with_meta(meta, static_cast<size_t>(i) * bytes));
  }
  return copies;
}

std::vector<Tensor> KernelCases::weights(DType dtype, int64_t outputs, int64_t inputs) {
  const int64_t count = copies_for(outputs * inputs * static_cast<int64_t>(size_of(dtype)));
  const Tensor stack = weight_stack(dtype, outputs, inputs, count);
  const size_t bytes = stack.storage()->bytes() / static_cast<size_t>(count);
  std::vector<Tensor> copies;
  for (int64_t i = 0; i < count; ++i) {
    copies.push_back(
        stack.with_meta(TensorMeta(dtype, {outputs, inputs}, stack.format()), static_cast<size_t>(i) * bytes));
  }
  return copies;
}

void KernelCases::product(const std::string& name, DType dtype, int64_t outputs, int64_t inputs, const Use& use) {
  const bool int8 = dtype == DType::kI8;
  const char* kernel = int8 ? "int8_linear" : "linear";
  if (!wanted_(kernel)) return;
  const auto copies = std::make_shared<Rotation<Tensor>>(weights(dtype, outputs, inputs));
  const Tensor scale = filled(DType::kF32, {outputs});
  for (const int32_t rows : options_.rows) {
    if (name == "lm_head" && rows >= KernelCaseOptions::kPrefillRows) continue;
    const Tensor x = filled(dtype, {rows, inputs});
    const Tensor row_scales = filled(DType::kF32, {rows});
    KernelCase one{.kernel = kernel,
                   .what = fmt::format("{} {}x{}", name, outputs, inputs),
                   .dtype = dtype,
                   .rows = rows,
                   .bytes = outputs * inputs * static_cast<int64_t>(size_of(dtype)),
                   .multiply_adds = rows * outputs * inputs,
                   .call = {}};
    if (int8) {
      one.call = [this, copies, x, scale, row_scales] {
        ops::int8_linear(context_, x, copies->next(), {scale, row_scales, {}, {}}, DType::kBF16);
      };
    } else {
      one.call = [this, copies, x] { ops::linear(context_, x, {.weight = copies->next()}); };
    }
    use(std::move(one));
  }
}

void KernelCases::products(const Use& use) {
  const load::ModelConfig& c = config_;
  for (const DType dtype : {DType::kBF16, DType::kI8, DType::kF32}) {
    product("qkv", dtype, c.query_size() + 2 * c.key_value_size(), c.hidden_size, use);
    product("o", dtype, c.hidden_size, c.query_size(), use);
    product("gate_up", dtype, 2 * c.intermediate_size, c.hidden_size, use);
    product("down", dtype, c.hidden_size, c.intermediate_size, use);
    product("lm_head", dtype, c.vocab_size, c.hidden_size, use);
  }
}

std::vector<Tensor> KernelCases::expert_offsets(int64_t rows) {
  const int64_t count = config_.num_experts;
  const int64_t busy = std::min(count, rows);
  std::vector<Tensor> turns;
  for (int64_t first = 0; first < count; first += busy) {
    std::vector<int32_t> offsets(static_cast<size_t>(count) + 1, 0);
    for (int64_t e = 0; e < count; ++e) {
      const int64_t place = (e - first + count) % count;
      const int64_t own = rows / count + (place < rows % count ? 1 : 0);
      offsets[static_cast<size_t>(e) + 1] = offsets[static_cast<size_t>(e)] + static_cast<int32_t>(own);
    }
    turns.push_back(integers(offsets));
  }
  return turns;
}

void KernelCases::expert_product(const std::string& name, DType dtype, int64_t outputs, int64_t inputs,
                                 const Use& use) {
  const bool int8 = dtype == DType::kI8;
  const char* kernel = int8 ? "int8_grouped_linear" : "grouped_linear";
  if (!wanted_(kernel)) return;
  const int64_t count = config_.num_experts;
  const int64_t top_k = config_.num_experts_per_tok;
  const auto stacks = std::make_shared<Rotation<Tensor>>(expert_stacks(dtype, outputs, inputs));
  const Tensor scale = filled(DType::kF32, {count, outputs});
  for (const int32_t tokens : options_.rows) {
    const int64_t rows = tokens * top_k;
    const auto turns = std::make_shared<Rotation<Tensor>>(expert_offsets(rows));
    const Tensor x = filled(dtype, {rows, inputs});
    const Tensor row_scales = filled(DType::kF32, {rows});
    KernelCase one{.kernel = kernel,
                   .what = fmt::format("{} {} of {}, {}x{}", name, top_k, count, outputs, inputs),
                   .dtype = dtype,
                   .rows = tokens,
                   .bytes = std::min(count, rows) * outputs * inputs * static_cast<int64_t>(size_of(dtype)),
                   .multiply_adds = rows * outputs * inputs,
                   .call = {}};
    if (int8) {
      one.call = [this, turns, x, stacks, scale, row_scales] {
        ops::int8_grouped_linear(context_, x, stacks->next(), turns->next(), scale, row_scales, DType::kBF16);
      };
    } else {
      one.call = [this, turns, x, stacks] {
        ops::grouped_linear(context_, x, {.weight = stacks->next()}, turns->next());
      };
    }
    use(std::move(one));
  }
}

std::vector<ops::ExpertChoice> KernelCases::expert_choices(int64_t tokens) {
  const int64_t count = config_.num_experts;
  const int64_t rows = tokens * config_.num_experts_per_tok;
  const Shape shape{tokens, config_.num_experts_per_tok};
  std::vector<ops::ExpertChoice> turns;
  for (int64_t first = 0; first < count; first += std::min(count, rows)) {
    std::vector<int32_t> experts;
    for (int64_t i = 0; i < rows; ++i) experts.push_back(static_cast<int32_t>((first + i) % count));
    turns.push_back({filled(DType::kF32, shape), integers(experts).with_meta(TensorMeta(DType::kI32, shape))});
  }
  return turns;
}

void KernelCases::expert_layer(DType dtype, const Use& use) {
  const bool int8 = dtype == DType::kI8;
  const char* kernel = int8 ? "int8_moe_experts" : "moe_experts";
  if (!wanted_(kernel)) return;
  const int64_t count = config_.num_experts;
  const int64_t top_k = config_.num_experts_per_tok;
  const int64_t hidden = config_.hidden_size;
  const int64_t width = config_.moe_intermediate_size;
  const auto up_stacks = std::make_shared<Rotation<Tensor>>(expert_stacks(dtype, 2 * width, hidden));
  const auto down_stacks = std::make_shared<Rotation<Tensor>>(expert_stacks(dtype, hidden, width));
  const Tensor up_scale = filled(DType::kF32, {count, 2 * width});
  const Tensor down_scale = filled(DType::kF32, {count, hidden});
  for (const int32_t tokens : options_.rows) {
    const int64_t rows = tokens * top_k;
    const auto turns = std::make_shared<Rotation<ops::ExpertChoice>>(expert_choices(tokens));
    const Tensor x = filled(DType::kBF16, {tokens, hidden});
    use({.kernel = kernel,
         .what = fmt::format("{} of {}, {} of {}", top_k, count, width, hidden),
         .dtype = dtype,
         .rows = tokens,
         .bytes = std::min(count, rows) * 3 * width * hidden * static_cast<int64_t>(size_of(dtype)),
         .multiply_adds = rows * 3 * width * hidden,
         .call = [this, turns, x, up_stacks, down_stacks, up_scale, down_scale, int8] {
           const ops::ExpertChoice& choice = turns->next();
           const Tensor& up = up_stacks->next();
           const Tensor& down = down_stacks->next();
           if (int8) {
             ops::int8_moe_experts(context_, x, choice, {.weight = up, .scale = up_scale},
                                   {.weight = down, .scale = down_scale});
           } else {
             ops::moe_experts(context_, x, choice, up, down);
           }
         }});
  }
}

void KernelCases::experts(const Use& use) {
  for (const DType dtype : {DType::kBF16, DType::kI8}) {
    expert_product("gate_up", dtype, 2 * config_.moe_intermediate_size, config_.hidden_size, use);
    expert_product("down", dtype, config_.hidden_size, config_.moe_intermediate_size, use);
    expert_layer(dtype, use);
  }
  if (!wanted_("moe_gating_top_k")) return;
  for (const int32_t rows : options_.rows) {
    const Tensor logits = filled(DType::kF32, {rows, config_.num_experts});
    use({.kernel = "moe_gating_top_k",
         .what = fmt::format("{} of {}", config_.num_experts_per_tok, config_.num_experts),
         .dtype = DType::kF32,
         .rows = rows,
         .call = [this, logits] { ops::moe_gating_top_k(context_, logits, config_.num_experts_per_tok, true); }});
  }
}

void KernelCases::attention(DType cache_dtype, const Use& use) {
  if (!wanted_("paged_attention")) return;
  const bool int8 = cache_dtype == DType::kI8;
  const int64_t kv_heads = config_.num_key_value_heads;
  const int64_t width = config_.head_dim;
  const int64_t heads = config_.num_attention_heads;
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  for (const int32_t rows : options_.rows) {
    const bool prefill = rows >= KernelCaseOptions::kPrefillRows;
    const int64_t sequences = prefill ? 1 : rows;
    const int64_t length = prefill ? rows : options_.context;
    const int64_t pages = (length + kPageSize - 1) / kPageSize;
    const Shape cache_shape{sequences * pages, kPageSize, kv_heads, width};
    const Shape scales_shape{sequences * pages, kPageSize, kv_heads};
    const int64_t cache_bytes = cache_shape.elements() * static_cast<int64_t>(size_of(cache_dtype)) +
                                (int8 ? scales_shape.elements() * static_cast<int64_t>(sizeof(float)) : 0);
    struct Caches {
      Tensor k, v;
      ops::KvScales scales;
    };
    std::vector<Caches> sets;
    for (int64_t i = 0; i < copies_for(2 * cache_bytes); ++i) {
      sets.push_back({filled(cache_dtype, cache_shape), filled(cache_dtype, cache_shape), {}});
      if (int8) sets.back().scales = {filled(DType::kF32, scales_shape), filled(DType::kF32, scales_shape)};
    }
    const auto caches = std::make_shared<Rotation<Caches>>(std::move(sets));
    std::vector<int32_t> table(static_cast<size_t>(sequences * pages));
    std::iota(table.begin(), table.end(), 0);
    const Tensor tables = integers(table).with_meta(TensorMeta(DType::kI32, {sequences, pages}));
    const std::vector<int32_t> query_lengths(static_cast<size_t>(sequences), prefill ? rows : 1);
    const std::vector<int32_t> kv_lengths(static_cast<size_t>(sequences), static_cast<int32_t>(length));
    const Tensor q = filled(DType::kBF16, {rows, heads, width});
    // A prompt's row sees the rows up to its own.
    const int64_t pairs = prefill ? int64_t{rows} * (rows + 1) / 2 : rows * length;
    use({.kernel = "paged_attention",
         .what = fmt::format("{} heads, {} kv of {}, {} {}", heads, kv_heads, width, prefill ? "prompt" : "context",
                             length),
         .dtype = cache_dtype,
         // Keys and values of an int8 cache are widened before they are multiplied.
         .multiplies_as = int8 ? std::optional(DType::kF32) : std::nullopt,
         .rows = rows,
         .bytes = prefill ? 0 : 2 * cache_bytes,
         .multiply_adds = 2 * pairs * heads * width,
         .call = [this, caches, tables, query_lengths, kv_lengths, q, scale] {
           context_.block_tables = tables;
           context_.query_lengths = ops::HostList(query_lengths);
           context_.kv_lengths = ops::HostList(kv_lengths);
           const Caches& set = caches->next();
           ops::paged_attention(context_, q, set.k, set.v, scale, set.scales);
         }});
  }
}

void KernelCases::row_kernels(const Use& use) {
  for (const int32_t rows : options_.rows) {
    norms(rows, use);
    heads(rows, use);
    activations(rows, use);
  }
}

void KernelCases::row_kernel(const std::string& name, int64_t columns, int32_t rows, std::function<void()> call,
                             const Use& use) {
  if (!wanted_(name)) return;
  use({.kernel = name, .what = fmt::format("{}", columns), .rows = rows, .call = std::move(call)});
}

void KernelCases::norms(int32_t rows, const Use& use) {
  const int64_t hidden = config_.hidden_size;
  const auto add = [&](const std::string& name, std::function<void()> call) {
    row_kernel(name, hidden, rows, std::move(call), use);
  };
  const Tensor norm = filled(DType::kF32, {hidden});
  const Tensor x = filled(DType::kBF16, {rows, hidden});
  const Tensor residual = filled(DType::kBF16, {rows, hidden});
  const Tensor one_scale = filled(DType::kF32, {1});
  add("rms_norm", [=, this] { ops::rms_norm(context_, x, norm, kEpsilon); });
  add("add_rms_norm", [=, this] { ops::add_rms_norm(context_, x, residual, norm, kEpsilon); });
  add("add_rms_norm_quantize",
      [=, this] { ops::add_rms_norm_quantize(context_, x, residual, norm, one_scale, {}, kEpsilon); });
  add("add_rms_norm_dynamic_quantize",
      [=, this] { ops::add_rms_norm_dynamic_quantize(context_, x, residual, norm, {}, kEpsilon); });
  const Tensor ids = integers(std::vector<int32_t>(static_cast<size_t>(rows), 0));
  const Tensor embeddings = filled(DType::kBF16, {1, hidden});
  add("embedding_rms_norm",
      [=, this] { ops::embedding_rms_norm(context_, ids, embeddings, norm, DType::kBF16, kEpsilon); });
  add("quantize", [=, this] { ops::quantize(context_, x, one_scale, {}); });
  add("dynamic_quantize", [=, this] { ops::dynamic_quantize(context_, x); });
}

void KernelCases::heads(int32_t rows, const Use& use) {
  const int64_t heads = config_.num_attention_heads;
  const int64_t kv_heads = config_.num_key_value_heads;
  const int64_t head_dim = config_.head_dim;
  const int64_t columns = config_.query_size() + 2 * config_.key_value_size();
  const ops::QkNorm qk_norm{
      .q_weight = filled(DType::kF32, {head_dim}), .k_weight = filled(DType::kF32, {head_dim}), .epsilon = kEpsilon};
  const Tensor rope = filled(DType::kF32, {options_.context, head_dim});
  const Tensor qkv = filled(DType::kBF16, {rows, columns});
  const Tensor positions = integers(std::vector<int32_t>(static_cast<size_t>(rows), 0));
  const auto split = [=, this] {
    context_.positions = positions;
    ops::split_qkv_rms_norm_rope(context_, qkv, qk_norm, rope, heads, kv_heads);
  };
  row_kernel("split_qkv_rms_norm_rope", columns, rows, split, use);
  std::vector<int32_t> places(static_cast<size_t>(rows));
  std::iota(places.begin(), places.end(), 0);
  const Tensor slots = integers(places);
  const Shape cache_shape{(rows + kPageSize - 1) / kPageSize, kPageSize, kv_heads, head_dim};
  const Tensor k_cache = filled(DType::kBF16, cache_shape);
  const Tensor v_cache = filled(DType::kBF16, cache_shape);
  const auto store = [=, this] {
    context_.positions = positions;
    context_.slots = slots;
    ops::split_qkv_rms_norm_rope_store(context_, qkv, qk_norm, rope, heads, kv_heads, k_cache, v_cache);
  };
  row_kernel("split_qkv_rms_norm_rope_store", columns, rows, store, use);
}

void KernelCases::activations(int32_t rows, const Use& use) {
  const int64_t width = config_.intermediate_size;
  const auto add = [&](const std::string& name, std::function<void()> call) {
    row_kernel(name, width, rows, std::move(call), use);
  };
  const Tensor one_scale = filled(DType::kF32, {1});
  const Tensor gate_up = filled(DType::kBF16, {rows, 2 * width});
  const Tensor gate = ops::slice(context_, gate_up, 1, 0, width);
  const Tensor up = ops::slice(context_, gate_up, 1, width, 2 * width);
  add("swiglu", [=, this] { ops::swiglu(context_, gate_up); });
  add("swiglu_quantize", [=, this] { ops::swiglu_quantize(context_, gate, up, one_scale, {}); });
  add("swiglu_dynamic_quantize", [=, this] { ops::swiglu_dynamic_quantize(context_, gate, up); });
}

}  // namespace reprise::cli
