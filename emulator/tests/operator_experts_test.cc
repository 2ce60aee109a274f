// Operators of mixtures of experts: choice, routing and the sum behind them.
#include <algorithm>
#include <numeric>

#include "emulator/tests/operator_support.h"

namespace reprise::emulator {
namespace {

class Experts : public OperatorTest {
 protected:
  static constexpr int64_t kTokens = 5, kChosen = 2, kExperts = 4, kColumns = 6;

  void SetUp() override {
    OperatorTest::SetUp();
    x_ = random(kTokens * kColumns, ACL_BF16);
    in_ = tensor({kTokens, kColumns}, ACL_BF16, x_);
    experts_ = tensor({kTokens, kChosen}, ACL_INT32, chosen_);
    expanded_ = tensor({kTokens * kChosen, kColumns}, ACL_BF16, Numbers(kTokens * kChosen * kColumns, 99));
    index_ = tensor({kTokens * kChosen}, ACL_INT32);
    counts_ = tensor({kExperts}, ACL_INT64);
  }

  /// Choices of all tokens in the order of their experts [begin, end).
  static std::vector<size_t> order(const Numbers& chosen, double begin, double end) {
    std::vector<size_t> places;
    for (size_t i = 0; i < chosen.size(); ++i) {
      if (chosen[i] >= begin && chosen[i] < end) places.push_back(i);
    }
    std::stable_sort(places.begin(), places.end(), [&](size_t a, size_t b) { return chosen[a] < chosen[b]; });
    return places;
  }

  aclnnStatus route(int64_t index_type, int64_t quant_mode, const aclIntArray* range, const DeviceTensor& expanded,
                    aclTensor* scales = nullptr) {
    return call(BOTH(aclnnMoeInitRoutingV3), in_.handle, experts_.handle, nullptr, nullptr, kTokens * kChosen,
                int64_t{0}, kExperts, int64_t{0}, int64_t{1}, true, quant_mode, range, index_type, expanded.handle,
                index_.handle, counts_.handle, scales);
  }

  /// -1 and 4 are no experts.
  Numbers chosen_ = {3, 0, 0, 1, -1, 3, 1, 4, 3, 0};
  Numbers x_;
  DeviceTensor in_, experts_, expanded_, index_, counts_;
};

TEST_F(Experts, AreChosenBySoftmax) {
  constexpr int64_t tokens = 3, experts = 5, chosen = 2;
  for (const aclDataType dtype : {ACL_FLOAT, ACL_BF16}) {
    const Numbers logits = {1, 3, 3, -1, 2, 0, 0, 0, 0, 0, 5, 1, 2, 3, 4};
    const DeviceTensor x = tensor({tokens, experts}, dtype, logits);
    const DeviceTensor y = tensor({tokens, chosen}, dtype);
    const DeviceTensor best = tensor({tokens, chosen}, ACL_INT32);
    const DeviceTensor all = tensor({tokens, experts}, ACL_FLOAT);
    for (const int64_t renormalize : {0, 1}) {
      ASSERT_EQ(call(BOTH(aclnnMoeGatingTopKSoftmaxV2), x.handle, tensor({tokens}, ACL_BOOL, {0, 0, 1}).handle, chosen,
                     renormalize, true, y.handle, best.handle, all.handle),
                ACLNN_SUCCESS);
      EXPECT_EQ(download(best), (Numbers{1, 2, 0, 1, 5, 5}));
      const Numbers weights = download(y);
      for (size_t row = 0; row < tokens; ++row) {
        double total = 0;
        const Numbers of_row(logits.begin() + static_cast<int64_t>(row) * experts,
                             logits.begin() + static_cast<int64_t>(row + 1) * experts);
        Numbers sorted = of_row;
        std::sort(sorted.rbegin(), sorted.rend());
        for (size_t i = 0; i < (renormalize == 1 ? 2u : 5u); ++i) total += std::exp(sorted[i]);
        for (size_t i = 0; i < 2; ++i) {
          EXPECT_NEAR(weights[row * 2 + i], std::exp(sorted[i]) / total, unit(dtype));
        }
      }
    }
  }
}

TEST_F(Experts, TakeTheirRowsInOrder) {
  const int64_t limits[] = {0, kExperts};
  aclIntArray* range = aclCreateIntArray(limits, 2);
  const std::vector<size_t> places = order(chosen_, 0, kExperts);
  ASSERT_EQ(places.size(), 8u);
  for (const int64_t index_type : {0, 1}) {
    upload(expanded_, Numbers(kTokens * kChosen * kColumns, 99));
    upload(index_, Numbers(kTokens * kChosen, 55));
    ASSERT_EQ(route(index_type, -1, range, expanded_), ACLNN_SUCCESS);
    const Numbers rows = download(expanded_);
    const Numbers index = download(index_);
    for (size_t i = 0; i < places.size(); ++i) {
      for (size_t c = 0; c < kColumns; ++c) EXPECT_EQ(rows[i * kColumns + c], x_[places[i] / 2 * kColumns + c]);
      EXPECT_EQ(index_type == 0 ? index[places[i]] : index[i], static_cast<double>(index_type == 0 ? i : places[i]));
    }
    EXPECT_EQ(rows[8 * kColumns], 99);
    EXPECT_EQ(index[index_type == 0 ? 4 : 9], index_type == 0 ? -1 : 55);  // not written with the other type
    EXPECT_EQ(download(counts_), (Numbers{3, 2, 0, 3}));
  }
  aclDestroyIntArray(range);
  EXPECT_EQ(call(BOTH(aclnnMoeInitRoutingV3), in_.handle, experts_.handle, nullptr, nullptr, kTokens * kChosen,
                 int64_t{0}, kExperts, int64_t{0}, int64_t{0}, true, int64_t{-1}, nullptr, int64_t{0}, expanded_.handle,
                 index_.handle, counts_.handle, nullptr),
            ACLNN_ERR_PARAM_INVALID);
}

TEST_F(Experts, MayTakeQuantisedRows) {
  const DeviceTensor y = tensor({kTokens, kColumns}, ACL_INT8);
  const DeviceTensor scales = tensor({kTokens}, ACL_FLOAT);
  ASSERT_EQ(call(BOTH(aclnnDynamicQuant), in_.handle, nullptr, y.handle, scales.handle), ACLNN_SUCCESS);
  const DeviceTensor expanded = tensor({kTokens * kChosen, kColumns}, ACL_INT8);
  const DeviceTensor expanded_scales = tensor({kTokens * kChosen}, ACL_FLOAT);
  ASSERT_EQ(route(0, 1, nullptr, expanded, expanded_scales), ACLNN_SUCCESS);
  const std::vector<size_t> places = order(chosen_, 0, kExperts);
  const Numbers rows = download(expanded);
  for (size_t i = 0; i < places.size(); ++i) {
    EXPECT_EQ(download(expanded_scales)[i], download(scales)[places[i] / 2]);
    for (size_t c = 0; c < kColumns; ++c) EXPECT_EQ(rows[i * kColumns + c], download(y)[places[i] / 2 * kColumns + c]);
  }
}

TEST_F(Experts, OfTheSecondVersionCountAndPad) {
  const Numbers chosen = {3, 0, 0, 1, 0, 3, 1, 2, 3, 0};
  const DeviceTensor counts = tensor({kExperts}, ACL_INT32);
  const auto route_v2 = [&](int64_t drop_pad, const DeviceTensor& expanded) {
    return call(BOTH(aclnnMoeInitRoutingV2), in_.handle, experts_.handle, int64_t{0}, int64_t{2}, kExperts, drop_pad,
                int64_t{1}, true, expanded.handle, index_.handle, counts.handle, counts.handle);
  };
  upload(experts_, chosen);
  ASSERT_EQ(route_v2(0, expanded_), ACLNN_SUCCESS);
  const std::vector<size_t> places = order(chosen, 0, kExperts);
  Numbers expected(places.size());
  for (size_t i = 0; i < places.size(); ++i) expected[places[i]] = static_cast<double>(i);
  EXPECT_EQ(download(index_), expected);
  EXPECT_EQ(download(counts), (Numbers{4, 6, 7, 10}));
  // Two rows for each expert: what is more is dropped, what is less is 0.
  const DeviceTensor padded = tensor({kExperts, 2, kColumns}, ACL_BF16);
  ASSERT_EQ(route_v2(1, padded), ACLNN_SUCCESS);
  EXPECT_EQ(download(index_), (Numbers{6, 0, 1, 2, -1, 7, 3, 4, -1, -1}));
  EXPECT_EQ(download(counts), (Numbers{4, 2, 1, 3}));
  const Numbers rows = download(padded);
  for (size_t c = 0; c < kColumns; ++c) {
    EXPECT_EQ(rows[4 * kColumns + c], x_[3 * kColumns + c]);
    EXPECT_EQ(rows[5 * kColumns + c], 0);
  }
}

TEST_F(Experts, AreAddedWithTheirWeights) {
  const Numbers rows = random(kTokens * kChosen * kColumns, ACL_BF16);
  const Numbers scales = random(kTokens * kChosen, ACL_FLOAT);
  const Numbers shared = random(kTokens * kColumns, ACL_BF16);
  Numbers index(kTokens * kChosen);
  std::iota(index.begin(), index.end(), 0);
  std::shuffle(index.begin(), index.end(), generator_);
  index[3] = -1;
  const DeviceTensor out = tensor({kTokens, kColumns}, ACL_BF16);
  Numbers by_column(index.size());
  for (size_t i = 0; i < index.size(); ++i) by_column[i % kChosen * kTokens + i / kChosen] = index[i];
  Numbers expected = shared;
  for (size_t i = 0; i < index.size(); ++i) {
    for (size_t c = 0; c < kColumns && index[i] >= 0; ++c) {
      expected[i / kChosen * kColumns + c] += scales[i] * rows[static_cast<size_t>(index[i]) * kColumns + c];
    }
  }
  const auto finalize = [&](int64_t mode, const Numbers& places) {
    const bool padded = mode % 2 == 1;
    const Dims dims = padded ? Dims{1, kTokens * kChosen, kColumns} : Dims{kTokens * kChosen, kColumns};
    return call(BOTH(aclnnMoeFinalizeRoutingV2), tensor(dims, ACL_BF16, rows).handle,
                tensor({kTokens * kChosen}, ACL_INT32, places).handle,
                tensor({kTokens, kColumns}, ACL_BF16, shared).handle, nullptr, nullptr,
                tensor({kTokens, kChosen}, ACL_FLOAT, scales).handle, nullptr, mode, out.handle);
  };
  for (const int64_t mode : {1, 3}) {
    ASSERT_EQ(finalize(mode, mode == 1 ? by_column : index), ACLNN_SUCCESS);
    expect_near(download(out), expected, unit(ACL_BF16), 1e-5);
  }
  EXPECT_EQ(finalize(4, index), ACLNN_ERR_PARAM_INVALID);
  EXPECT_NE(finalize(2, index), ACLNN_SUCCESS);  // no row may be gone in this mode
}

TEST_F(Experts, OfTheSecondVersionMustBeThere) {
  const DeviceTensor counts = tensor({kExperts}, ACL_INT32);
  EXPECT_NE(call(BOTH(aclnnMoeInitRoutingV2), in_.handle, experts_.handle, int64_t{0}, int64_t{0}, kExperts, int64_t{0},
                 int64_t{2}, false, expanded_.handle, index_.handle, counts.handle, nullptr),
            ACLNN_SUCCESS);
}

}  // namespace
}  // namespace reprise::emulator
