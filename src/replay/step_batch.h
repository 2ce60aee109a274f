#pragma once

#include <cstdint>
#include <vector>

#include "replay/step_counters.h"

namespace reprise::replay {

/// One step on the host: which tokens of which sequences run. Reused from step to step, so that its vectors stop
/// growing.
struct StepBatch {
  /// T: one entry per token, the tokens of a sequence side by side.
  std::vector<int32_t> token_ids;
  std::vector<int32_t> positions;
  std::vector<int32_t> slots;
  /// B: one entry per sequence.
  std::vector<int32_t> query_lengths;
  std::vector<int32_t> kv_lengths;      ///< with this step's tokens
  std::vector<int32_t> sequence_slots;  ///< where a model keeps per-sequence state; empty when it keeps none
  /// B x max_pages: the pages of each sequence; entries behind a sequence's last page are not read.
  std::vector<int32_t> block_tables;
  int32_t max_pages = 0;
  /// Logits of every token instead of the last one of each sequence.
  bool all_logits = false;
  /// Its tokens are of prompts: of one token each they run as those of a decode step do, and are counted as what they
  /// are.
  bool reads_prompts = false;

  int32_t tokens() const { return static_cast<int32_t>(token_ids.size()); }
  int32_t sequences() const { return static_cast<int32_t>(query_lengths.size()); }
  /// One token per sequence: what captured graphs replay.
  bool is_decode() const { return !all_logits && tokens() == sequences(); }
  StepKind kind() const { return is_decode() && !reads_prompts ? StepKind::kDecode : StepKind::kPrefill; }
  void clear();
};

}  // namespace reprise::replay
