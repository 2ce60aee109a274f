#include "engine/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "base/error.h"
#include "base/random.h"
#include "engine/exponentials.h"

namespace reprise::engine {
namespace {

// Candidates up to this many are found by one pass with a heap, more by partial selection.
constexpr size_t kHeapLimit = 512;
// Less likely than any logit that a model or a parameter can give.
constexpr float kForbidden = -std::numeric_limits<float>::infinity();
// exp(-52) times a vocabulary of a million is below the 2^-53 that a draw resolves.
constexpr double kNegligible = -52;

// Integers in the order of the floats, NaN at both ends. Comparing integers vectorises, comparing floats does not.
int32_t order_of(float value) {
  const auto bits = std::bit_cast<int32_t>(value);
  return bits ^ ((bits >> 31) & 0x7FFFFFFF);
}

float value_of(int32_t order) { return std::bit_cast<float>(order ^ ((order >> 31) & 0x7FFFFFFF)); }

struct Extremes {
  int32_t lowest = std::numeric_limits<int32_t>::max();
  int32_t highest = std::numeric_limits<int32_t>::min();
};

Extremes extremes_of(std::span<const float> values) {
  Extremes result;
  for (const float value : values) {
    const int32_t order = order_of(value);
    result.lowest = std::min(result.lowest, order);
    result.highest = std::max(result.highest, order);
  }
  return result;
}

/// The largest of some values, and where the first block that holds it begins.
struct Largest {
  float value = 0;
  size_t block = 0;
};

// Blocks in which the largest value, or the drawn one, is looked for: few of them, and short beside the vocabulary.
constexpr size_t kBlock = 512;
// Blocks that are passed over when they hold none of the largest values.
constexpr size_t kShortBlock = 64;

std::span<const float> block_of(std::span<const float> values, size_t begin) {
  return values.subspan(begin, std::min(kBlock, values.size() - begin));
}

// The largest value, after a check that every one is finite.
Largest checked_max(std::span<const float> logits) {
  REPRISE_CHECK(!logits.empty());
  Extremes extremes;
  Largest largest;
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const Extremes block = extremes_of(block_of(logits, begin));
    extremes.lowest = std::min(extremes.lowest, block.lowest);
    if (block.highest <= extremes.highest) continue;
    extremes.highest = block.highest;
    largest.block = begin;
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (extremes.lowest <= order_of(-kInfinity) || extremes.highest >= order_of(kInfinity)) [[unlikely]] {
    const auto bad = std::find_if(logits.begin(), logits.end(), [](float value) { return !std::isfinite(value); });
    throw Error(ErrorCode::kInternal, "the model's logit of token {} is {}", bad - logits.begin(), *bad)
        .remedy("weights that overflow the chosen dtype or a fault in a kernel: compare with float32 and eager mode");
  }
  largest.value = value_of(extremes.highest);
  // In the order of integers -0 comes before +0, as a token it does not.
  if (largest.value == 0) largest.block = 0;
  return largest;
}

// In several sums side by side, because one would wait for each addition.
double sum_of(std::span<const float> values) {
  double sums[8] = {};
  size_t i = 0;
  for (; i + 8 <= values.size(); i += 8) {
    for (size_t lane = 0; lane < 8; ++lane) sums[lane] += values[i + lane];
  }
  double rest = 0;
  for (; i < values.size(); ++i) rest += values[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7])) + rest;
}

/// The sum of the blocks in front of the one that takes it beyond `limit`, and where that begins.
struct BlockSum {
  size_t end = 0;
  double sum = 0;
};

BlockSum sum_of_blocks(std::span<const float> values, double limit) {
  BlockSum result;
  for (; result.end < values.size(); result.end += kBlock) {
    const double block = sum_of(block_of(values, result.end));
    if (result.sum + block > limit) break;
    result.sum += block;
  }
  return result;
}

float finite_float(double value) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(value, -kLargest, kLargest));
}

int32_t first_of(std::span<const float> logits, const Largest& largest) {
  const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(largest.block);
  return static_cast<int32_t>(std::find(begin, logits.end(), largest.value) - logits.begin());
}

uint64_t pack(float logit, size_t token) {
  // Adding zero makes -0 equal to +0; the flipped sign bit makes the order unsigned.
  const uint32_t order = static_cast<uint32_t>(order_of(logit + 0.0f)) ^ 0x80000000u;
  return (uint64_t{order} << 32) | (0xFFFFFFFFu - static_cast<uint32_t>(token));
}

int32_t token_of(uint64_t candidate) { return static_cast<int32_t>(0xFFFFFFFFu - static_cast<uint32_t>(candidate)); }

float logit_of(uint64_t candidate) {
  return value_of(static_cast<int32_t>(static_cast<uint32_t>(candidate >> 32) ^ 0x80000000u));
}

}  // namespace

Sampler::Sampler(int32_t vocabulary) {
  changed_.reserve(static_cast<size_t>(vocabulary));
  candidates_.reserve(static_cast<size_t>(vocabulary));
  weights_.reserve(static_cast<size_t>(vocabulary));
}

void Sampler::check_finite(std::span<const float> logits) { checked_max(logits); }

int32_t Sampler::sample(std::span<const float> logits, const SamplingParameters& parameters,
                        const TokenHistory* history, uint64_t seed, int64_t step, std::span<const int32_t> forbidden) {
  Largest max = checked_max(logits);
  if (parameters.changes_logits() || !forbidden.empty()) {
    changed_.assign(logits.begin(), logits.end());
    if (parameters.has_penalties()) {
      REPRISE_CHECK(history != nullptr);
      apply_penalties(parameters, *history);
    }
    apply_bias(parameters.logit_bias);
    for (const int32_t token : forbidden) changed_[static_cast<size_t>(token)] = kForbidden;
    logits = changed_;
    max = {value_of(extremes_of(logits).highest)};
    REPRISE_CHECK(max.value != kForbidden);
  }
  if (parameters.is_greedy()) return first_of(logits, max);

  max_logit_ = max.value;
  temperature_ = parameters.temperature;
  // Not infinite: the best token's distance is 0, and shall stay so.
  sharpness_ = finite_float(1 / temperature_);
  const size_t top_k = parameters.top_k > 0 ? static_cast<size_t>(parameters.top_k) : logits.size();
  if (top_k <= kHeapLimit && top_k < logits.size()) {
    collect_largest(logits, top_k);
    std::erase_if(candidates_, [](Candidate candidate) { return logit_of(candidate) == kForbidden; });
  } else {
    collect(logits);
    keep_top_k(top_k);
  }
  if (parameters.top_p < 1) keep_top_p(parameters.top_p);
  if (parameters.min_p > 0) keep_min_p(parameters.min_p);
  return draw(random_uniform(seed, static_cast<uint64_t>(step)));
}

void Sampler::apply_penalties(const SamplingParameters& parameters, const TokenHistory& history) {
  for (const int32_t token : history.seen()) {
    double logit = changed_[static_cast<size_t>(token)];
    logit = logit > 0 ? logit / parameters.repetition_penalty : logit * parameters.repetition_penalty;
    if (const int32_t count = history.output_count(token); count > 0) {
      logit -= parameters.frequency_penalty * count + parameters.presence_penalty;
    }
    changed_[static_cast<size_t>(token)] = finite_float(logit);
  }
}

void Sampler::apply_bias(std::span<const std::pair<int32_t, float>> bias) {
  for (const auto& [token, value] : bias) {
    float& logit = changed_[static_cast<size_t>(token)];
    logit = finite_float(static_cast<double>(logit) + value);
  }
}

/// Unnormalised probabilities of the candidates; 1 for the best token.
std::span<const float> Sampler::weigh() {
  weights_.resize(candidates_.size());
  for (size_t i = 0; i < weights_.size(); ++i) weights_[i] = (logit_of(candidates_[i]) - max_logit_) * sharpness_;
  exponentials(weights_);
  return weights_;
}

void Sampler::collect(std::span<const float> logits) {
  candidates_.clear();
  // Rounding to float32 moves the limit by less than anybody can see.
  const auto limit = static_cast<float>(
      std::max(max_logit_ + kNegligible * temperature_, static_cast<double>(std::numeric_limits<float>::lowest())));
  for (size_t token = 0; token < logits.size(); ++token) {
    if (logits[token] >= limit) candidates_.push_back(pack(logits[token], token));
  }
}

void Sampler::collect_largest(std::span<const float> logits, size_t count) {
  candidates_.clear();
  for (size_t token = 0; token < count; ++token) candidates_.push_back(pack(logits[token], token));
  // A heap whose front is the least of the largest; of equal logits the lower token came first and stays.
  std::make_heap(candidates_.begin(), candidates_.end(), std::greater<>());
  float least = logit_of(candidates_.front());
  for (size_t begin = count; begin < logits.size(); begin += kShortBlock) {
    const size_t end = std::min(begin + kShortBlock, logits.size());
    if (extremes_of(logits.subspan(begin, end - begin)).highest <= order_of(least)) continue;
    for (size_t token = begin; token < end; ++token) {
      if (logits[token] <= least) continue;
      std::pop_heap(candidates_.begin(), candidates_.end(), std::greater<>());
      candidates_.back() = pack(logits[token], token);
      std::push_heap(candidates_.begin(), candidates_.end(), std::greater<>());
      least = logit_of(candidates_.front());
    }
  }
  std::sort(candidates_.begin(), candidates_.end(), std::greater<>());
}

void Sampler::keep_top_k(size_t count) {
  if (count >= candidates_.size()) return;
  std::nth_element(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(count), candidates_.end(),
                   std::greater<>());
  candidates_.resize(count);
}

void Sampler::keep_top_p(double probability) {
  const std::span<const float> weights = weigh();
  const double total = sum_of(weights);
  const double wanted = probability * total;
  // Tokens below this limit have less than 1 - probability together, so the others reach the probability without them.
  // The factor is room for rounding.
  const double limit = 0.999 * (1 - probability) * total / static_cast<double>(candidates_.size());
  size_t kept = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] >= limit) candidates_[kept++] = candidates_[i];
  }
  candidates_.resize(kept);

  // A real distribution reaches the probability within a few tokens: sort as far as needed, in growing parts.
  size_t sorted = 0;
  size_t next = 64;
  double sum = 0;
  while (sorted < candidates_.size()) {
    const auto begin = candidates_.begin() + static_cast<std::ptrdiff_t>(sorted);
    const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(std::min(next, candidates_.size()));
    if (end != candidates_.end()) std::nth_element(begin, end, candidates_.end(), std::greater<>());
    std::sort(begin, end, std::greater<>());
    for (auto candidate = begin; candidate != end; ++candidate) {
      float weight = (logit_of(*candidate) - max_logit_) * sharpness_;
      exponentials({&weight, 1});
      sum += weight;
      ++sorted;
      if (sum >= wanted) {
        candidates_.resize(sorted);
        return;
      }
    }
    next *= 4;
  }
}

void Sampler::keep_min_p(double share) {
  const std::span<const float> weights = weigh();
  size_t kept = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] >= share) candidates_[kept++] = candidates_[i];
  }
  candidates_.resize(kept);
}

/// The first candidate at which the running sum of the weights passes `uniform` of their total; found by blocks, whose
/// sums come first.
int32_t Sampler::draw(double uniform) {
  const std::span<const float> weights = weigh();
  const double total = sum_of_blocks(weights, std::numeric_limits<double>::infinity()).sum;
  const double wanted = uniform * total;
  auto [begin, sum] = sum_of_blocks(weights, wanted);
  for (size_t i = begin; i < weights.size(); ++i) {
    sum += weights[i];
    if (sum > wanted) return token_of(candidates_[i]);
  }
  return token_of(candidates_.back());  // rounding: the sum of single weights is not that of blocks
}

void Sampler::logprobs(std::span<const float> logits, int32_t chosen, int32_t alternatives, PositionLogprobs& out) {
  const float max = checked_max(logits).value;
  weights_.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) weights_[i] = logits[i] - max;
  exponentials(weights_);
  const double log_sum = max + std::log(sum_of(weights_));
  const auto entry = [&](int32_t token) {
    return TokenLogprob{token, finite_float(logits[static_cast<size_t>(token)] - log_sum)};
  };
  out.chosen = entry(chosen);
  out.alternatives.clear();
  if (alternatives == 0) return;
  collect_largest(logits, std::min(static_cast<size_t>(alternatives), logits.size()));
  for (const Candidate candidate : candidates_) out.alternatives.push_back(entry(token_of(candidate)));
}

}  // namespace reprise::engine
