#include "model/expert_places.h"

#include <algorithm>

#include "base/error.h"

namespace reprise::model {

void ExpertPlaces::add(Layer layer) {
  for (const Tensor& stack : layer.stacks) {
    if (stack.data() == nullptr || !layer.map.defined()) continue;
    const bool whole = stack.offset_bytes() == 0 && stack.size(0) == static_cast<int64_t>(layer.placement.size()) &&
                       stack.storage()->bytes() % layer.placement.size() == 0;
    if (whole) continue;
    throw Error(ErrorCode::kInvalidArgument, "experts of layer {}: {} in {} bytes is no stack of {} places",
                layer.layer, stack.meta().to_string(), stack.storage()->bytes(), layer.placement.size());
  }
  const std::vector<int64_t> none(static_cast<size_t>(layer.experts));
  layers_.push_back({std::move(layer), none});
}

bool ExpertPlaces::counts() const { return !layers_.empty() && layers_[0].layer.counts.data() != nullptr; }

bool ExpertPlaces::can_move() const { return !layers_.empty() && layers_[0].layer.map.data() != nullptr; }

ExpertLoad ExpertPlaces::read(const Entry& entry) const {
  const Layer& layer = entry.layer;
  ExpertLoad load;
  load.layer = layer.layer;
  load.placement = layer.placement;
  load.place_rows.resize(layer.placement.size());
  device_.copy(load.place_rows.data(), layer.counts.data(), layer.counts.meta().contiguous_bytes(),
               device::CopyKind::kDeviceToHost);
  load.rows = rows_of_experts(load.place_rows, layer.placement, layer.experts);
  for (size_t e = 0; e < load.rows.size(); ++e) load.rows[e] += entry.rows_before[e];
  return load;
}

void ExpertPlaces::close_window(Entry& entry, const ExpertLoad& load) {
  entry.rows_before = load.rows;
  device_.fill(entry.layer.counts.data(), 0, entry.layer.counts.meta().contiguous_bytes());
}

std::vector<ExpertLoad> ExpertPlaces::load() const {
  std::vector<ExpertLoad> loads;
  if (!counts()) return loads;
  for (const Entry& entry : layers_) loads.push_back(read(entry));
  return loads;
}

std::vector<ExpertLoad> ExpertPlaces::take_window() {
  std::vector<ExpertLoad> loads = load();
  for (size_t i = 0; i < loads.size(); ++i) close_window(layers_[i], loads[i]);
  return loads;
}

size_t ExpertPlaces::place_bytes(const Tensor& stack) {
  return stack.storage()->bytes() / static_cast<size_t>(stack.size(0));
}

void ExpertPlaces::reserve() {
  size_t largest = 0;
  for (const Entry& entry : layers_) {
    for (const Tensor& stack : entry.layer.stacks) largest = std::max(largest, place_bytes(stack));
  }
  if (spare_ == nullptr && largest > 0) spare_ = device_.allocate(largest);
}

void ExpertPlaces::check(const Layer& layer, const ExpertPlacement& placement) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::kInvalidArgument, "a placement for layer {} {}", layer.layer, what);
  };
  if (placement.size() != layer.placement.size()) {
    fail(fmt::format("has {} places, expected {}", placement.size(), layer.placement.size()));
  }
  std::vector<bool> there(static_cast<size_t>(layer.experts));
  for (const int32_t expert : placement) {
    if (expert < 0 || expert >= layer.experts) fail(fmt::format("has expert {} of {}", expert, layer.experts));
    there[static_cast<size_t>(expert)] = true;
  }
  const auto missing = std::find(there.begin(), there.end(), false);
  if (missing != there.end()) fail(fmt::format("has no place for expert {}", missing - there.begin()));
}

void ExpertPlaces::copy_place(const Tensor& stack, const ExpertMove& move) {
  const size_t bytes = place_bytes(stack);
  const auto address = [&](int32_t place) {
    return place == ExpertMove::kSpare ? static_cast<std::byte*>(spare_->data())
                                       : stack.data_as<std::byte>() + static_cast<size_t>(place) * bytes;
  };
  device_.copy(address(move.to), address(move.from), bytes, device::CopyKind::kDeviceToDevice);
}

int64_t ExpertPlaces::move(size_t index, const ExpertPlacement& placement) {
  Entry& entry = layers_.at(index);
  Layer& layer = entry.layer;
  if (layer.map.data() == nullptr) {
    throw Error(ErrorCode::kFailedPrecondition, "the experts of layer {} cannot be moved: they have no map",
                layer.layer);
  }
  check(layer, placement);
  int64_t moved = 0;
  for (size_t place = 0; place < placement.size(); ++place) moved += placement[place] != layer.placement[place] ? 1 : 0;
  if (moved == 0) return 0;
  reserve();
  if (layer.counts.data() != nullptr) close_window(entry, read(entry));
  const std::vector<ExpertMove> moves = plan_moves(layer.placement, placement);
  for (const Tensor& stack : layer.stacks) {
    for (const ExpertMove& one : moves) copy_place(stack, one);
  }
  const std::vector<int32_t> map = placement_map(placement, layer.experts, layer.map.size(1) - 1);
  device_.copy(layer.map.data(), map.data(), map.size() * sizeof(int32_t), device::CopyKind::kHostToDevice);
  layer.placement = placement;
  return moved;
}

}  // namespace reprise::model
