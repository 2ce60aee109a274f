#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device/device.h"
#include "model/expert_placement.h"
#include "tensor/tensor.h"

namespace reprise::model {

/// What the experts of a layer have had to do.
struct ExpertLoad {
  int64_t layer = 0;
  std::vector<int64_t> rows;        ///< of each expert, since the model was loaded
  std::vector<int64_t> place_rows;  ///< of each place, in the window that is open
  ExpertPlacement placement;        ///< of that window
};

/// Where the experts of a model lie on its device, and what they have had to do. Between steps experts can be moved:
/// their weights and the map are written where they lie, so that captured graphs go on as they are. No step may run
/// meanwhile; one thread at a time. Shared by all that run the model.
class ExpertPlaces {
 public:
  struct Layer {
    int64_t layer = 0;
    int64_t experts = 0;
    std::vector<Tensor> stacks;  ///< all that belongs to places: [places, ...] each, the places one after the other
    Tensor map;                  ///< int32 [experts, 1 + copies]; absent: experts cannot be moved
    Tensor counts;               ///< int64 [places]; absent: nothing is counted
    ExpertPlacement placement;
  };

  /// The device must outlive it.
  explicit ExpertPlaces(device::Device& device) : device_(device) {}
  /// kInvalidArgument for a stack whose places are not equal parts of its storage.
  void add(Layer layer);

  bool empty() const { return layers_.empty(); }
  bool counts() const;
  bool can_move() const;
  /// Of each layer with experts; empty where nothing is counted. Reads device memory.
  std::vector<ExpertLoad> load() const;
  /// The same, and the window is closed: place_rows begin at 0 again.
  std::vector<ExpertLoad> take_window();

  /// Memory for move(), which otherwise allocates it once.
  void reserve();
  /// Moves experts so that the index-th layer with experts (as load() numbers them) has this placement, and gives the
  /// number of places that hold another expert now. Closes the window of the layer. kInvalidArgument for a placement
  /// of another size, with experts that do not exist or without one that does; kFailedPrecondition without a map.
  int64_t move(size_t index, const ExpertPlacement& placement);
  const ExpertPlacement& placement(size_t index) const { return layers_.at(index).layer.placement; }
  size_t layers() const { return layers_.size(); }

 private:
  struct Entry {
    Layer layer;
    std::vector<int64_t> rows_before;  ///< of each expert, in closed windows
  };

  ExpertLoad read(const Entry& entry) const;
  void close_window(Entry& entry, const ExpertLoad& load);
  static size_t place_bytes(const Tensor& stack);
  static void check(const Layer& layer, const ExpertPlacement& placement);
  void copy_place(const Tensor& stack, const ExpertMove& move);

  device::Device& device_;
  std::vector<Entry> layers_;
  std::shared_ptr<Storage> spare_;  ///< for one expert
};

}  // namespace reprise::model
