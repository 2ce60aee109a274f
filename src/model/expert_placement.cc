#include "model/expert_placement.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/log.h"
#include "load/expert_location.h"

namespace reprise::model {
namespace {

/// How often each expert occurs.
std::vector<int64_t> copies_of(const ExpertPlacement& placement, int64_t experts) {
  std::vector<int64_t> copies(static_cast<size_t>(experts));
  for (const int32_t expert : placement) ++copies[static_cast<size_t>(expert)];
  return copies;
}

/// Rows that one copy of each expert has.
std::vector<double> rows_of_copies(std::span<const int64_t> rows, const std::vector<int64_t>& copies) {
  std::vector<double> result;
  for (size_t e = 0; e < rows.size(); ++e) {
    result.push_back(static_cast<double>(rows[e]) / static_cast<double>(copies[e]));
  }
  return result;
}

/// What the busiest rank (with one rank: the busiest place) would have to do.
double expected_peak(std::span<const int64_t> rows, const ExpertPlacement& placement, int32_t ranks) {
  const std::vector<double> each = rows_of_copies(rows, copies_of(placement, static_cast<int64_t>(rows.size())));
  const size_t group = ranks == 1 ? 1 : placement.size() / static_cast<size_t>(ranks);
  double peak = 0;
  for (size_t first = 0; first < placement.size(); first += group) {
    double sum = 0;
    for (size_t place = first; place < first + group; ++place) sum += each[static_cast<size_t>(placement[place])];
    peak = std::max(peak, sum);
  }
  return peak;
}

std::vector<int64_t> choose_copies(std::span<const int64_t> rows, size_t places) {
  std::vector<int64_t> copies(rows.size(), 1);
  for (size_t place = rows.size(); place < places; ++place) {
    const std::vector<double> each = rows_of_copies(rows, copies);
    ++copies[static_cast<size_t>(std::max_element(each.begin(), each.end()) - each.begin())];
  }
  return copies;
}

/// The experts of each rank, in ascending order.
std::vector<ExpertPlacement> pack(std::span<const int64_t> rows, const std::vector<int64_t>& copies, size_t places,
                                  int32_t ranks) {
  const std::vector<double> each = rows_of_copies(rows, copies);
  ExpertPlacement items;
  for (size_t e = 0; e < rows.size(); ++e) {
    items.insert(items.end(), static_cast<size_t>(copies[e]), static_cast<int32_t>(e));
  }
  const auto load = [&](int32_t expert) { return each[static_cast<size_t>(expert)]; };
  std::stable_sort(items.begin(), items.end(), [&](int32_t a, int32_t b) { return load(a) > load(b); });
  std::vector<ExpertPlacement> held(static_cast<size_t>(ranks));
  std::vector<double> sums(held.size());
  const size_t room = places / held.size();
  for (const int32_t expert : items) {
    size_t best = held.size();
    bool best_has = false;
    for (size_t rank = 0; rank < held.size(); ++rank) {
      if (held[rank].size() == room) continue;
      const bool has = std::find(held[rank].begin(), held[rank].end(), expert) != held[rank].end();
      if (best == held.size() || std::pair(has, sums[rank]) < std::pair(best_has, sums[best])) {
        best = rank;
        best_has = has;
      }
    }
    held[best].push_back(expert);
    sums[best] += load(expert);
  }
  for (ExpertPlacement& experts : held) std::sort(experts.begin(), experts.end());
  return held;
}

/// Puts the experts of a rank onto its places; what is there stays.
void fill_rank(ExpertPlacement experts, std::span<const int32_t> current, std::span<int32_t> places) {
  std::vector<size_t> open;
  for (size_t place = 0; place < places.size(); ++place) {
    const auto kept = std::find(experts.begin(), experts.end(), current[place]);
    if (kept == experts.end()) {
      open.push_back(place);
    } else {
      places[place] = current[place];
      experts.erase(kept);
    }
  }
  for (size_t i = 0; i < open.size(); ++i) places[open[i]] = experts[i];
}

/// The loop of plan_moves().
class MovePlanner {
 public:
  MovePlanner(const ExpertPlacement& from, const ExpertPlacement& to) : held_(from), wanted_(to) {
    const int32_t largest = *std::max_element(from.begin(), from.end());
    where_.resize(static_cast<size_t>(largest) + 1, -1);
    needed_.resize(where_.size(), 0);
    for (size_t place = 0; place < from.size(); ++place) {
      if (from[place] == to[place]) {
        settle(static_cast<int32_t>(place));
      } else {
        pending_.push_back(static_cast<int32_t>(place));
        ++needed_[static_cast<size_t>(to[place])];
      }
    }
    // An expert that lies at a place which stays is read from there; else from the first that has it.
    for (const int32_t place : pending_) {
      int32_t& source = where_[static_cast<size_t>(held(place))];
      if (source < 0) source = place;
    }
  }

  std::vector<ExpertMove> run() {
    while (!pending_.empty()) {
      const auto free = std::find_if(pending_.begin(), pending_.end(), [&](int32_t place) { return is_free(place); });
      if (free != pending_.end()) {
        fill(free);
      } else {
        // All that is left are rings, in which each place holds what another one waits for.
        const int32_t place = pending_.front();
        moves_.push_back({place, ExpertMove::kSpare});
        where_[static_cast<size_t>(held(place))] = ExpertMove::kSpare;
      }
    }
    return std::move(moves_);
  }

 private:
  int32_t held(int32_t place) const { return held_[static_cast<size_t>(place)]; }
  void settle(int32_t place) { where_[static_cast<size_t>(held(place))] = place; }
  /// Nobody needs what the place holds, or not from there.
  bool is_free(int32_t place) const {
    const auto expert = static_cast<size_t>(held(place));
    return needed_[expert] == 0 || where_[expert] != place;
  }
  void fill(std::vector<int32_t>::iterator pending) {
    const int32_t place = *pending;
    pending_.erase(pending);
    const int32_t expert = wanted_[static_cast<size_t>(place)];
    moves_.push_back({where_[static_cast<size_t>(expert)], place});
    --needed_[static_cast<size_t>(expert)];
    held_[static_cast<size_t>(place)] = expert;
    settle(place);
  }

  ExpertPlacement held_;
  const ExpertPlacement& wanted_;
  std::vector<int32_t> where_;   ///< the place that each expert is read from
  std::vector<int32_t> needed_;  ///< how many places still wait for each expert
  std::vector<int32_t> pending_;
  std::vector<ExpertMove> moves_;
};

void check_options(const load::ModelConfig& config, const ExpertPlacementOptions& options) {
  if (config.num_experts == 0) throw Error(ErrorCode::kInvalidArgument, "a placement of experts: the model has none");
  // More would be a mistake, and nobody could tell it from one.
  const int64_t most = 7 * config.num_experts;
  if (options.redundant > most) {
    throw Error(ErrorCode::kInvalidArgument, "{} redundant experts, at most {}: seven times the {} of a layer",
                options.redundant, most, config.num_experts);
  }
  if (options.ranks < 1) {
    throw Error(ErrorCode::kInvalidArgument, "experts for {} ranks, must be at least 1", options.ranks);
  }
}

void require_even(int64_t places, int32_t ranks) {
  if (places < 0 || places % ranks == 0) return;
  throw Error(ErrorCode::kInvalidArgument, "{} places of experts cannot be shared evenly by {} ranks", places, ranks)
      .remedy("choose the number of redundant experts accordingly");
}

void check_map(const std::string& file, size_t layer, const ExpertPlacement& map, int64_t experts, int64_t places) {
  if (static_cast<int64_t>(map.size()) != places) {
    throw Error(ErrorCode::kCorruptData, "{}: layer {} has {} places, expected {}", file, layer, map.size(), places);
  }
  std::vector<bool> there(static_cast<size_t>(experts));
  for (size_t place = 0; place < map.size(); ++place) {
    if (map[place] < 0 || map[place] >= experts) {
      throw Error(ErrorCode::kCorruptData, "{}: place {} of layer {} holds expert {}, but the layer has {} experts",
                  file, place, layer, map[place], experts);
    }
    there[static_cast<size_t>(map[place])] = true;
  }
  const auto missing = std::find(there.begin(), there.end(), false);
  if (missing == there.end()) return;
  throw Error(ErrorCode::kCorruptData, "{}: expert {} of layer {} has no place", file, missing - there.begin(), layer);
}

void check_counts(const std::string& file, size_t layer, const std::vector<int64_t>& counts, int64_t experts) {
  if (static_cast<int64_t>(counts.size()) == experts) return;
  throw Error(ErrorCode::kCorruptData, "{}: layer {} has counts of {} experts, expected {}", file, layer, counts.size(),
              experts);
}

}  // namespace

ExpertPlacement trivial_placement(int64_t experts, int64_t places) {
  ExpertPlacement placement;
  for (int64_t place = 0; place < places; ++place) placement.push_back(static_cast<int32_t>(place % experts));
  return placement;
}

ExpertPlacement balanced_placement(std::span<const int64_t> expert_rows, const ExpertPlacement& current,
                                   int32_t ranks) {
  const std::vector<int64_t> copies = choose_copies(expert_rows, current.size());
  const std::vector<ExpertPlacement> held = pack(expert_rows, copies, current.size(), ranks);
  ExpertPlacement placement(current.size());
  const size_t room = current.size() / held.size();
  for (size_t rank = 0; rank < held.size(); ++rank) {
    fill_rank(held[rank], std::span(current).subspan(rank * room, room),
              std::span(placement).subspan(rank * room, room));
  }
  const bool better = expected_peak(expert_rows, placement, ranks) < expected_peak(expert_rows, current, ranks);
  return better ? placement : current;
}

std::vector<int32_t> placement_map(const ExpertPlacement& placement, int64_t experts, int64_t copies) {
  const auto columns = static_cast<size_t>(copies) + 1;
  std::vector<int32_t> map(static_cast<size_t>(experts) * columns, -1);
  for (size_t e = 0; e < static_cast<size_t>(experts); ++e) map[e * columns] = 0;
  for (size_t place = 0; place < placement.size(); ++place) {
    int32_t* row = map.data() + static_cast<size_t>(placement[place]) * columns;
    REPRISE_CHECK(row[0] < copies);
    row[1 + row[0]++] = static_cast<int32_t>(place);
  }
  return map;
}

std::vector<int64_t> rows_of_experts(std::span<const int64_t> place_rows, const ExpertPlacement& placement,
                                     int64_t experts) {
  std::vector<int64_t> rows(static_cast<size_t>(experts));
  for (size_t place = 0; place < place_rows.size(); ++place) {
    rows[static_cast<size_t>(placement[place])] += place_rows[place];
  }
  return rows;
}

double balancedness(std::span<const int64_t> place_rows, int32_t ranks) {
  const size_t group = ranks == 1 ? 1 : place_rows.size() / static_cast<size_t>(ranks);
  int64_t most = 0;
  int64_t total = 0;
  for (size_t first = 0; first < place_rows.size(); first += group) {
    const auto rows = place_rows.subspan(first, group);
    const int64_t sum = std::accumulate(rows.begin(), rows.end(), int64_t{0});
    most = std::max(most, sum);
    total += sum;
  }
  if (most == 0) return 1;
  return static_cast<double>(total) / static_cast<double>(place_rows.size() / group) / static_cast<double>(most);
}

std::vector<ExpertMove> plan_moves(const ExpertPlacement& from, const ExpertPlacement& to) {
  REPRISE_CHECK(!from.empty() && from.size() == to.size());
  return MovePlanner(from, to).run();
}

std::vector<ExpertPlacement> place_experts(const load::ModelConfig& config, const ExpertPlacementOptions& options) {
  check_options(config, options);
  const std::string file = options.location.string();
  load::ExpertLocation location;
  if (!file.empty()) location = load::read_expert_location(options.location);
  const size_t listed = std::max(location.physical_to_logical.size(), location.logical_count.size());
  if (!file.empty() && listed != static_cast<size_t>(config.num_hidden_layers)) {
    throw Error(ErrorCode::kCorruptData, "{} has {} layers, but the model has {}", file, listed,
                config.num_hidden_layers);
  }
  int64_t places = options.redundant < 0 ? -1 : config.num_experts + options.redundant;
  std::vector<ExpertPlacement> placements(static_cast<size_t>(config.num_hidden_layers));
  std::string unused;
  for (size_t layer = 0; layer < placements.size(); ++layer) {
    const ExpertPlacement map =
        location.physical_to_logical.empty() ? ExpertPlacement() : location.physical_to_logical[layer];
    const std::vector<int64_t> counts =
        location.logical_count.empty() ? std::vector<int64_t>() : location.logical_count[layer];
    if (!config.is_sparse_layer(static_cast<int64_t>(layer))) {
      if (!map.empty() || !counts.empty()) unused += fmt::format("{}{}", unused.empty() ? "" : ", ", layer);
      continue;
    }
    if (!location.physical_to_logical.empty()) {
      if (places < 0) places = static_cast<int64_t>(map.size());
      check_map(file, layer, map, config.num_experts, places);
      placements[layer] = map;
      continue;
    }
    if (places < 0) places = config.num_experts;
    placements[layer] = trivial_placement(config.num_experts, places);
    if (file.empty()) continue;
    check_counts(file, layer, counts, config.num_experts);
    require_even(places, options.ranks);
    placements[layer] = balanced_placement(counts, placements[layer], options.ranks);
  }
  require_even(places, options.ranks);
  if (!unused.empty()) log_info("{}: without effect, as these layers have no experts: {}", file, unused);
  return placements;
}

}  // namespace reprise::model
