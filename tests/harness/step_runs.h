#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "harness/step_harness.h"

// Runs of a StepHarness that several tests make, and what they show.

namespace reprise::replay {

inline std::vector<int32_t> random_tokens(std::mt19937& random, size_t count, uint32_t vocabulary = 512) {
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % vocabulary);
  return tokens;
}

/// Everything that a run shows: logits of every step, and the KV contents at the end.
struct Outcome {
  std::vector<Rows> logits;
  std::vector<std::vector<std::byte>> kv;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

/// Prefills nine sequences of different lengths, then decodes batches of 1 to 9 of them, `rounds` times.
inline Outcome run_all_batches(StepHarness::Options options, int rounds = 2) {
  StepHarness harness(std::move(options));
  std::mt19937 random(11);
  Outcome outcome;
  for (int32_t sequence = 0; sequence < 9; ++sequence) {
    outcome.logits.push_back(harness.feed(sequence, random_tokens(random, 3 + 5 * static_cast<size_t>(sequence)), 16));
  }
  for (int round = 0; round < rounds; ++round) {
    for (int32_t batch = 1; batch <= 9; ++batch) {
      std::vector<int32_t> sequences;
      for (int32_t i = 0; i < batch; ++i) sequences.push_back((i * 2 + round) % 9);
      outcome.logits.push_back(harness.decode(sequences, random_tokens(random, static_cast<size_t>(batch))));
    }
  }
  for (int32_t sequence = 0; sequence < 9; ++sequence) outcome.kv.push_back(harness.kv_contents(sequence));
  return outcome;
}

/// One sequence per row, each of its own length.
inline void prefill(StepHarness& harness, int32_t count) {
  for (int32_t i = 0; i < count; ++i) harness.feed(i, std::vector<int32_t>(static_cast<size_t>(2 + 3 * i), 20 + i));
}

/// A decode step of the first sequences, all with the same token.
inline Rows decode_first(StepHarness& harness, int32_t count, int32_t token) {
  std::vector<int32_t> sequences;
  for (int32_t i = 0; i < count; ++i) sequences.push_back(i);
  return harness.decode(sequences, std::vector<int32_t>(static_cast<size_t>(count), token));
}

inline int64_t decodes(StepHarness& harness, StepReason reason) {
  return harness.runner().counters().steps(StepKind::kDecode, reason);
}

}  // namespace reprise::replay
