#include "engine/expert_balancer.h"

#include <chrono>

#include "base/error.h"
#include "base/log.h"

namespace reprise::engine {

ExpertBalancer::ExpertBalancer(model::ExpertPlaces* places, ExpertBalanceOptions options)
    : places_(places), options_(std::move(options)) {
  if (options_.rebalance_every < 0 || options_.ranks < 1) {
    throw Error(ErrorCode::kInvalidArgument, "a rebalance of experts every {} steps for {} ranks",
                options_.rebalance_every, options_.ranks);
  }
  const bool counted = places_ != nullptr && places_->counts();
  if (options_.on_load && !counted) {
    throw Error(ErrorCode::kInvalidArgument, "the load of experts cannot be told: the model does not count it");
  }
  if (options_.rebalance_every > 0 && (!counted || !places_->can_move())) {
    throw Error(ErrorCode::kInvalidArgument, "experts cannot be rebalanced: the model does not {}",
                counted ? "let them be moved" : "count their load");
  }
  // The load is told by ranks as well.
  for (size_t i = 0; counted && i < places_->layers(); ++i) {
    if (places_->placement(i).size() % static_cast<size_t>(options_.ranks) == 0) continue;
    throw Error(ErrorCode::kInvalidArgument, "{} places of experts cannot be shared evenly by {} ranks",
                places_->placement(i).size(), options_.ranks);
  }
  if (options_.rebalance_every == 0) return;
  places_->reserve();
  places_->take_window();
}

ExpertBalancer::~ExpertBalancer() {
  if (!options_.on_load || steps_ == window_begin_) return;
  try {
    for (const ExpertLoadWindow& window : take_windows()) options_.on_load(window);
  } catch (const std::exception& error) {
    log_warning("the load of experts in the last steps is lost: {}", error.what());
  }
}

std::vector<ExpertLoadWindow> ExpertBalancer::take_windows() {
  std::vector<ExpertLoadWindow> windows;
  for (model::ExpertLoad& load : places_->take_window()) {
    ExpertLoadWindow window;
    window.first_step = window_begin_;
    window.last_step = steps_ - 1;
    window.layer = load.layer;
    window.rows = model::rows_of_experts(load.place_rows, load.placement, static_cast<int64_t>(load.rows.size()));
    window.balancedness = model::balancedness(load.place_rows, options_.ranks);
    window.place_rows = std::move(load.place_rows);
    window.placement = std::move(load.placement);
    windows.push_back(std::move(window));
  }
  window_begin_ = steps_;
  return windows;
}

void ExpertBalancer::rebalance() {
  const auto start = std::chrono::steady_clock::now();
  const std::vector<ExpertLoadWindow> windows = take_windows();
  int64_t moved = 0;
  for (size_t i = 0; i < windows.size(); ++i) {
    if (options_.on_load) options_.on_load(windows[i]);
    moved += places_->move(i, model::balanced_placement(windows[i].rows, windows[i].placement, options_.ranks));
  }
  ++report_.rebalances;
  report_.moved_experts += moved;
  report_.milliseconds += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  log_debug("experts rebalanced after step {}: {} moved", steps_ - 1, moved);
}

}  // namespace reprise::engine
