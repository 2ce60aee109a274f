#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "load/model_config.h"

namespace reprise::model {

// A layer with E experts keeps their weights at P >= E places. Each expert is at one place at least; the places beyond
// E hold copies of some. Where ranks share the work, each has P / ranks places, one after the other.

/// Of each place, the expert that it holds.
using ExpertPlacement = std::vector<int32_t>;

/// Place p holds expert p modulo E.
ExpertPlacement trivial_placement(int64_t experts, int64_t places);

/// Places for a layer whose experts have had so many rows: the expert with the most rows for each of its copies gets
/// the next free copy, until all places are taken; then the copies go, the one with the most rows first, to the rank
/// with the fewest (of those with room, rather one that has no copy of the expert). What `current` has on a rank stays
/// at its place there. Gives `current` itself when the busiest rank (with one rank: the busiest place) would have no
/// less to do. Copies of an expert are taken to share its rows evenly. Of equal ones the lowest comes first.
ExpertPlacement balanced_placement(std::span<const int64_t> expert_rows, const ExpertPlacement& current, int32_t ranks);

/// The map that moe_place reads, int32 [experts, 1 + copies]: `copies` at least the most that an expert has.
std::vector<int32_t> placement_map(const ExpertPlacement& placement, int64_t experts, int64_t copies);

/// Rows of each expert, from those of each place.
std::vector<int64_t> rows_of_experts(std::span<const int64_t> place_rows, const ExpertPlacement& placement,
                                     int64_t experts);

/// The mean of the ranks' rows over the largest of them (with one rank: of the places'): 1 is perfect; 1 where there
/// are no rows.
double balancedness(std::span<const int64_t> place_rows, int32_t ranks);

/// A copy of what an expert has from one place to another; kSpare stands for memory beside the places.
struct ExpertMove {
  static constexpr int32_t kSpare = -1;
  int32_t from;
  int32_t to;
};
/// What turns one placement into another of the same size, in order: each move reads what the moves before have left.
/// Every expert of `to` is in `from`. The spare memory holds one expert at a time.
std::vector<ExpertMove> plan_moves(const ExpertPlacement& from, const ExpertPlacement& to);

/// How experts are placed when a model is loaded.
struct ExpertPlacementOptions {
  /// A file of load/expert_location.h: a placement, or counts that are balanced; empty: trivial.
  std::filesystem::path location;
  /// Places beyond the number of experts; -1: as the file has them, else none.
  int64_t redundant = -1;
  int32_t ranks = 1;
  /// Copies of an expert share its rows, see ops/moe_place.h; else the first has them all.
  bool dynamic = false;
};
/// The placement of each layer (empty for those without experts). Throws kInvalidArgument for options that contradict
/// each other or the model, and kCorruptData naming file, layer and place for a file that does not fit.
std::vector<ExpertPlacement> place_experts(const load::ModelConfig& config, const ExpertPlacementOptions& options);

}  // namespace reprise::model
