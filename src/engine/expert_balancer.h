#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model/expert_places.h"

namespace reprise::engine {

/// What the experts of a layer had to do in a range of steps, during which none was moved.
struct ExpertLoadWindow {
  int64_t first_step = 0;  ///< steps of prompts and of output, counted from 0
  int64_t last_step = 0;
  int64_t layer = 0;
  std::vector<int64_t> rows;        ///< of each expert
  std::vector<int64_t> place_rows;  ///< of each place
  model::ExpertPlacement placement;
  double balancedness = 0;  ///< see model::balancedness
};

struct ExpertBalanceOptions {
  /// After so many steps experts are placed anew by what they had to do in these; 0: never.
  int64_t rebalance_every = 0;
  /// Ranks that places belong to; see model/expert_placement.h.
  int32_t ranks = 1;
  /// Told the load of each layer before each rebalance, and at the end of what is left; may be empty. It must not
  /// throw.
  std::function<void(const ExpertLoadWindow&)> on_load;
};

/// Watches the load of a model's experts and moves them between steps, where it is asked to.
class ExpertBalancer {
 public:
  struct Report {
    int64_t rebalances = 0;
    int64_t moved_experts = 0;  ///< places that hold another expert than before, of all layers and rebalances
    double milliseconds = 0;    ///< that the rebalances took
  };

  /// `places` (null: a model without experts) must outlive it. Allocates what moves need. kInvalidArgument for numbers
  /// out of range, and when there is nothing to count or to move.
  ExpertBalancer(model::ExpertPlaces* places, ExpertBalanceOptions options);
  /// Tells the load of the last steps.
  ~ExpertBalancer();
  ExpertBalancer(const ExpertBalancer&) = delete;
  ExpertBalancer& operator=(const ExpertBalancer&) = delete;

  /// Between two steps, neither of which may be running. Allocates nothing unless a rebalance is due.
  void before_step() {
    if (options_.rebalance_every > 0 && steps_ - window_begin_ == options_.rebalance_every) rebalance();
    ++steps_;
  }
  const Report& report() const { return report_; }
  const ExpertBalanceOptions& options() const { return options_; }

 private:
  void rebalance();
  std::vector<ExpertLoadWindow> take_windows();

  model::ExpertPlaces* places_;
  ExpertBalanceOptions options_;
  int64_t steps_ = 0;
  int64_t window_begin_ = 0;
  Report report_;
};

}  // namespace reprise::engine
