#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <span>
#include <vector>

#include "base/random.h"
#include "engine/kv_pool.h"
#include "replay/graph_runner.h"
#include "replay/step_batch.h"

namespace reprise::engine {

/// A model whose KV cache holds the tokens themselves: what it predicts depends on every token of the sequence, read
/// back through block tables, and on a sum of them kept once per sequence (unless the layout has none). So a wrong
/// slot, page, length or position changes the output.
class FakeModel {
 public:
  using Next = std::function<int32_t(std::span<const int32_t> tokens)>;

  static model::KvLayout layout(bool sequence_state = true) {
    using Granularity = model::KvBuffer::Granularity;
    model::KvLayout result{{{"tokens", Granularity::kToken, DType::kI32, {1}}}};
    if (sequence_state) result.buffers.push_back({"sum", Granularity::kSequence, DType::kI32, {1}});
    return result;
  }
  static int32_t hashed_next(std::span<const int32_t> tokens, int32_t vocabulary) {
    uint64_t hash = 1;
    for (const int32_t token : tokens) hash = mix_bits(hash + static_cast<uint64_t>(token) * 77);
    return static_cast<int32_t>(hash % static_cast<uint64_t>(vocabulary));
  }

  FakeModel(KvPool& pool, int32_t vocabulary)
      : next([vocabulary](std::span<const int32_t> tokens) { return hashed_next(tokens, vocabulary); }),
        pool_(pool),
        vocabulary_(vocabulary) {
    logits_.reserve(static_cast<size_t>(vocabulary) * 1024);
    tokens_.reserve(4096);
  }

  replay::LogitsView run(const replay::StepBatch& batch) {
    ++steps;
    last_tokens = batch.tokens();
    last_sequences = batch.sequences();
    if (before_step) before_step(batch);
    check(batch);
    logits_.clear();
    int32_t token = 0;
    for (int32_t row = 0; row < batch.sequences(); ++row) {
      const int32_t count = batch.query_lengths[static_cast<size_t>(row)];
      for (int32_t i = 0; i < count; ++i, ++token) write(batch, row, token);
      const int32_t length = batch.kv_lengths[static_cast<size_t>(row)];
      read(batch, row, length);
      for (int32_t i = batch.all_logits ? 1 : count; i <= count; ++i) {
        append_logits(std::span(tokens_).first(static_cast<size_t>(length - count + i)));
      }
    }
    const auto rows = static_cast<int32_t>(logits_.size()) / vocabulary_;
    return {logits_.data(), rows, vocabulary_};
  }

  Next next;
  std::function<void(const replay::StepBatch&)> before_step;
  std::function<void(std::span<float>, std::span<const int32_t>)> change_logits;
  int64_t steps = 0;
  int32_t last_tokens = 0;
  int32_t last_sequences = 0;

 private:
  void check(const replay::StepBatch& batch) {
    ASSERT_EQ(batch.positions.size(), batch.token_ids.size());
    ASSERT_EQ(batch.slots.size(), batch.token_ids.size());
    ASSERT_EQ(batch.kv_lengths.size(), batch.query_lengths.size());
    ASSERT_EQ(batch.sequence_slots.size(), pool_.has_sequence_state() ? batch.query_lengths.size() : 0);
    ASSERT_EQ(batch.block_tables.size(), batch.query_lengths.size() * static_cast<size_t>(batch.max_pages));
  }
  void write(const replay::StepBatch& batch, int32_t row, int32_t token) {
    const int32_t slot = batch.slots[static_cast<size_t>(token)];
    ASSERT_GE(slot, pool_.scratch_pages() * pool_.page_size());
    ASSERT_LT(slot, pool_.pages() * pool_.page_size());
    pool_.tensors()[0].data_as<int32_t>()[slot] = batch.token_ids[static_cast<size_t>(token)];
    if (!pool_.has_sequence_state()) return;
    const int32_t state = batch.sequence_slots[static_cast<size_t>(row)];
    ASSERT_GE(state, pool_.options().scratch_slots);
    pool_.tensors()[1].data_as<int32_t>()[state] += batch.token_ids[static_cast<size_t>(token)];
  }
  void read(const replay::StepBatch& batch, int32_t row, int32_t length) {
    tokens_.clear();
    int32_t sum = 0;
    for (int32_t at = 0; at < length; ++at) {
      const int32_t page = batch.block_tables[static_cast<size_t>(row * batch.max_pages + at / pool_.page_size())];
      ASSERT_LT(page, pool_.pages());
      tokens_.push_back(pool_.tensors()[0].data_as<int32_t>()[page * pool_.page_size() + at % pool_.page_size()]);
      sum += tokens_.back();
    }
    if (!pool_.has_sequence_state()) return;
    const int32_t state = batch.sequence_slots[static_cast<size_t>(row)];
    ASSERT_EQ(pool_.tensors()[1].data_as<int32_t>()[state], sum);
  }
  void append_logits(std::span<const int32_t> tokens) {
    const size_t begin = logits_.size();
    logits_.resize(begin + static_cast<size_t>(vocabulary_), 0.0f);
    const std::span<float> row(logits_.data() + begin, static_cast<size_t>(vocabulary_));
    for (size_t token = 0; token < row.size(); ++token) row[token] = static_cast<float>(token % 7) * 0.25f;
    row[static_cast<size_t>(next(tokens))] = 3;
    if (change_logits) change_logits(row, tokens);
  }

  KvPool& pool_;
  int32_t vocabulary_;
  std::vector<float> logits_;
  std::vector<int32_t> tokens_;
};

}  // namespace reprise::engine
