// Fused attention with paged and plain caches, and in captured graphs whose lengths change; causal convolutions.
#include <array>

#include "emulator/tests/operator_support.h"

namespace reprise::emulator {
namespace {

constexpr int64_t kAny = 2147483647;

/// Rows of queries with keys and values, in double.
struct Case {
  int64_t heads = 4;
  int64_t kv_heads = 2;
  int64_t columns = 8;
  double scale = 0.3;

  /// Row `row` of q [.., heads * columns] with the keys [first, last) of k and v [.., kv_heads * columns].
  Numbers attend(const Numbers& q, int64_t row, const Numbers& k, const Numbers& v, int64_t first, int64_t last) const {
    Numbers out(static_cast<size_t>(heads * columns));
    for (int64_t head = 0; head < heads; ++head) {
      const int64_t kv = head / (heads / kv_heads) * columns;
      Numbers weights;
      double total = 0;
      for (int64_t key = first; key < last; ++key) {
        double score = 0;
        for (int64_t i = 0; i < columns; ++i) {
          score += q[static_cast<size_t>((row * heads + head) * columns + i)] *
                   k[static_cast<size_t>(key * kv_heads * columns + kv + i)];
        }
        weights.push_back(std::exp(score * scale));
        total += weights.back();
      }
      for (int64_t key = first; key < last; ++key) {
        for (int64_t i = 0; i < columns; ++i) {
          out[static_cast<size_t>(head * columns + i)] += weights[static_cast<size_t>(key - first)] / total *
                                                          v[static_cast<size_t>(key * kv_heads * columns + kv + i)];
        }
      }
    }
    return out;
  }
};

class Attention : public OperatorTest {
 protected:
  static constexpr int64_t kPages = 7, kPage = 16;

  void SetUp() override {
    OperatorTest::SetUp();
    mask_ = tensor({2048, 2048}, ACL_INT8);
  }
  void TearDown() override {
    for (const aclTensorList* list : lists_) aclDestroyTensorList(list);
    for (const aclIntArray* array : arrays_) aclDestroyIntArray(array);
    OperatorTest::TearDown();
  }

  aclTensorList* list(const DeviceTensor& of) {
    const aclTensor* own = aclCreateTensor(of.dims.data(), of.dims.size(), of.dtype, nullptr, 0, ACL_FORMAT_ND,
                                           of.dims.data(), of.dims.size(), of.memory);
    lists_.push_back(aclCreateTensorList(&own, 1));
    return lists_.back();
  }
  aclIntArray* array(const std::vector<int64_t>& values) {
    arrays_.push_back(aclCreateIntArray(values.data(), values.size()));
    return arrays_.back();
  }

  /// What differs from call to call.
  struct Options {
    const char* layout = "TND";
    int64_t mode = 3;
    int64_t before = kAny, after = kAny;
    aclTensor* mask = nullptr;
    aclTensor* table = nullptr;
    aclTensor* key_scale = nullptr;
    aclTensor* value_scale = nullptr;
    int64_t antiquant = 0;
    aclTensor* log_sum_exp = nullptr;
  };

  aclnnStatus attend(aclTensor* q, aclTensorList* k, aclTensorList* v, const std::vector<int64_t>& lengths,
                     const std::vector<int64_t>& kv_lengths, aclTensor* out, const Options& o,
                     aclrtStream stream = nullptr) {
    std::string layout = o.layout;
    const aclnnStatus status = enqueue(
        BOTH(aclnnFusedInferAttentionScoreV3), stream == nullptr ? stream_ : stream, q, k, v, nullptr, o.mask,
        array(lengths), array(kv_lengths), nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, o.table,
        nullptr, nullptr, o.key_scale, nullptr, o.value_scale, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
        nullptr, case_.heads, case_.scale, o.before, o.after, layout.data(), case_.kv_heads, o.mode, int64_t{0}, kPage,
        int64_t{0}, o.log_sum_exp != nullptr, o.antiquant, o.antiquant, out, o.log_sum_exp);
    return status != ACLNN_SUCCESS || stream != nullptr ? status : sync(stream_);
  }

  /// Caches [pages, page, kv_heads * columns] whose pages are in the table's order.
  void make_caches(aclDataType dtype = ACL_BF16) {
    const int64_t width = case_.kv_heads * case_.columns;
    k_ = random(kPages * kPage * width, dtype, dtype == ACL_INT8 ? 127 : 2);
    v_ = random(kPages * kPage * width, dtype, dtype == ACL_INT8 ? 127 : 2);
    keys_ = tensor({kPages, kPage, width}, dtype, k_);
    values_ = tensor({kPages, kPage, width}, dtype, v_);
    table_ = tensor({3, 2}, ACL_INT32, {6, 2, 0, 5, 3, 3});
  }

  /// The rows of sequence `s` of a cache, one behind the other.
  Numbers rows_of(const Numbers& cache, size_t s) const {
    const int64_t width = case_.kv_heads * case_.columns * kPage;
    const Numbers pages = {6, 2, 0, 5, 3, 3};
    Numbers rows;
    for (const double page : {pages[2 * s], pages[2 * s + 1]}) {
      const auto begin = cache.begin() + static_cast<int64_t>(page) * width;
      rows.insert(rows.end(), begin, begin + width);
    }
    return rows;
  }

  Numbers expected_paged(const Numbers& q, const std::vector<int64_t>& rows, const std::vector<int64_t>& keys) const {
    Numbers expected;
    int64_t row = 0;
    for (size_t s = 0; s < rows.size(); ++s) {
      for (int64_t i = 0; i < rows[s]; ++i, ++row) {
        const Numbers part =
            case_.attend(q, row, rows_of(k_, s), rows_of(v_, s), 0, keys[s] == 0 ? 0 : keys[s] - rows[s] + i + 1);
        expected.insert(expected.end(), part.begin(), part.end());
      }
    }
    return expected;
  }

  Case case_;
  DeviceTensor mask_, keys_, values_, table_;
  Numbers k_, v_;

 private:
  std::vector<aclTensorList*> lists_;
  std::vector<aclIntArray*> arrays_;
};

using Convolution = Attention;

TEST_F(Attention, ReadsPagesAndIsCausalFromTheRight) {
  make_caches();
  const std::vector<int64_t> rows = {1, 3, 2};
  const std::vector<int64_t> keys = {17, 3, 0};
  const Numbers q = random(6 * 32, ACL_BF16);
  const DeviceTensor query = tensor({6, 4, 8}, ACL_BF16, q);
  const DeviceTensor out = tensor({6, 4, 8}, ACL_BF16);
  Options options{.mask = mask_, .table = table_};
  ASSERT_EQ(attend(query, list(keys_), list(values_), {1, 4, 6}, keys, out, options), ACLNN_SUCCESS);
  expect_near(download(out), expected_paged(q, rows, keys), unit(ACL_BF16), 1e-5);
  EXPECT_GT(workspace_bytes_, 0u);

  // A sequence alone has the same numbers as among others, bit by bit.
  const Numbers all = download(out);
  const DeviceTensor alone = tensor({1, 4, 8}, ACL_BF16);
  options.table = view(table_, {1, 2}, {2, 1});
  ASSERT_EQ(attend(tensor({1, 4, 8}, ACL_BF16, Numbers(q.begin(), q.begin() + 32)), list(keys_), list(values_), {1},
                   {17}, alone, options),
            ACLNN_SUCCESS);
  EXPECT_EQ(download(alone), Numbers(all.begin(), all.begin() + 32));
}

TEST_F(Attention, OfTheFourthVersionIsThatOfTheThird) {
  make_caches();
  const DeviceTensor query = tensor({3, 4, 8}, ACL_BF16, random(3 * 32, ACL_BF16));
  const DeviceTensor out[] = {tensor({3, 4, 8}, ACL_BF16), tensor({3, 4, 8}, ACL_BF16)};
  aclTensorList* const k = list(keys_);
  aclTensorList* const v = list(values_);
  ASSERT_EQ(attend(query, k, v, {1, 2, 3}, {17, 3, 20}, out[0], {.mask = mask_, .table = table_}), ACLNN_SUCCESS);
  char layout[] = "TND";
  const auto attend4 = [&](aclTensor* sink, int64_t query_mode) {
    return call(BOTH(aclnnFusedInferAttentionScoreV4), query.handle, k, v, nullptr, mask_.handle, array({1, 2, 3}),
                array({17, 3, 20}), nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, table_.handle,
                nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                nullptr, nullptr, sink, case_.heads, case_.scale, kAny, kAny, layout, case_.kv_heads, int64_t{3},
                int64_t{0}, kPage, int64_t{0}, false, int64_t{0}, int64_t{0}, query_mode, out[1].handle, nullptr);
  };
  ASSERT_EQ(attend4(nullptr, 0), ACLNN_SUCCESS);
  EXPECT_EQ(download(out[1]), download(out[0]));
  EXPECT_EQ(attend4(query, 0), ACLNN_ERR_PARAM_INVALID) << "a feature that is not here";
  EXPECT_EQ(attend4(nullptr, 3), ACLNN_ERR_PARAM_INVALID);
}

TEST_F(Attention, NoticesPagesOutsideOfTheCache) {
  make_caches();
  const DeviceTensor query = tensor({1, 4, 8}, ACL_BF16, random(32, ACL_BF16));
  const DeviceTensor out = tensor({1, 4, 8}, ACL_BF16);
  const DeviceTensor table = tensor({1, 2}, ACL_INT32, {1, kPages});
  const Options options{.mask = mask_, .table = table};
  // The second page is not read yet.
  EXPECT_EQ(attend(query, list(keys_), list(values_), {1}, {16}, out, options), ACLNN_SUCCESS);
  EXPECT_NE(attend(query, list(keys_), list(values_), {1}, {17}, out, options), ACLNN_SUCCESS);
}

TEST_F(Attention, RefusesListsAndMasksThatDoNotFit) {
  make_caches();
  const DeviceTensor query = tensor({3, 4, 8}, ACL_BF16);
  const DeviceTensor out = tensor({3, 4, 8}, ACL_BF16);
  Options options{.mask = mask_, .table = table_};
  aclTensorList* const k = list(keys_);
  EXPECT_EQ(attend(query, k, k, {1, 2, 4}, {1, 1, 1}, out, options), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(attend(query, k, k, {1, 2, 2}, {1, 1, 1}, out, options), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(attend(query, k, k, {1, 2, 3}, {1, 33, 1}, out, options), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(attend(query, k, k, {1, 3}, {1, 1}, out, options), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(attend(nullptr, k, k, {1, 2, 3}, {1, 1, 1}, out, options), ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(attend(tensor({3, 4, 8}, ACL_FLOAT), k, k, {1, 2, 3}, {1, 1, 1}, out, options), ACLNN_ERR_PARAM_INVALID);
  options.mask = nullptr;
  EXPECT_EQ(attend(query, k, k, {1, 2, 3}, {1, 1, 1}, out, options), ACLNN_ERR_PARAM_INVALID);
}

TEST_F(Attention, DequantisesPagesOfInt8) {
  make_caches(ACL_INT8);
  const Numbers scales = random(2 * kPages * kPage, ACL_FLOAT, 0.02);  // [pages, page, heads], seen the other way
  const DeviceTensor memory = tensor({kPages, kPage, 2}, ACL_FLOAT, scales);
  const DeviceTensor seen = view(memory, {kPages, 2, kPage}, {2 * kPage, 1, 2});
  for (size_t i = 0; i < k_.size(); ++i) {
    k_[i] *= scales[i / 16 * 2 + i % 16 / 8];
    v_[i] *= scales[i / 16 * 2 + i % 16 / 8];
  }
  const Numbers q = random(3 * 32, ACL_BF16);
  const DeviceTensor out = tensor({3, 4, 8}, ACL_BF16);
  const Options options{.mask = mask_, .table = table_, .key_scale = seen, .value_scale = seen, .antiquant = 5};
  ASSERT_EQ(attend(tensor({3, 4, 8}, ACL_BF16, q), list(keys_), list(values_), {1, 2, 3}, {5, 32, 20}, out, options),
            ACLNN_SUCCESS);
  expect_near(download(out), expected_paged(q, {1, 1, 1}, {5, 32, 20}), unit(ACL_BF16), 1e-4);
  // Scales of pages go with one row a sequence only.
  EXPECT_EQ(attend(tensor({4, 4, 8}, ACL_BF16), list(keys_), list(values_), {1, 2, 4}, {5, 32, 20},
                   tensor({4, 4, 8}, ACL_BF16), options),
            ACLNN_ERR_PARAM_INVALID);
}

TEST_F(Attention, SeesWhatEachModeLetsIt) {
  case_.kv_heads = 4;
  constexpr int64_t rows = 3, keys = 5;
  const Numbers q = random(rows * 32, ACL_FLOAT16);
  const Numbers k = random(keys * 32, ACL_FLOAT16);
  const Numbers v = random(keys * 32, ACL_FLOAT16);
  const DeviceTensor query = tensor({1, rows, 4, 8}, ACL_FLOAT16, q);
  const DeviceTensor out = tensor({1, rows, 4, 8}, ACL_FLOAT16);
  const DeviceTensor lse = tensor({1, 4, rows, 1}, ACL_FLOAT);
  const auto last_of = [&](int64_t mode, int64_t row) {
    return mode == 0 ? keys : mode == 2 ? row + 1 : std::min(keys, row + 1 + keys - rows + (mode == 4 ? 1 : 0));
  };
  for (const int64_t mode : {0, 2, 3, 4}) {
    const Options options{.layout = "BSND",
                          .mode = mode,
                          .before = 1,
                          .after = 1,
                          .mask = mode == 0 ? nullptr : mask_.handle,
                          .log_sum_exp = lse};
    ASSERT_EQ(attend(query, list(tensor({1, keys, 4, 8}, ACL_FLOAT16, k)),
                     list(tensor({1, keys, 4, 8}, ACL_FLOAT16, v)), {}, {}, out, options),
              ACLNN_SUCCESS);
    Numbers expected;
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t first = mode == 4 ? row + keys - rows - 1 : 0;
      const Numbers part = case_.attend(q, row, k, v, first, last_of(mode, row));
      expected.insert(expected.end(), part.begin(), part.end());
    }
    expect_near(download(out), expected, unit(ACL_FLOAT16), 1e-4);
  }
  // One key of row 0 in mode 2: its score is the logarithm.
  const Options options{.layout = "BSND", .mode = 2, .mask = mask_, .log_sum_exp = lse};
  ASSERT_EQ(attend(query, list(tensor({1, keys, 4, 8}, ACL_FLOAT16, k)), list(tensor({1, keys, 4, 8}, ACL_FLOAT16, v)),
                   {}, {}, out, options),
            ACLNN_SUCCESS);
  double score = 0;
  for (size_t i = 0; i < 8; ++i) score += q[8 + i] * k[8 + i];
  EXPECT_NEAR(download(lse)[rows], score * case_.scale, 1e-4);
}

TEST_F(Attention, OfOneRowSeesAllKeysInEveryMode) {
  const Numbers q = random(32, ACL_BF16);
  const Numbers k = random(3 * 16, ACL_BF16);
  const DeviceTensor out = tensor({1, 1, 4, 8}, ACL_BF16);
  for (const int64_t mode : {2, 3, 4}) {
    const Options options{.layout = "BSND", .mode = mode, .before = 0, .after = 0, .mask = mask_};
    ASSERT_EQ(attend(tensor({1, 1, 4, 8}, ACL_BF16, q), list(tensor({1, 3, 2, 8}, ACL_BF16, k)),
                     list(tensor({1, 3, 2, 8}, ACL_BF16, k)), {0}, {2}, out, options),
              ACLNN_SUCCESS);
    expect_near(download(out), case_.attend(q, 0, k, k, 0, 2), unit(ACL_BF16), 1e-5);
  }
}

TEST_F(Attention, HasTheSameNumbersInEveryLayout) {
  constexpr int64_t batch = 2, rows = 2, keys = 3;
  const Numbers q = random(batch * rows * 32, ACL_BF16);
  const Numbers k = random(batch * keys * 16, ACL_BF16);
  const Numbers v = random(batch * keys * 16, ACL_BF16);
  // [batch, tokens, heads, 8] to [batch, heads, tokens, 8].
  const auto heads_first = [](const Numbers& x, size_t tokens, size_t heads) {
    Numbers y(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t column = i % 8, head = i / 8 % heads, token = i / 8 / heads % tokens, b = i / 8 / heads / tokens;
      y[((b * heads + head) * tokens + token) * 8 + column] = x[i];
    }
    return y;
  };
  std::vector<Numbers> results;
  for (const char* layout : {"BSND", "BSH", "BNSD", "BNSD_BSND", "TND"}) {
    const std::string name = layout;
    const bool first = name.starts_with("BNSD");
    const Dims q_dims = name == "BSH"   ? Dims{batch, rows, 32}
                        : name == "TND" ? Dims{batch * rows, 4, 8}
                        : first         ? Dims{batch, 4, rows, 8}
                                        : Dims{batch, rows, 4, 8};
    const Dims k_dims = name == "BSH"   ? Dims{batch, keys, 16}
                        : name == "TND" ? Dims{batch * keys, 2, 8}
                        : first         ? Dims{batch, 2, keys, 8}
                                        : Dims{batch, keys, 2, 8};
    const Dims out_dims = name == "BNSD_BSND" ? Dims{batch, rows, 4, 8} : q_dims;
    const DeviceTensor out = tensor(out_dims, ACL_BF16);
    const Options options{.layout = layout, .mask = mask_};
    const bool joined = name == "TND";
    ASSERT_EQ(attend(tensor(q_dims, ACL_BF16, first ? heads_first(q, rows, 4) : q),
                     list(tensor(k_dims, ACL_BF16, first ? heads_first(k, keys, 2) : k)),
                     list(tensor(k_dims, ACL_BF16, first ? heads_first(v, keys, 2) : v)),
                     joined ? std::vector<int64_t>{2, 4} : std::vector<int64_t>{},
                     joined ? std::vector<int64_t>{3, 6} : std::vector<int64_t>{}, out, options),
              ACLNN_SUCCESS)
        << layout;
    // Exchanging the axes again gives the first order.
    results.push_back(name == "BNSD" ? heads_first(download(out), 4, rows) : download(out));
  }
  for (const Numbers& result : results) EXPECT_EQ(result, results[0]);
}

TEST_F(Attention, InAGraphIsUpdatedWithNewLengths) {
  make_caches();
  const Numbers q = random(3 * 32, ACL_BF16);
  const DeviceTensor query = tensor({3, 4, 8}, ACL_BF16, q);
  const DeviceTensor out = tensor({3, 4, 8}, ACL_BF16);
  const Options options{.mask = mask_, .table = table_};
  aclTensorList* const k = list(keys_);
  aclTensorList* const v = list(values_);
  aclrtTaskGrp group = nullptr;
  aclmdlRI graph = nullptr;
  ASSERT_EQ(aclmdlRICaptureBegin(stream_, ACL_MODEL_RI_CAPTURE_MODE_RELAXED), ACL_SUCCESS);
  ASSERT_EQ(aclmdlRICaptureTaskGrpBegin(stream_), ACL_SUCCESS);
  ASSERT_EQ(attend(query, k, v, {1, 2, 3}, {1, 1, 1}, out, options, stream_), ACLNN_SUCCESS);
  ASSERT_EQ(aclmdlRICaptureTaskGrpEnd(stream_, &group), ACL_SUCCESS);
  ASSERT_EQ(aclmdlRICaptureEnd(stream_, &graph), ACL_SUCCESS);
  for (const std::vector<int64_t>& keys : {std::vector<int64_t>{1, 1, 1}, {17, 4, 32}, {18, 5, 0}}) {
    const aclrtStream updates = make_stream();
    ASSERT_EQ(aclmdlRICaptureTaskUpdateBegin(updates, group), ACL_SUCCESS);
    ASSERT_EQ(attend(query, k, v, {1, 2, 3}, keys, out, options, updates), ACLNN_SUCCESS);
    ASSERT_EQ(aclmdlRICaptureTaskUpdateEnd(updates), ACL_SUCCESS);
    ASSERT_EQ(sync(updates), ACL_SUCCESS);
    ASSERT_EQ(aclmdlRIExecuteAsync(graph, stream_), ACL_SUCCESS);
    ASSERT_EQ(sync(stream_), ACL_SUCCESS);
    expect_near(download(out), expected_paged(q, {1, 1, 1}, keys), unit(ACL_BF16), 1e-5);
    ASSERT_EQ(aclrtDestroyStream(updates), ACL_SUCCESS);
  }
  // New contents of tensors need no update.
  upload(query, Numbers(q.rbegin(), q.rend()));
  ASSERT_EQ(aclmdlRIExecuteAsync(graph, stream_), ACL_SUCCESS);
  ASSERT_EQ(sync(stream_), ACL_SUCCESS);
  expect_near(download(out), expected_paged(Numbers(q.rbegin(), q.rend()), {1, 1, 1}, {18, 5, 0}), unit(ACL_BF16),
              1e-5);
  ASSERT_EQ(aclmdlRIDestroy(graph), ACL_SUCCESS);
}

TEST_F(Attention, InAGraphIsReplacedByItsOwnKindOnly) {
  const DeviceTensor x = tensor({4}, ACL_FLOAT, {1, 2, 4, 8});
  const DeviceTensor w = tensor({2, 2}, ACL_FLOAT, {1, 2, 4, 8});
  aclrtTaskGrp group = nullptr;
  aclmdlRI graph = nullptr;
  ASSERT_EQ(aclmdlRICaptureBegin(stream_, ACL_MODEL_RI_CAPTURE_MODE_RELAXED), ACL_SUCCESS);
  ASSERT_EQ(aclmdlRICaptureTaskGrpBegin(stream_), ACL_SUCCESS);
  ASSERT_EQ(enqueue(BOTH(aclnnReciprocal), stream_, x.handle, x.handle), ACLNN_SUCCESS);
  ASSERT_EQ(aclmdlRICaptureTaskGrpEnd(stream_, &group), ACL_SUCCESS);
  ASSERT_EQ(aclmdlRICaptureEnd(stream_, &graph), ACL_SUCCESS);
  EXPECT_EQ(download(x)[1], 2);  // captured, not run
  const aclrtStream updates = make_stream();
  ASSERT_EQ(aclmdlRICaptureTaskUpdateBegin(updates, group), ACL_SUCCESS);
  // A product is of another kind of core than an element-wise kernel.
  EXPECT_EQ(enqueue(BOTH(aclnnMatmul), updates, w.handle, w.handle, w.handle, int8_t{0}), ACLNN_ERR_RUNTIME_ERROR);
  aclmdlRICaptureTaskUpdateEnd(updates);
  ASSERT_EQ(aclmdlRIDestroy(graph), ACL_SUCCESS);
  ASSERT_EQ(aclrtDestroyStream(updates), ACL_SUCCESS);
}

TEST_F(Attention, OfTheLargestWorkspaceServesAllLengths) {
  make_caches();
  const DeviceTensor query = tensor({3, 4, 8}, ACL_BF16);
  const DeviceTensor out = tensor({3, 4, 8}, ACL_BF16);
  aclTensorList* const k = list(keys_);
  char layout[] = "TND";
  const auto size_of_workspace = [&](auto first, const std::vector<int64_t>& keys) {
    uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;
    EXPECT_EQ(first(query.handle, k, k, nullptr, mask_.handle, array({1, 2, 3}), array(keys), nullptr, nullptr, nullptr,
                    nullptr, nullptr, nullptr, nullptr, table_.handle, nullptr, nullptr, nullptr, nullptr, nullptr,
                    nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 4, 1.0, kAny, kAny, layout, 2, 3, 0,
                    kPage, 0, false, 0, 0, out.handle, nullptr, &bytes, &executor),
              ACLNN_SUCCESS);
    EXPECT_EQ(aclDestroyAclOpExecutor(executor), ACLNN_SUCCESS);
    return bytes;
  };
  const uint64_t largest = size_of_workspace(aclnnFusedInferAttentionScoreV3GetMaxWorkspaceSize, {1, 1, 1});
  EXPECT_GT(largest, 0u);
  EXPECT_GE(largest, size_of_workspace(aclnnFusedInferAttentionScoreV3GetWorkspaceSize, {32, 32, 32}));
}

TEST_F(Convolution, IsCausalWithTheStatesThatTheHostNames) {
  constexpr int64_t width = 3, channels = 5;
  const Numbers x = random(4 * channels, ACL_FLOAT);
  const Numbers w = random(width * channels, ACL_FLOAT);
  const Numbers bias = random(channels, ACL_FLOAT);
  const Numbers state = random(3 * 2 * channels, ACL_FLOAT);
  const DeviceTensor states = tensor({3, 2, channels}, ACL_FLOAT, state);
  const DeviceTensor y = tensor({4, channels}, ACL_FLOAT, Numbers(4 * channels, 9));
  // Sequence 0: three rows from the beginning in slot 2. Sequence 1: one row behind the state of slot 0.
  ASSERT_EQ(
      call(BOTH(aclnnCausalConv1d), tensor({4, channels}, ACL_FLOAT, x).handle,
           tensor({width, channels}, ACL_FLOAT, w).handle, tensor({channels}, ACL_FLOAT, bias).handle, states.handle,
           array({0, 3, 4}), array({2, 0}), array({0, 1}), nullptr, int64_t{0}, int64_t{-1}, int64_t{0}, y.handle),
      ACLNN_SUCCESS);
  const Numbers result = download(states);
  for (size_t c = 0; c < channels; ++c) {
    const std::array first = {0.0, 0.0, x[c], x[channels + c], x[2 * channels + c]};
    const std::array second = {state[c], state[channels + c], x[3 * channels + c]};
    for (size_t row = 0; row < 4; ++row) {
      const double* in = row < 3 ? first.data() + row : second.data();
      const double expected = bias[c] + w[c] * in[0] + w[channels + c] * in[1] + w[2 * channels + c] * in[2];
      EXPECT_NEAR(download(y)[row * channels + c], expected, 1e-5);
    }
    EXPECT_EQ(result[4 * channels + c], x[channels + c]);
    EXPECT_EQ(result[5 * channels + c], x[2 * channels + c]);
    EXPECT_EQ(result[c], state[channels + c]);
    EXPECT_EQ(result[channels + c], x[3 * channels + c]);
    EXPECT_EQ(result[2 * channels + c], state[2 * channels + c]);
  }
}

}  // namespace
}  // namespace reprise::emulator
