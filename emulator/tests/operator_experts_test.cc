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

TEST_F(Experts, OfTheFirstVersionAreNumberedByColumn) {
  const DeviceTensor x = tensor({3, 4}, ACL_FLOAT, {0, 2, 1, 2, 5, 1, 1, 1, 0, 0, 0, 3});
  const DeviceTensor y = tensor({3, 2}, ACL_FLOAT);
  const DeviceTensor best = tensor({3, 2}, ACL_INT32);
  const DeviceTensor numbers = tensor({3, 2}, ACL_INT32);
  const auto choose = [&](const DeviceTensor& in, aclTensor* finished, int64_t k, aclTensor* rows) {
    return call(BOTH(aclnnMoeGatingTopKSoftmax), in.handle, finished, k, y.handle, best.handle, rows);
  };
  ASSERT_EQ(choose(x, tensor({3}, ACL_BOOL, {0, 1, 0}), 2, numbers), ACLNN_SUCCESS);
  EXPECT_EQ(download(best), (Numbers{1, 3, 4, 4, 3, 0}));
  EXPECT_EQ(download(numbers), (Numbers{0, 3, 1, 4, 2, 5}));
  const double of_first = 1 + 2 * std::exp(2) + std::exp(1);
  const double of_second = std::exp(5) + 3 * std::exp(1);
  const double of_third = 3 + std::exp(3);
  expect_near(download(y),
              {std::exp(2) / of_first, std::exp(2) / of_first, std::exp(5) / of_second, std::exp(1) / of_second,
               std::exp(3) / of_third, 1 / of_third},
              1e-6);
  EXPECT_EQ(choose(x, nullptr, 3, numbers), ACLNN_ERR_PARAM_INVALID) << "the shapes are of 2";
  EXPECT_EQ(choose(x, nullptr, 2, tensor({6}, ACL_INT32)), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(choose(x, nullptr, 2, nullptr), ACLNN_ERR_PARAM_NULLPTR);
}

/// What MoeGatingTopK chooses for one row, by trying: experts and weights.
struct Choice {
  int64_t groups, chosen_groups, mode, norm, chosen;
  double factor, epsilon;

  std::pair<Numbers, Numbers> of(const Numbers& x, const Numbers& bias) const {
    Numbers scores = x;
    double total = 0;
    for (const double value : x) total += std::exp(value);
    for (double& score : scores) score = norm == 1 ? 1 / (1 + std::exp(-score)) : std::exp(score) / total;
    Numbers biased = scores;
    for (size_t i = 0; i < bias.size(); ++i) biased[i] += bias[i];
    const size_t size = x.size() / static_cast<size_t>(groups);
    std::vector<std::pair<double, size_t>> ranking;
    for (size_t group = 0; group < static_cast<size_t>(groups); ++group) {
      Numbers members(biased.begin() + static_cast<int64_t>(group * size),
                      biased.begin() + static_cast<int64_t>((group + 1) * size));
      std::sort(members.rbegin(), members.rend());
      ranking.emplace_back(-(mode == 1 ? members[0] + members[1] : members[0]), group);
    }
    std::sort(ranking.begin(), ranking.end());
    std::vector<std::pair<double, size_t>> candidates;
    for (size_t i = 0; i < static_cast<size_t>(chosen_groups); ++i) {
      for (size_t j = 0; j < size; ++j) {
        candidates.emplace_back(-biased[ranking[i].second * size + j], ranking[i].second * size + j);
      }
    }
    std::sort(candidates.begin(), candidates.end());
    Numbers experts, weights;
    double sum = epsilon;
    for (size_t i = 0; i < static_cast<size_t>(chosen); ++i) {
      experts.push_back(static_cast<double>(candidates[i].second));
      weights.push_back(scores[candidates[i].second]);
      sum += weights.back();
    }
    for (double& weight : weights) weight *= factor / (norm == 1 ? sum : 1);
    return {experts, weights};
  }
};

TEST_F(Experts, MayBeOfTheBestGroups) {
  constexpr int64_t rows = 5, experts = 24;
  for (const aclDataType dtype : {ACL_FLOAT, ACL_BF16, ACL_FLOAT16}) {
    const Numbers x = random(rows * experts, dtype);
    const Numbers bias = random(experts, dtype, 0.5);
    const DeviceTensor in = tensor({rows, experts}, dtype, x);
    const DeviceTensor offset = tensor({experts}, dtype, bias);
    for (const Choice& c :
         {Choice{4, 2, 1, 1, 5, 2.5, 1e-3}, Choice{4, 3, 0, 0, 4, 1, 0}, Choice{1, 1, 0, 1, 7, 1, 0}}) {
      const DeviceTensor y = tensor({rows, c.chosen}, dtype);
      const DeviceTensor best = tensor({rows, c.chosen}, ACL_INT32);
      const DeviceTensor all = tensor({rows, experts}, ACL_FLOAT);
      for (const bool biased : {true, false}) {
        ASSERT_EQ(
            call(BOTH(aclnnMoeGatingTopK), in.handle, biased ? offset.handle : nullptr, c.chosen, c.chosen_groups,
                 c.groups, c.mode, int64_t{0}, c.norm, true, c.factor, c.epsilon, y.handle, best.handle, all.handle),
            ACLNN_SUCCESS);
        for (size_t row = 0; row < rows; ++row) {
          const auto begin = x.begin() + static_cast<int64_t>(row) * experts;
          const auto [chosen, weights] = c.of(Numbers(begin, begin + experts), biased ? bias : Numbers());
          const auto at = static_cast<int64_t>(row) * c.chosen;
          const Numbers actual = download(best);
          EXPECT_EQ(Numbers(actual.begin() + at, actual.begin() + at + c.chosen), chosen);
          const Numbers actual_weights = download(y);
          expect_near(Numbers(actual_weights.begin() + at, actual_weights.begin() + at + c.chosen), weights,
                      unit(dtype));
        }
        if (c.norm == 1) {
          EXPECT_NEAR(download(all)[3], 1 / (1 + std::exp(-x[3])), 1e-6);
        }
      }
    }
  }
}

TEST_F(Experts, OfGroupsThatDoNotFitAreRefused) {
  const DeviceTensor x = tensor({2, 8}, ACL_BF16);
  const DeviceTensor y = tensor({2, 2}, ACL_BF16);
  const DeviceTensor best = tensor({2, 2}, ACL_INT32);
  const DeviceTensor all = tensor({2, 8}, ACL_FLOAT);
  const auto choose = [&](aclTensor* bias, int64_t k, int64_t chosen_groups, int64_t groups, int64_t mode,
                          int64_t renorm, int64_t norm, aclTensor* out) {
    return call(BOTH(aclnnMoeGatingTopK), x.handle, bias, k, chosen_groups, groups, mode, renorm, norm, false, 1.0, 0.0,
                y.handle, best.handle, out);
  };
  EXPECT_EQ(choose(nullptr, 2, 1, 2, 1, 0, 1, all), ACLNN_SUCCESS);
  EXPECT_EQ(choose(nullptr, 2, 1, 3, 1, 0, 1, all), ACLNN_ERR_PARAM_INVALID) << "3 groups of 8 experts";
  EXPECT_EQ(choose(nullptr, 2, 3, 2, 1, 0, 1, all), ACLNN_ERR_PARAM_INVALID) << "3 of 2 groups";
  EXPECT_EQ(choose(nullptr, 2, 1, 8, 0, 0, 1, all), ACLNN_ERR_PARAM_INVALID) << "2 experts of a group of 1";
  EXPECT_EQ(choose(nullptr, 2, 2, 8, 1, 0, 1, all), ACLNN_ERR_PARAM_INVALID) << "the best two of a group of 1";
  EXPECT_EQ(choose(nullptr, 2, 1, 2, 2, 0, 1, all), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(choose(nullptr, 2, 1, 2, 1, 1, 1, all), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(choose(nullptr, 2, 1, 2, 1, 0, 2, all), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(choose(nullptr, 3, 1, 2, 1, 0, 1, all), ACLNN_ERR_PARAM_INVALID) << "the shapes are of 2";
  EXPECT_EQ(choose(tensor({8}, ACL_FLOAT), 2, 1, 2, 1, 0, 1, all), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(choose(nullptr, 2, 1, 2, 1, 0, 1, nullptr), ACLNN_ERR_PARAM_NULLPTR);
}

TEST_F(Experts, OfTheFirstVersionTakeRowsByTheirNumbers) {
  const DeviceTensor x = tensor({3, 3}, ACL_FLOAT16, {0, 1, 2, 10, 11, 12, 20, 21, 22});
  const DeviceTensor numbers = tensor({3, 2}, ACL_INT32, {0, 3, 1, 4, 2, 5});
  const DeviceTensor chosen = tensor({3, 2}, ACL_INT32, {1, 2, 0, 1, 0, 2});
  const DeviceTensor index = tensor({6}, ACL_INT32);
  const DeviceTensor sorted = tensor({6}, ACL_INT32);
  const auto expand = [&](const DeviceTensor& number, int64_t active, const DeviceTensor& to) {
    return call(BOTH(aclnnMoeInitRouting), x.handle, number.handle, chosen.handle, active, to.handle, index.handle,
                sorted.handle);
  };
  const DeviceTensor all = tensor({6, 3}, ACL_FLOAT16);
  ASSERT_EQ(expand(numbers, 3, all), ACLNN_SUCCESS);
  EXPECT_EQ(download(sorted), (Numbers{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(download(index), (Numbers{2, 0, 1, 4, 3, 5}));
  EXPECT_EQ(download(all), (Numbers{10, 11, 12, 20, 21, 22, 0, 1, 2, 10, 11, 12, 0, 1, 2, 20, 21, 22}));
  const DeviceTensor some = tensor({4, 3}, ACL_FLOAT16);
  ASSERT_EQ(expand(numbers, 2, some), ACLNN_SUCCESS);
  EXPECT_EQ(download(some), (Numbers{10, 11, 12, 20, 21, 22, 0, 1, 2, 10, 11, 12}));
  EXPECT_EQ(expand(numbers, 1, some), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(expand(numbers, -1, some), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(expand(tensor({6}, ACL_INT32), 3, all), ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(expand(DeviceTensor(), 3, all), ACLNN_ERR_PARAM_NULLPTR);

  // Back again: out = x1 + x2 + the sum of scales * (row + bias).
  const DeviceTensor expanded = tensor({6, 1}, ACL_FLOAT, {1, 2, 3, 4, 5, 6});
  const DeviceTensor x1 = tensor({3, 1}, ACL_FLOAT, {100, 200, 300});
  const DeviceTensor bias = tensor({3, 1}, ACL_FLOAT, {0.25, 0.5, 0.75});
  const DeviceTensor scales = tensor({3, 2}, ACL_FLOAT, {1, 2, 1, -1, 0, 3});
  const DeviceTensor out = tensor({3, 1}, ACL_FLOAT);
  const auto add = [&](aclTensor* first, aclTensor* second, aclTensor* weights) {
    return call(BOTH(aclnnMoeFinalizeRouting), expanded.handle, first, second, bias.handle, weights, index.handle,
                chosen.handle, out.handle);
  };
  ASSERT_EQ(expand(numbers, 3, all), ACLNN_SUCCESS);
  ASSERT_EQ(add(x1, nullptr, scales), ACLNN_SUCCESS);
  const double first = 100 + (3 + 0.5) + 2 * (5 + 0.75);
  const double second = 200 + (1 + 0.25) - (4 + 0.5);
  const double third = 300 + 3 * (6 + 0.75);
  EXPECT_EQ(download(out), (Numbers{first, second, third}));
  ASSERT_EQ(add(x1, x1, scales), ACLNN_SUCCESS);
  EXPECT_EQ(download(out), (Numbers{first + 100, second + 200, third + 300}));
  EXPECT_EQ(add(nullptr, nullptr, scales), ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(add(x1, nullptr, tensor({3, 2}, ACL_BF16)), ACLNN_ERR_PARAM_INVALID);

  // A number that is none of the choices is found by the device.
  EXPECT_NE(expand(tensor({3, 2}, ACL_INT32, {0, 3, 1, 4, 2, 6}), 3, all), ACLNN_SUCCESS);
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
