#include "kernels/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "base/error.h"
#include "kernels/cpu/kernel_testing.h"

namespace reprise::kernels::cpu {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Heads {
  int64_t query, kv, dim;
};

struct Types {
  Element query, cache;
  bool scaled() const { return cache == Element::kI8; }
};
constexpr Types kTypes[] = {{Element::kF32, Element::kF32},
                            {Element::kBf16, Element::kBf16},
                            {Element::kF32, Element::kI8},
                            {Element::kBf16, Element::kI8}};

/// One sequence: its whole history, of which the last `queries` rows are asked now.
struct Sequence {
  int32_t queries;
  int32_t keys;
  uint32_t seed;
};

/// What a cache of this type can hold, and a scale for each row of it (1 where there is none).
std::vector<float> cache_values(int64_t count, const Types& t, uint32_t seed) {
  std::vector<float> values = random_values(count, t.cache, seed);
  if (!t.scaled()) return values;
  for (float& value : values) value = std::nearbyint(std::clamp(value * 40, -128.0f, 127.0f));
  return values;
}
std::vector<float> cache_scales(int64_t count, const Types& t, uint32_t seed) {
  if (!t.scaled()) return std::vector<float>(static_cast<size_t>(count), 1.0f);
  std::vector<float> scales = random_values(count, Element::kF32, seed);
  for (float& scale : scales) scale = 0.01f + 0.01f * std::abs(scale);
  return scales;
}

/// Values of a whole sequence by position, so that every cut of it asks the same questions.
struct History {
  std::vector<float> query, key, value, key_scale, value_scale;
  History(const Sequence& s, const Heads& h, const Types& t)
      : query(random_values(s.keys * h.query * h.dim, t.query, s.seed)),
        key(cache_values(s.keys * h.kv * h.dim, t, s.seed + 1000)),
        value(cache_values(s.keys * h.kv * h.dim, t, s.seed + 2000)),
        key_scale(cache_scales(s.keys * h.kv, t, s.seed + 3000)),
        value_scale(cache_scales(s.keys * h.kv, t, s.seed + 4000)) {}
};

std::vector<double> reference(const History& history, const Heads& h, int64_t position, int64_t head, float scale) {
  const int64_t kv_head = head / (h.query / h.kv);
  std::vector<double> scores;
  for (int64_t key = 0; key <= position; ++key) {
    double dot = 0;
    for (int64_t d = 0; d < h.dim; ++d) {
      dot += double(history.query[size_t((position * h.query + head) * h.dim + d)]) *
             history.key[size_t((key * h.kv + kv_head) * h.dim + d)];
    }
    scores.push_back(dot * (double(history.key_scale[size_t(key * h.kv + kv_head)]) * scale));
  }
  const double maximum = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  std::vector<double> result(size_t(h.dim), 0.0);
  for (int64_t key = 0; key <= position; ++key) {
    const double weight = std::exp(scores[size_t(key)] - maximum);
    sum += weight;
    const double scaled = weight * history.value_scale[size_t(key * h.kv + kv_head)];
    for (int64_t d = 0; d < h.dim; ++d) {
      result[size_t(d)] += scaled * history.value[size_t((key * h.kv + kv_head) * h.dim + d)];
    }
  }
  for (double& value : result) value /= sum;
  return result;
}

/// A batch in pages at scattered places; everything that no sequence owns holds NaN.
class Batch {
 public:
  Batch(std::vector<Sequence> sequences, Heads heads, Types types, int64_t page_size, int64_t padding_rows = 0)
      : sequences_(std::move(sequences)),
        heads_(heads),
        types_(types),
        page_size_(page_size),
        scale_(1.0f / std::sqrt(static_cast<float>(heads.dim))),
        key_cache_(types.cache, 0),
        value_cache_(types.cache, 0),
        query_(types.query, 0),
        y_(types.query, 0),
        workspace_(Element::kF32, 0) {
    fill_caches();
    fill_queries(padding_rows);
  }

  void run(InstructionSet set) {
    std::vector<int32_t> query_lengths;
    std::vector<int32_t> kv_lengths;
    for (const Sequence& s : sequences_) {
      query_lengths.push_back(s.queries);
      kv_lengths.push_back(s.keys);
    }
    const size_t offset = (sizeof(AttentionArguments) + 7) / 8 * 8;
    const auto tail_size = size_t(attention_tail_size(int64_t(sequences_.size())));
    std::vector<int64_t> block(offset / 8 + (tail_size * 4 + 7) / 8);
    auto* tail = reinterpret_cast<int32_t*>(block.data() + offset / 8);
    const AttentionPlan plan = plan_attention(query_lengths, kv_lengths, tokens_, heads_.query, heads_.kv, heads_.dim,
                                              std::span(tail, tail_size));
    const int32_t longest = kv_lengths.empty() ? 0 : *std::max_element(kv_lengths.begin(), kv_lengths.end());
    ASSERT_LE(plan.workspace_bytes,
              max_attention_workspace_bytes(tokens_, int64_t(sequences_.size()), heads_.query, heads_.dim, longest));
    workspace_ = Buffer(Element::kF32, plan.workspace_bytes / 4);
    AttentionArguments arguments{query_.data(),
                                 types_.query,
                                 key_cache_.data(),
                                 value_cache_.data(),
                                 types_.scaled() ? key_scales_.data() : nullptr,
                                 types_.scaled() ? value_scales_.data() : nullptr,
                                 table_.data(),
                                 y_.data(),
                                 static_cast<float*>(workspace_.data()),
                                 tokens_,
                                 heads_.query,
                                 heads_.kv,
                                 heads_.dim,
                                 pages_,
                                 page_size_,
                                 table_stride_,
                                 query_stride(),
                                 y_stride(),
                                 scale_};
    std::memcpy(block.data(), &arguments, sizeof(arguments));
    const AttentionKernels& kernels = attention_kernels(set);
    run_in_all_cuts(types_.scaled() ? kernels.partial_int8 : kernels.partial[int(types_.query)], block.data(),
                    plan.partial_tiles, {&workspace_});
    run_in_all_cuts(kernels.merge[int(types_.query)], block.data(), plan.merge_tiles, {&y_});
  }

  /// Output of one query row of a sequence (0 is its first row now).
  std::vector<float> row(size_t sequence, int64_t row) const {
    std::vector<float> result;
    for (int64_t i = 0; i < heads_.query * heads_.dim; ++i) {
      result.push_back(y_.get((starts_[sequence] + row) * y_stride() + i));
    }
    return result;
  }
  std::vector<float> padding_row(int64_t row) const {
    std::vector<float> result;
    for (int64_t i = 0; i < heads_.query * heads_.dim; ++i) {
      result.push_back(y_.get((starts_.back() + row) * y_stride() + i));
    }
    return result;
  }

  void expect_reference() const {
    for (size_t s = 0; s < sequences_.size(); ++s) {
      if (sequences_[s].keys == 0) continue;
      const History history(sequences_[s], heads_, types_);
      for (int32_t r = 0; r < sequences_[s].queries; ++r) {
        const std::vector<float> actual = row(s, r);
        for (int64_t head = 0; head < heads_.query; ++head) {
          const int64_t position = sequences_[s].keys - sequences_[s].queries + r;
          const std::vector<double> expected = reference(history, heads_, position, head, scale_);
          for (int64_t d = 0; d < heads_.dim; ++d) {
            expect_close(actual[size_t(head * heads_.dim + d)], expected[size_t(d)], 2e-6, rounding_of(types_.query),
                         "sequence " + std::to_string(s) + " row " + std::to_string(r));
          }
        }
      }
    }
  }

  std::vector<int32_t>& table() { return table_; }
  Buffer& query() { return query_; }
  int64_t query_stride() const { return heads_.query * heads_.dim + 8; }

 private:
  int64_t y_stride() const { return heads_.query * heads_.dim + 4; }

  void fill_caches() {
    int64_t used = 0;
    for (const Sequence& s : sequences_) {
      const int64_t pages = (s.keys + page_size_ - 1) / page_size_;
      table_stride_ = std::max(table_stride_, pages + 1);
      used += pages;
    }
    pages_ = used + 3;
    std::vector<int32_t> order(static_cast<size_t>(pages_));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(11));
    const int64_t row = heads_.kv * heads_.dim;
    key_cache_ = Buffer::from(types_.cache,
                              std::vector<float>(size_t(pages_ * page_size_ * row), types_.scaled() ? -1.0f : kNaN));
    value_cache_ = key_cache_;
    key_scales_.assign(size_t(pages_ * page_size_ * heads_.kv), kNaN);
    value_scales_ = key_scales_;
    table_.assign(sequences_.size() * size_t(table_stride_), 0x7FFFFFFF);
    size_t next = 0;
    for (size_t s = 0; s < sequences_.size(); ++s) {
      const History history(sequences_[s], heads_, types_);
      for (int64_t position = 0; position < sequences_[s].keys; ++position) {
        int32_t& page = table_[s * size_t(table_stride_) + size_t(position / page_size_)];
        if (position % page_size_ == 0) page = order[next++];
        const int64_t slot = page * page_size_ + position % page_size_;
        for (int64_t i = 0; i < row; ++i) {
          key_cache_.set(slot * row + i, history.key[size_t(position * row + i)]);
          value_cache_.set(slot * row + i, history.value[size_t(position * row + i)]);
        }
        for (int64_t head = 0; head < heads_.kv; ++head) {
          key_scales_[size_t(slot * heads_.kv + head)] = history.key_scale[size_t(position * heads_.kv + head)];
          value_scales_[size_t(slot * heads_.kv + head)] = history.value_scale[size_t(position * heads_.kv + head)];
        }
      }
    }
  }

  void fill_queries(int64_t padding_rows) {
    tokens_ = padding_rows;
    for (const Sequence& s : sequences_) {
      starts_.push_back(tokens_ - padding_rows);
      tokens_ += s.queries;
    }
    starts_.push_back(tokens_ - padding_rows);
    query_ = Buffer::from(types_.query, std::vector<float>(size_t(tokens_ * query_stride()), kNaN));
    y_ = Buffer(types_.query, tokens_ * y_stride());
    const int64_t row = heads_.query * heads_.dim;
    for (size_t s = 0; s < sequences_.size(); ++s) {
      if (sequences_[s].keys == 0) continue;
      const History history(sequences_[s], heads_, types_);
      for (int32_t r = 0; r < sequences_[s].queries; ++r) {
        const int64_t position = sequences_[s].keys - sequences_[s].queries + r;
        for (int64_t i = 0; i < row; ++i) {
          query_.set((starts_[s] + r) * query_stride() + i, history.query[size_t(position * row + i)]);
        }
      }
    }
  }

  std::vector<Sequence> sequences_;
  Heads heads_;
  Types types_;
  int64_t page_size_;
  float scale_;
  int64_t pages_ = 0;
  int64_t table_stride_ = 0;
  int64_t tokens_ = 0;
  std::vector<int64_t> starts_;
  std::vector<int32_t> table_;
  std::vector<float> key_scales_, value_scales_;
  Buffer key_cache_, value_cache_, query_, y_, workspace_;
};

class AttentionTest : public KernelTest {};
REPRISE_KERNEL_TESTS(AttentionTest);

TEST_P(AttentionTest, MatchesDoubleArithmetic) {
  for (const Heads& heads :
       {Heads{4, 2, 64}, {6, 2, 32}, {2, 2, 128}, {5, 1, 18}, {3, 1, 2}, {4, 1, 144}, {2, 1, 31}}) {
    for (const Types& types : kTypes) {
      SCOPED_TRACE(testing::Message() << heads.query << "/" << heads.kv << "x" << heads.dim << " q" << int(types.query)
                                      << " cache" << int(types.cache));
      Batch batch({{1, 1, 1}, {3, 17, 2}, {1, 256, 3}, {9, 9, 4}, {1, 300, 5}, {33, 290, 6}, {8, 260, 7}}, heads, types,
                  16);
      batch.run(GetParam());
      batch.expect_reference();
    }
  }
}

TEST_P(AttentionTest, GivesTheSameBitsHoweverASequenceIsCutPagedAndBatched) {
  const Heads heads{4, 2, 20};
  for (const Types& types : std::span(kTypes).first(3)) {
    const int32_t length = 530;
    Batch whole({{length, length, 21}}, heads, types, 16);
    whole.run(GetParam());
    for (int64_t page_size : {1, 7, 16, 1024}) {
      for (int32_t keys : {1, 17, 255, 256, 257, 512, 530}) {
        for (int32_t queries : {1, 8, 9, 40}) {
          if (queries > keys) continue;
          // The same seed draws the same values by position: a shorter history is the beginning of a longer one.
          Batch part({{2, 40, 77}, {queries, keys, 21}, {1, 270, 78}}, heads, types, page_size, 2);
          part.run(GetParam());
          for (int32_t r = 0; r < queries; ++r) {
            EXPECT_EQ(part.row(1, r), whole.row(0, keys - queries + r))
                << "page size " << page_size << ", " << keys << " keys, " << queries << " queries, row " << r;
          }
        }
      }
    }
  }
}

TEST_P(AttentionTest, GivesTheSameBitsInDecodeAndPrefillForEveryNumberOfHeadsOnAKvHead) {
  const int32_t length = 273;
  for (const Heads& heads : {Heads{3, 3, 128}, {20, 10, 64}, {6, 2, 144}, {8, 2, 128}, {10, 2, 32}, {2, 1, 35}}) {
    for (const Types& types : std::span(kTypes).last(3)) {
      Batch whole({{length, length, 31}}, heads, types, 16);
      whole.run(GetParam());
      for (int32_t keys : {5, 256, 273}) {
        Batch decode({{1, keys, 31}}, heads, types, 16);
        decode.run(GetParam());
        EXPECT_EQ(decode.row(0, 0), whole.row(0, keys - 1))
            << heads.query << "/" << heads.kv << ", " << keys << " keys, cache " << int(types.cache);
      }
    }
  }
}

TEST_P(AttentionTest, ZeroesPaddingAndReadsNothingForIt) {
  const Heads heads{4, 2, 32};
  Batch batch({{1, 0, 1}, {1, 20, 2}, {0, 0, 3}, {2, 0, 4}, {0, 30, 5}, {12, 12, 6}, {20, 0, 7}}, heads,
              {Element::kBf16, Element::kBf16}, 16, 3);
  batch.run(GetParam());
  batch.expect_reference();
  const std::vector<float> zeros(size_t(heads.query * heads.dim), 0.0f);
  EXPECT_EQ(batch.row(0, 0), zeros);
  EXPECT_EQ(batch.row(3, 1), zeros);
  EXPECT_EQ(batch.row(6, 19), zeros);
  for (int64_t row = 0; row < 3; ++row) EXPECT_EQ(batch.padding_row(row), zeros);
}

TEST_P(AttentionTest, KeepsNaNOfOneRowOutOfTheOthers) {
  const Heads heads{4, 2, 32};
  Batch batch({{4, 300, 1}, {20, 20, 2}}, heads, {Element::kF32, Element::kF32}, 16);
  Batch clean = batch;
  clean.run(GetParam());
  for (int64_t row : {1, 10}) {
    for (int64_t i = 0; i < heads.query * heads.dim; ++i) batch.query().set(row * batch.query_stride() + i, kNaN);
  }
  batch.run(GetParam());
  for (int64_t row = 0; row < 24; ++row) {
    const size_t sequence = row < 4 ? 0 : 1;
    const int64_t own = row < 4 ? row : row - 4;
    if (row == 1 || row == 10) {
      for (float value : batch.row(sequence, own)) EXPECT_TRUE(std::isnan(value));
    } else {
      EXPECT_EQ(batch.row(sequence, own), clean.row(sequence, own)) << "row " << row;
    }
  }
}

TEST_P(AttentionTest, TurnsAPageOutsideOfTheCacheIntoNaN) {
  for (int32_t page : {-1, 0x7FFFFFFF}) {
    Batch batch({{1, 40, 1}, {20, 40, 2}}, {2, 1, 32}, {Element::kBf16, Element::kBf16}, 16);
    batch.table()[1] = page;
    batch.run(GetParam());
    for (float value : batch.row(0, 0)) EXPECT_TRUE(std::isnan(value));
    for (float value : batch.row(1, 19)) EXPECT_FALSE(std::isnan(value));
  }
}

TEST(AttentionPlan, CountsTilesByBlocksForFewRowsAndByGroupsForMany) {
  std::vector<int32_t> tail(size_t(attention_tail_size(2)));
  const std::vector<int32_t> queries = {1, 40};
  const std::vector<int32_t> keys = {513, 40};
  const AttentionPlan plan = plan_attention(queries, keys, 64, 8, 4, 64, tail);
  EXPECT_EQ(plan.partial_tiles, 3 * 4 + 3 * 4);
  EXPECT_EQ(plan.merge_tiles, 64 * 8);
  const std::vector<int32_t> too_few = {513, 39};
  EXPECT_THROW(plan_attention(queries, too_few, 64, 8, 4, 64, tail), Error);
  EXPECT_THROW(plan_attention(queries, keys, 40, 8, 4, 64, tail), Error);
}

}  // namespace
}  // namespace reprise::kernels::cpu
