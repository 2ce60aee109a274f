#include "emulator/operators/attention_kernel.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "emulator/operators/kernel_call.h"
#include "emulator/operators/lanes.h"
#include "emulator/operators/rows.h"

namespace reprise::emulator {
namespace {

AttentionSequence sequence_at(std::span<const int64_t> tail, int64_t i) {
  std::array<int64_t, kSequenceValues> values{};
  std::copy_n(tail.begin() + i * static_cast<int64_t>(kSequenceValues), kSequenceValues, values.begin());
  return std::bit_cast<AttentionSequence>(values);
}

/// The keys or values of one sequence and head in float32, one row a token; int8 ones with the scale of each token.
class TokenRows {
 public:
  TokenRows(const KernelCall<AttentionParameters>& call, const HostTensor& tokens, const HostTensor& scales,
            Antiquant antiquant)
      : call_(call), tokens_(tokens), scales_(scales), antiquant_(antiquant) {}

  /// False when a page lies outside of the cache.
  bool load(const AttentionSequence& sequence, int64_t head) {
    const AttentionParameters& p = call_.parameters();
    rows_.resize(static_cast<size_t>(sequence.keys * p.columns));
    scale_.assign(static_cast<size_t>(sequence.keys), 1.0F);
    for (int64_t token = 0; token < sequence.keys; ++token) {
      int64_t at = sequence.key + token * p.key.token;
      int64_t page = 0;
      if (p.page > 0) {
        page = call_[kBlockTable].data<int32_t>()[sequence.key + token / p.page];
        if (page < 0 || page >= p.pages) return false;
        at = page * p.page_stride + token % p.page * p.key.token;
      }
      float* row = rows_.data() + token * p.columns;
      read_row(tokens_, at + head * p.key.head, p.columns, row);
      dequantize(row, token, page, head);
    }
    return true;
  }

  const float* row(int64_t token) const { return rows_.data() + token * call_.parameters().columns; }
  float scale(int64_t token) const { return scale_[static_cast<size_t>(token)]; }

 private:
  float scale_at(int64_t element) const {
    float value = 0;
    to_floats(scales_.at(element), scales_->dtype, 1, &value);
    return value;
  }

  void dequantize(float* row, int64_t token, int64_t page, int64_t head) {
    const AttentionParameters& p = call_.parameters();
    const auto& strides = scales_->strides;
    if (antiquant_ == Antiquant::kChannel) {
      const bool all = scales_->elements() == 1;
      for (int64_t i = 0; i < p.columns; ++i) row[i] *= scale_at(all ? 0 : head * p.columns + i);
    } else if (antiquant_ == Antiquant::kPagedToken) {
      scale_[static_cast<size_t>(token)] = scale_at(page * strides[0] + token % p.page * strides[1]);
    } else if (antiquant_ == Antiquant::kPagedTokenHead) {
      scale_[static_cast<size_t>(token)] =
          scale_at(page * strides[0] + head * strides[1] + token % p.page * strides[2]);
    }
  }

  const KernelCall<AttentionParameters>& call_;
  const HostTensor& tokens_;
  const HostTensor& scales_;
  Antiquant antiquant_;
  std::vector<float> rows_;
  std::vector<float> scale_;
};

class Attention {
 public:
  explicit Attention(const KernelCall<AttentionParameters>& call)
      : call_(call),
        p_(call.parameters()),
        keys_(call, call[kKey], call[kKeyScale], p_.key_antiquant),
        values_(call, call[kValue], call[kValueScale], p_.value_antiquant),
        query_(static_cast<size_t>(p_.columns)),
        result_(static_cast<size_t>(p_.columns)) {}

  bool run(const AttentionSequence& sequence) {
    const int64_t group = p_.heads / p_.kv_heads;
    for (int64_t kv_head = 0; kv_head < p_.kv_heads; ++kv_head) {
      if (!keys_.load(sequence, kv_head) || !values_.load(sequence, kv_head)) return false;
      for (int64_t row = 0; row < sequence.rows + sequence.padding_rows; ++row) {
        for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
          if (row < sequence.rows) {
            attend(sequence, row, head);
          } else {
            write(sequence, row, head, std::numeric_limits<float>::infinity(), 0.0F);
          }
        }
      }
    }
    return true;
  }

 private:
  /// One row and head: scores, softmax, weighted sum. The order of the sums is that of the keys.
  void attend(const AttentionSequence& sequence, int64_t row, int64_t head) {
    const int64_t first = p_.band.right_aligned != 0 ? sequence.keys - sequence.rows : 0;
    const int64_t low = std::max<int64_t>(0, first + row - p_.band.before);
    const int64_t high = std::min(sequence.keys, first + row + p_.band.after + 1);
    read_row(call_[kQuery], sequence.query + row * p_.query.token + head * p_.query.head, p_.columns, query_.data());
    auto* scores = call_[kScores].data<float>();
    float largest = -std::numeric_limits<float>::infinity();
    for (int64_t key = low; key < high; ++key) {
      scores[key] = masked(sequence, row, key) ? -std::numeric_limits<float>::infinity()
                                               : dot(query_.data(), keys_.row(key), p_.columns) *
                                                     (keys_.scale(key) * static_cast<float>(p_.scale));
      largest = std::max(largest, scores[key]);
    }
    if (largest == -std::numeric_limits<float>::infinity()) {
      write(sequence, row, head, std::numeric_limits<float>::infinity(), 0.0F);
      return;
    }
    std::fill(result_.begin(), result_.end(), 0.0F);
    float total = 0;
    for (int64_t key = low; key < high; ++key) {
      const float weight = std::exp(scores[key] - largest);
      total += weight;
      add_scaled(weight * values_.scale(key), values_.row(key), p_.columns, result_.data());
    }
    write(sequence, row, head, largest + std::log(total), 1.0F / total);
  }

  bool masked(const AttentionSequence& sequence, int64_t row, int64_t key) const {
    const HostTensor& mask = call_[kMask];
    return mask.defined() && *mask.at(sequence.mask + row * mask->columns() + key) != std::byte{0};
  }

  /// The result times `factor`; a factor of 0 makes zeros of whatever it is.
  void write(const AttentionSequence& sequence, int64_t row, int64_t head, float log_sum_exp, float factor) {
    for (float& value : result_) value = factor == 0.0F ? 0.0F : value * factor;
    write_row(call_[kAttentionOut], sequence.out + row * p_.out.token + head * p_.out.head, p_.columns, result_.data());
    if (!call_[kLogSumExp].defined()) return;
    const int64_t at = sequence.log_sum_exp + row * p_.log_sum_exp.token + head * p_.log_sum_exp.head;
    call_[kLogSumExp].data<float>()[at] = log_sum_exp;
  }

  const KernelCall<AttentionParameters>& call_;
  const AttentionParameters& p_;
  TokenRows keys_;
  TokenRows values_;
  std::vector<float> query_;
  std::vector<float> result_;
};

bool run_attention(const KernelCall<AttentionParameters>& call) {
  Attention attention(call);
  for (int64_t i = 0; i < call.parameters().sequences; ++i) {
    if (!attention.run(sequence_at(call.tail(), i))) return false;
  }
  return true;
}

/// The keys and values that the lengths name, once; scores of all rows with them (what a mask hides is counted).
KernelCost attention_cost(const ArgumentReader& arguments) {
  const auto& p = *static_cast<const AttentionParameters*>(arguments.parameters());
  const auto tensors = arguments.tensors();
  KernelCost cost;
  cost.bytes_read = tensors[kQuery].bytes();
  cost.bytes_written = tensors[kAttentionOut].bytes();
  const uint64_t token_bytes =
      static_cast<uint64_t>(p.kv_heads * p.columns) * (size_of(tensors[kKey].dtype) + size_of(tensors[kValue].dtype));
  for (int64_t i = 0; i < p.sequences; ++i) {
    const AttentionSequence sequence = sequence_at(arguments.tail(), i);
    cost.bytes_read += static_cast<uint64_t>(sequence.keys) * token_bytes;
    cost.multiply_adds += static_cast<uint64_t>(2 * sequence.rows * sequence.keys * p.heads * p.columns);
  }
  return cost;
}

constexpr Kernel kAttention =
    make_kernel<AttentionParameters, run_attention, attention_cost>("FusedInferAttentionScore", KernelType::kMix);

}  // namespace

const Kernel& attention_kernel() { return kAttention; }

}  // namespace reprise::emulator
