#include "engine/sampling_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "base/error.h"

namespace reprise::engine {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int32_t kTokens = 100;
const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInfinity = std::numeric_limits<double>::infinity();

SamplingParameters parameters_with(const std::function<void(SamplingParameters&)>& change) {
  SamplingParameters parameters;
  change(parameters);
  return parameters;
}

void expect_field_refused(const SamplingParameters& parameters, const std::string& field, const std::string& value) {
  try {
    parameters.validate(kTokens);
    ADD_FAILURE() << field << " = " << value << " was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.message(), AllOf(HasSubstr(field + " is " + value), HasSubstr("must be")));
  }
}

TEST(SamplingParameters, DefaultsAreValid) { EXPECT_NO_THROW(SamplingParameters().validate(kTokens)); }

TEST(SamplingParameters, B66RepetitionPenaltyOutOfRangeIsRefused) {
  const auto penalty = [](double value) { return parameters_with([&](auto& p) { p.repetition_penalty = value; }); };
  expect_field_refused(penalty(0), "repetition_penalty", "0");
  expect_field_refused(penalty(-1), "repetition_penalty", "-1");
  expect_field_refused(penalty(kNan), "repetition_penalty", "nan");
  expect_field_refused(penalty(kInfinity), "repetition_penalty", "inf");
  EXPECT_NO_THROW(penalty(1e-9).validate(kTokens));
  EXPECT_NO_THROW(penalty(2).validate(kTokens));
}

TEST(SamplingParameters, B66TopKOutOfRangeIsRefused) {
  const auto top_k = [](int32_t value) { return parameters_with([&](auto& p) { p.top_k = value; }); };
  expect_field_refused(top_k(-2), "top_k", "-2");
  for (const int32_t value : {-1, 0, 1, 1000000000}) EXPECT_NO_THROW(top_k(value).validate(kTokens)) << value;
}

TEST(SamplingParameters, B66TopPOutOfRangeIsRefused) {
  const auto top_p = [](double value) { return parameters_with([&](auto& p) { p.top_p = value; }); };
  expect_field_refused(top_p(0), "top_p", "0");
  expect_field_refused(top_p(1.0001), "top_p", "1.0001");
  expect_field_refused(top_p(-0.5), "top_p", "-0.5");
  expect_field_refused(top_p(kNan), "top_p", "nan");
  EXPECT_NO_THROW(top_p(1).validate(kTokens));
  EXPECT_NO_THROW(top_p(1e-9).validate(kTokens));
}

TEST(SamplingParameters, B66MinPOutOfRangeIsRefused) {
  const auto min_p = [](double value) { return parameters_with([&](auto& p) { p.min_p = value; }); };
  expect_field_refused(min_p(2), "min_p", "2");
  expect_field_refused(min_p(-0.1), "min_p", "-0.1");
  expect_field_refused(min_p(kNan), "min_p", "nan");
  EXPECT_NO_THROW(min_p(0).validate(kTokens));
  EXPECT_NO_THROW(min_p(1).validate(kTokens));
}

TEST(SamplingParameters, B66TemperatureOutOfRangeIsRefused) {
  const auto temperature = [](double value) { return parameters_with([&](auto& p) { p.temperature = value; }); };
  expect_field_refused(temperature(-1), "temperature", "-1");
  expect_field_refused(temperature(kNan), "temperature", "nan");
  expect_field_refused(temperature(kInfinity), "temperature", "inf");
  for (const double value : {0.0, 1e-9, 1.0, 1e9}) EXPECT_NO_THROW(temperature(value).validate(kTokens)) << value;
  EXPECT_TRUE(temperature(1e-9).is_greedy());
  EXPECT_FALSE(temperature(1e-3).is_greedy());
}

TEST(SamplingParameters, PresenceAndFrequencyPenaltiesLieBetweenMinusTwoAndTwo) {
  for (const double value : {-2.1, 2.1, kNan}) {
    EXPECT_THROW(parameters_with([&](auto& p) { p.presence_penalty = value; }).validate(kTokens), Error);
    EXPECT_THROW(parameters_with([&](auto& p) { p.frequency_penalty = value; }).validate(kTokens), Error);
  }
  expect_field_refused(parameters_with([&](auto& p) { p.presence_penalty = 2.5; }), "presence_penalty", "2.5");
  expect_field_refused(parameters_with([&](auto& p) { p.frequency_penalty = -3; }), "frequency_penalty", "-3");
  EXPECT_NO_THROW(parameters_with([](auto& p) { p.presence_penalty = -2, p.frequency_penalty = 2; }).validate(kTokens));
}

TEST(SamplingParameters, LogprobsLieBetweenZeroAndTwenty) {
  const auto logprobs = [](int32_t value) { return parameters_with([&](auto& p) { p.logprobs = value; }); };
  for (const int32_t value : {0, 1, 5, 20}) EXPECT_NO_THROW(logprobs(value).validate(kTokens)) << value;
  expect_field_refused(logprobs(21), "logprobs", "21");
  expect_field_refused(logprobs(-1), "logprobs", "-1");
}

TEST(SamplingParameters, StopConditionsAreChecked) {
  expect_field_refused(parameters_with([](auto& p) { p.stop = {"a", ""}; }), "stop[1]", "empty");
  expect_field_refused(parameters_with([](auto& p) { p.stop = {"\xC3"}; }), "stop[0]", "not valid UTF-8");
  expect_field_refused(parameters_with([](auto& p) { p.stop_token_ids = {3, -1}; }), "stop_token_ids[1]", "-1");
  expect_field_refused(parameters_with([](auto& p) { p.stop_token_ids = {kTokens}; }), "stop_token_ids[0]", "100");
  expect_field_refused(parameters_with([](auto& p) { p.max_new_tokens = -1; }), "max_new_tokens", "-1");
  EXPECT_NO_THROW(parameters_with([](auto& p) { p.stop_token_ids = {0, kTokens - 1}; }).validate(kTokens));
}

TEST(SamplingParameters, B63LogitBiasIsFiniteAndNamesEachTokenOnce) {
  const auto bias = [](std::vector<std::pair<int32_t, float>> entries) {
    return parameters_with([&](auto& p) { p.logit_bias = entries; });
  };
  EXPECT_NO_THROW(bias({{0, -100.0f}, {kTokens - 1, 3.5f}}).validate(kTokens));
  expect_field_refused(bias({{3, 1.0f}, {-1, 1.0f}}), "logit_bias[1]", "-1");
  expect_field_refused(bias({{kTokens, 1.0f}}), "logit_bias[0]", "100");
  expect_field_refused(bias({{7, -std::numeric_limits<float>::infinity()}}), "logit_bias of token 7", "-inf");
  try {
    bias({{5, 1.0f}, {2, 1.0f}, {5, 2.0f}}).validate(kTokens);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("names token 5 more than once"));
  }
}

TEST(SamplingParameters, TheLeastNumberOfTokensIsAtMostTheLargest) {
  const auto least = [](int32_t value) {
    return parameters_with([&](auto& p) { p.min_new_tokens = value, p.max_new_tokens = 5; });
  };
  for (const int32_t value : {0, 5}) EXPECT_NO_THROW(least(value).validate(kTokens)) << value;
  expect_field_refused(least(6), "min_new_tokens", "6");
  expect_field_refused(least(-1), "min_new_tokens", "-1");
}

}  // namespace
}  // namespace reprise::engine
