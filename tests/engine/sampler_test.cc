#include "engine/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "base/error.h"
#include "base/random.h"
#include "engine/row_sampler.h"

namespace reprise::engine {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

SamplingParameters with(const std::function<void(SamplingParameters&)>& change) {
  SamplingParameters parameters;
  change(parameters);
  return parameters;
}

SamplingParameters greedy_parameters() {
  return with([](auto& p) { p.temperature = 0; });
}

int32_t sample(std::span<const float> logits, const SamplingParameters& parameters, int64_t step = 0,
               const TokenHistory* history = nullptr) {
  return Sampler(static_cast<int32_t>(logits.size())).sample(logits, parameters, history, 7, step);
}

// Shares of tokens over many draws.
std::map<int32_t, double> shares(const std::vector<float>& logits, const SamplingParameters& parameters,
                                 int draws = 10000) {
  Sampler sampler(static_cast<int32_t>(logits.size()));
  std::map<int32_t, double> result;
  for (int step = 0; step < draws; ++step) {
    result[sampler.sample(logits, parameters, nullptr, 42, step)] += 1.0 / draws;
  }
  return result;
}

std::vector<float> log_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double probability : probabilities) logits.push_back(static_cast<float>(std::log(probability)));
  return logits;
}

std::vector<float> random_logits(size_t count, unsigned seed, float deviation = 3) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = normal(generator);
  return logits;
}

TEST(Sampler, GreedyTakesTheLowestOfEqualMaxima) {
  EXPECT_EQ(sample(std::vector<float>{1, 3, 2, 3, -5}, greedy_parameters()), 1);
  EXPECT_EQ(sample(std::vector<float>{-0.0f, 0.0f, -1}, greedy_parameters()), 0);
  EXPECT_EQ(sample(std::vector<float>{-7, -3, -3}, greedy_parameters()), 1);
  EXPECT_EQ(sample(std::vector<float>(1000, 0.5f), greedy_parameters()), 0);
}

TEST(Sampler, GreedyFindsTheMaximumAtEveryPlace) {
  for (size_t size : {1u, 2u, 3u, 7u, 16u, 33u, 129u}) {
    for (size_t place = 0; place < size; ++place) {
      std::vector<float> logits(size, -2.0f);
      logits[place] = -1.0f;
      ASSERT_EQ(sample(logits, greedy_parameters()), static_cast<int32_t>(place));
    }
  }
}

TEST(Sampler, LogitsThatAreNotFiniteAreNamed) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    for (const size_t place : {0u, 5u, 36u}) {
      std::vector<float> logits(37, 1.0f);
      logits[place] = bad;
      for (const SamplingParameters& parameters : {greedy_parameters(), SamplingParameters()}) {
        try {
          sample(logits, parameters);
          ADD_FAILURE() << bad << " at " << place;
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kInternal);
          EXPECT_THAT(error.message(), HasSubstr(fmt::format("token {} is {}", place, bad)));
        }
      }
    }
  }
}

TEST(Sampler, ExtremeFiniteLogitsAreSampled) {
  const float largest = std::numeric_limits<float>::max();
  for (const double temperature : {1e-5, 1.0, 1e9}) {
    const auto parameters = with([&](auto& p) { p.temperature = temperature, p.top_p = 0.9; });
    EXPECT_EQ(sample(std::vector<float>{-largest, largest, -largest}, parameters), 1);
    EXPECT_LT(sample(std::vector<float>{-largest, -largest}, parameters), 2);
  }
}

TEST(Sampler, DrawsFollowTheDistribution) {
  const std::vector<double> probabilities{0.5, 0.25, 0.15, 0.1};
  const auto found = shares(log_of(probabilities), SamplingParameters());
  for (int32_t token = 0; token < 4; ++token) EXPECT_NEAR(found.at(token), probabilities[token], 0.015) << token;
}

TEST(Sampler, TemperatureSharpensAndFlattens) {
  const std::vector<float> logits = log_of({0.8, 0.2});
  // Squared and renormalised: 0.64 : 0.04; the square root: 0.894 : 0.447.
  EXPECT_NEAR(shares(logits, with([](auto& p) { p.temperature = 0.5; })).at(0), 0.64 / 0.68, 0.01);
  EXPECT_NEAR(shares(logits, with([](auto& p) { p.temperature = 2; })).at(0), 2.0 / 3, 0.015);
  EXPECT_NEAR(shares(logits, with([](auto& p) { p.temperature = 1e9; })).at(0), 0.5, 0.015);
}

TEST(Sampler, TopKKeepsTheMostLikelyAndRenormalises) {
  const std::vector<float> logits = log_of({0.1, 0.4, 0.2, 0.3});
  const auto found = shares(logits, with([](auto& p) { p.top_k = 2; }));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NEAR(found.at(1), 4.0 / 7, 0.015);
  EXPECT_NEAR(found.at(3), 3.0 / 7, 0.015);
  EXPECT_EQ(shares(logits, with([](auto& p) { p.top_k = 1; })).size(), 1u);
  for (const int32_t all : {-1, 0, 4, 1000000000}) {
    EXPECT_EQ(shares(logits, with([&](auto& p) { p.top_k = all; })).size(), 4u) << all;
  }
}

TEST(Sampler, TopKTakesTheLowerOfEqualTokens) {
  const std::vector<float> logits(2000, 1.0f);
  for (const int32_t top_k : {3, 600}) {  // by a heap, by partial selection
    const auto found = shares(logits, with([&](auto& p) { p.top_k = top_k; }), 10000);
    EXPECT_EQ(found.rbegin()->first, top_k - 1);
    EXPECT_EQ(found.size(), static_cast<size_t>(top_k));
  }
}

TEST(Sampler, TopPKeepsTheFewestThatReachIt) {
  const std::vector<float> logits = log_of({0.1, 0.4, 0.2, 0.3});
  const auto tokens = [&](double top_p) {
    std::set<int32_t> result;
    for (const auto& [token, share] : shares(logits, with([&](auto& p) { p.top_p = top_p; }), 2000)) {
      result.insert(token);
    }
    return result;
  };
  EXPECT_THAT(tokens(1e-9), ElementsAre(1));
  EXPECT_THAT(tokens(0.39), ElementsAre(1));
  EXPECT_THAT(tokens(0.41), ElementsAre(1, 3));
  EXPECT_THAT(tokens(0.71), ElementsAre(1, 2, 3));
  EXPECT_THAT(tokens(0.95), ElementsAre(0, 1, 2, 3));
}

TEST(Sampler, TopPCountsWhatTopKLeft) {
  // Of 0.4 and 0.3, renormalised, the first alone has 0.571.
  const std::vector<float> logits = log_of({0.1, 0.4, 0.2, 0.3});
  EXPECT_EQ(shares(logits, with([](auto& p) { p.top_k = 2, p.top_p = 0.57; })).size(), 1u);
  EXPECT_EQ(shares(logits, with([](auto& p) { p.top_k = 2, p.top_p = 0.58; })).size(), 2u);
}

TEST(Sampler, MinPIsAShareOfTheMostLikely) {
  const std::vector<float> logits = log_of({0.1, 0.4, 0.2, 0.3});
  EXPECT_EQ(shares(logits, with([](auto& p) { p.min_p = 0.26; })).size(), 3u);
  EXPECT_EQ(shares(logits, with([](auto& p) { p.min_p = 0.24; })).size(), 4u);
  EXPECT_THAT(shares(logits, with([](auto& p) { p.min_p = 1; })), ElementsAre(testing::Key(1)));
}

// The filters by a full sort, as their definitions read.
std::set<int32_t> kept_by_definition(const std::vector<float>& logits, const SamplingParameters& parameters) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  const auto weight = [&](int32_t token) {
    return std::exp((double{logits[token]} - logits[order[0]]) / parameters.temperature);
  };
  if (parameters.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(parameters.top_k)));
  double total = 0;
  for (const int32_t token : order) total += weight(token);
  double sum = 0;
  std::set<int32_t> kept;
  for (const int32_t token : order) {
    if (sum >= parameters.top_p * total) break;
    sum += weight(token);
    if (weight(token) >= parameters.min_p) kept.insert(token);
  }
  return kept;
}

TEST(Sampler, FiltersKeepWhatTheirDefinitionsKeep) {
  const std::vector<float> logits = random_logits(5000, 1, 1);
  for (const int32_t top_k : {0, 5, 400, 3000}) {
    for (const double top_p : {0.3, 0.9, 1.0}) {
      for (const double min_p : {0.0, 0.02}) {
        const auto parameters = with([&](auto& p) { p.top_k = top_k, p.top_p = top_p, p.min_p = min_p; });
        const std::set<int32_t> allowed = kept_by_definition(logits, parameters);
        Sampler sampler(5000);
        std::set<int32_t> seen;
        for (int step = 0; step < 1000; ++step) {
          const int32_t token = sampler.sample(logits, parameters, nullptr, 3, step);
          ASSERT_TRUE(allowed.contains(token)) << token;
          seen.insert(token);
        }
        // Every token that is kept can come.
        if (allowed.size() <= 50) {
          EXPECT_EQ(seen, allowed);
        }
        EXPECT_GT(seen.size(), std::min<size_t>(allowed.size(), 300) / 2);
      }
    }
  }
}

TEST(Sampler, B66RepetitionPenaltyCountsPromptAndOutput) {
  const std::vector<float> logits{4, 3, 2.5f, -1};
  const std::vector<int32_t> prompt{0};
  TokenHistory history(4, prompt, 8);
  const auto parameters = with([](auto& p) { p.temperature = 0, p.repetition_penalty = 2; });
  EXPECT_EQ(sample(logits, parameters, 0, &history), 1);  // 4 / 2 < 3
  history.add(1);
  EXPECT_EQ(sample(logits, parameters, 1, &history), 2);  // 3 / 2 < 2.5
  // Negative logits move away from zero.
  TokenHistory negative(2, std::vector<int32_t>{0}, 1);
  EXPECT_EQ(sample(std::vector<float>{-1, -1.5f}, parameters, 0, &negative), 1);  // -1 * 2 < -1.5
}

TEST(Sampler, B66ATinyRepetitionPenaltyDividesByItAndStaysFinite) {
  const auto parameters = with([](auto& p) { p.temperature = 0, p.repetition_penalty = 1e-9; });
  TokenHistory history(3, std::vector<int32_t>{2}, 1);
  EXPECT_EQ(sample(std::vector<float>{5, 4, 1}, parameters, 0, &history), 2);
  const auto least = with([](auto& p) { p.repetition_penalty = std::numeric_limits<float>::min(); });
  EXPECT_EQ(sample(std::vector<float>{5, 4, 1e38f}, least, 0, &history), 2);
}

TEST(Sampler, B66PresenceAndFrequencyPenaltiesCountTheOutputOnly) {
  const std::vector<float> logits{4, 3};
  TokenHistory history(2, std::vector<int32_t>{0, 0, 0}, 8);
  const auto presence = with([](auto& p) { p.temperature = 0, p.presence_penalty = 2; });
  const auto frequency = with([](auto& p) { p.temperature = 0, p.frequency_penalty = 0.6; });
  EXPECT_EQ(sample(logits, presence, 0, &history), 0);
  EXPECT_EQ(sample(logits, frequency, 0, &history), 0);
  history.add(0);
  EXPECT_EQ(sample(logits, presence, 1, &history), 1);   // 4 - 2 < 3
  EXPECT_EQ(sample(logits, frequency, 1, &history), 0);  // 4 - 0.6 > 3
  history.add(0);
  EXPECT_EQ(sample(logits, frequency, 2, &history), 1);  // 4 - 1.2 < 3
  history.add(1);
  EXPECT_EQ(sample(logits, presence, 3, &history), 0);  // once is as much as twice
}

TEST(Sampler, B63LogitBiasForcesAndBansTokens) {
  const std::vector<float> logits = random_logits(1000, 4);
  auto parameters = with([](auto& p) { p.temperature = 1, p.top_k = 50; });
  for (int32_t token = 0; token < 1000; ++token) {
    if (token != 123) parameters.logit_bias.emplace_back(token, -100.0f);
  }
  for (int64_t step = 0; step < 50; ++step) EXPECT_EQ(sample(logits, parameters, step), 123);
  // It comes after penalties.
  const auto penalised = with([](auto& p) { p.temperature = 0, p.repetition_penalty = 2, p.logit_bias = {{0, 1.1f}}; });
  TokenHistory history(2, std::vector<int32_t>{0}, 1);
  EXPECT_EQ(sample(std::vector<float>{4, 3}, penalised, 0, &history), 0);  // 4 / 2 + 1.1 > 3
  // And before temperature: twice as hot, half as far.
  const auto hot =
      with([](auto& p) { p.temperature = 2, p.logit_bias = {{1, static_cast<float>(2 * std::log(3.0))}}; });
  EXPECT_NEAR(shares({0, 0}, hot)[1], 0.75, 0.02);
  const auto endless = with([](auto& p) { p.temperature = 0, p.logit_bias = {{1, 3e38f}}; });
  EXPECT_EQ(sample(std::vector<float>{1, 3e38f}, endless), 1);
}

TEST(Sampler, ForbiddenTokensAreNeverChosen) {
  const std::vector<float> logits{9, 8, 7, 6};
  const std::vector<int32_t> forbidden{0, 2};
  Sampler sampler(4);
  for (const double temperature : {0.0, 1.0, 1e30}) {
    for (const int32_t top_k : {0, 3}) {
      const auto parameters = with([&](auto& p) { p.temperature = temperature, p.top_k = top_k; });
      std::set<int32_t> seen;
      for (int64_t step = 0; step < 200; ++step) {
        seen.insert(sampler.sample(logits, parameters, nullptr, 7, step, forbidden));
      }
      EXPECT_EQ(seen, temperature == 0 ? std::set<int32_t>({1}) : std::set<int32_t>({1, 3}));
    }
  }
}

TEST(Sampler, ADrawIsAFunctionOfSeedAndStep) {
  const std::vector<float> logits = random_logits(1000, 2);
  const std::vector<float> others = random_logits(1000, 3);
  const auto parameters = with([](auto& p) { p.top_p = 0.95; });
  Sampler fresh(1000);
  Sampler busy(1000);
  std::set<int32_t> tokens;
  std::set<int32_t> by_seed;
  for (int step = 0; step < 50; ++step) {
    busy.sample(others, SamplingParameters(), nullptr, 5, step);
    const int32_t token = fresh.sample(logits, parameters, nullptr, 11, step);
    EXPECT_EQ(busy.sample(logits, parameters, nullptr, 11, step), token);
    tokens.insert(token);
    by_seed.insert(fresh.sample(logits, parameters, nullptr, static_cast<uint64_t>(step), 0));
  }
  EXPECT_GT(tokens.size(), 10u);
  EXPECT_GT(by_seed.size(), 10u);
}

TEST(Sampler, LogprobsAreOfTheModelsOwnDistribution) {
  const std::vector<float> logits = log_of({0.1, 0.4, 0.2, 0.3});
  PositionLogprobs out;
  Sampler(4).logprobs(logits, 0, 3, out);
  EXPECT_EQ(out.chosen.token, 0);
  EXPECT_NEAR(out.chosen.logprob, std::log(0.1), 1e-6);
  ASSERT_EQ(out.alternatives.size(), 3u);
  EXPECT_EQ(out.alternatives[0].token, 1);
  EXPECT_NEAR(out.alternatives[0].logprob, std::log(0.4), 1e-6);
  EXPECT_EQ(out.alternatives[1].token, 3);
  EXPECT_EQ(out.alternatives[2].token, 2);
}

TEST(Sampler, LogprobsOfMoreAlternativesThanTokensAreAllOfThem) {
  PositionLogprobs out;
  Sampler(3).logprobs(std::vector<float>{1, 1, 2}, 1, 20, out);
  ASSERT_EQ(out.alternatives.size(), 3u);
  EXPECT_EQ(out.alternatives[0].token, 2);
  EXPECT_EQ(out.alternatives[1].token, 0);
  EXPECT_EQ(out.alternatives[2].token, 1);
  Sampler(3).logprobs(std::vector<float>{1, 1, 2}, 1, 0, out);
  EXPECT_TRUE(out.alternatives.empty());
  EXPECT_TRUE(std::isfinite(out.chosen.logprob));
}

TEST(Sampler, AGreedyChoiceTakesTheFirstOfEqualZerosAndMaximaOfManyBlocks) {
  const auto greedy_of = [](const std::vector<float>& logits) {
    SamplingParameters parameters;
    parameters.temperature = 0;
    return Sampler(static_cast<int32_t>(logits.size())).sample(logits, parameters, nullptr, 0, 0);
  };
  std::vector<float> logits(5000, -1.0f);
  logits[4700] = 0.0f;
  logits[700] = -0.0f;
  EXPECT_EQ(greedy_of(logits), 700);
  logits[1600] = logits[3300] = 2.0f;
  EXPECT_EQ(greedy_of(logits), 1600);
  logits[4999] = 2.5f;
  EXPECT_EQ(greedy_of(logits), 4999);
}

TEST(RowSampler, GivesTheSameOnAnyNumberOfThreads) {
  constexpr int32_t kWords = 40'000;
  constexpr int32_t kRows = 21;
  std::vector<std::vector<float>> logits(kRows);
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (int32_t i = 0; i < kRows; ++i) {
    for (int32_t token = 0; token < kWords; ++token) {
      const uint64_t bits = random_bits(static_cast<uint64_t>(i), static_cast<uint64_t>(token));
      logits[static_cast<size_t>(i)].push_back(static_cast<float>(bits % 1000) * 0.01f);
    }
    Request request;
    request.prompt = {i};
    request.sampling.temperature = i % 3 == 0 ? 0 : 1;
    if (i % 4 == 0) request.sampling.logprobs = 2;
    if (i % 5 == 0) request.sampling.top_p = 0.5;
    if (i % 6 == 0) request.sampling.repetition_penalty = 1.5;
    sequences.push_back(std::make_unique<Sequence>(i, std::move(request), uint64_t{7}, kWords, std::nullopt));
    sequences.back()->begin();
  }
  logits[4][17] = std::numeric_limits<float>::quiet_NaN();
  const auto rows_with = [&](int threads) {
    std::vector<RowSampler::Row> rows(kRows);
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i].sequence = sequences[i].get();
      if (i != 9) rows[i].logits = logits[i];  // nothing is wanted of one
    }
    RowSampler sampler(kWords, threads);
    sampler.sample(rows);
    EXPECT_EQ(sampler.shared_calls(), threads > 1 ? 1 : 0);
    return rows;
  };
  const std::vector<RowSampler::Row> expected = rows_with(1);
  for (const int threads : {2, 5}) {
    const std::vector<RowSampler::Row> actual = rows_with(threads);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(actual[i].token, expected[i].token) << i;
      EXPECT_EQ(actual[i].failure != nullptr, i == 4) << i;
      EXPECT_EQ(actual[i].logprobs.chosen.logprob, expected[i].logprobs.chosen.logprob) << i;
      EXPECT_EQ(actual[i].logprobs.alternatives.size(), expected[i].logprobs.alternatives.size()) << i;
    }
  }
  EXPECT_EQ(expected[9].token, -1);
}

TEST(Random, UniformNumbersFillTheUnitInterval) {
  double sum = 0;
  double square = 0;
  constexpr int kDraws = 100000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const double value = random_uniform(i % 10, i / 10);
    ASSERT_GE(value, 0);
    ASSERT_LT(value, 1);
    sum += value;
    square += value * value;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.005);
  EXPECT_NEAR(square / kDraws, 1.0 / 3, 0.005);
}

}  // namespace
}  // namespace reprise::engine
