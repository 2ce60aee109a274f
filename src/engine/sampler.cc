#include "engine/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "base/error.h"
#include "base/random.h"

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

// Blocks in which the largest value is looked for: few of them, and short beside the vocabulary.
constexpr size_t kBlock = 512;

// The largest value, after a check that every one is finite.
Largest checked_max(std::span<const float> logits) {
  REPRISE_CHECK(!logits.empty());
  Extremes extremes;
  Largest largest;
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const Extremes block = extremes_of(logits.subspan(begin, std::min(kBlock, logits.size() - begin)));
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
  cumulative_.reserve(static_cast<size_t>(vocabulary));
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

// Unnormalised probability; 1 for the best token.
double Sampler::weight(Candidate candidate) const {
  return std::exp((static_cast<double>(logit_of(candidate)) - max_logit_) / temperature_);
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
  for (size_t token = count; token < logits.size(); ++token) {
    if (logits[token] <= least) continue;
    std::pop_heap(candidates_.begin(), candidates_.end(), std::greater<>());
    candidates_.back() = pack(logits[token], token);
    std::push_heap(candidates_.begin(), candidates_.end(), std::greater<>());
    least = logit_of(candidates_.front());
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
  std::vector<double>& weights = cumulative_;  // scratch that draw() fills later
  weights.clear();
  double total = 0;
  for (const Candidate candidate : candidates_) {
    weights.push_back(weight(candidate));
    total += weights.back();
  }
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
      sum += weight(*candidate);
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
  std::erase_if(candidates_, [&](Candidate candidate) { return weight(candidate) < share; });
}

int32_t Sampler::draw(double uniform) {
  cumulative_.clear();
  double sum = 0;
  for (const Candidate candidate : candidates_) cumulative_.push_back(sum += weight(candidate));
  const auto found = std::upper_bound(cumulative_.begin(), cumulative_.end(), uniform * sum);
  if (found != cumulative_.end()) return token_of(candidates_[static_cast<size_t>(found - cumulative_.begin())]);
  return token_of(candidates_.back());  // uniform * total was rounded up to total
}

void Sampler::logprobs(std::span<const float> logits, int32_t chosen, int32_t alternatives, PositionLogprobs& out) {
  max_logit_ = checked_max(logits).value;
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - max_logit_);
  const double log_sum = max_logit_ + std::log(sum);
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
