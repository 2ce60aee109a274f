#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "load/checkpoint.h"
#include "load/pack_cache.h"
#include "ops/pack_weight.h"
#include "ops/registry.h"

namespace reprise::model {

/// Makes the weights of products in the form that the device reads. Each is packed where it stays, in parts of a few
/// megabytes, and the pages of the file behind a part are given back at once: nothing is in memory twice but a part.
/// Or they come from a cache file of packed weights, mapped, and nothing is packed.
class PackedWeights {
 public:
  /// Told of each stored tensor when all of it has been taken.
  using Taken = std::function<void(const load::StoredTensor& tensor)>;

  /// Without a checkpoint weights have no memory. All but the callback must outlive this.
  PackedWeights(const load::Checkpoint* checkpoint, const ops::Registry& registry, device::Device& device,
                device::Stream& stream, Taken taken)
      : checkpoint_(checkpoint), registry_(registry), device_(device), stream_(stream), taken_(std::move(taken)) {}

  /// Takes weights from the cache `file` if it is good for this model, and says in the log why where it is not.
  void use_cache(const std::filesystem::path& file, DType dtype);

  /// One weight [N, K].
  struct Item {
    std::vector<std::string> sources;  ///< stored tensors, whose rows follow each other in it
    Shape shape;                       ///< of all together
  };
  enum class Use { kReadOnly, kMayChange };
  /// The items packed, one after the other in one storage, converted to `dtype` before. Items of the same tensors are
  /// copies. What may change later is never memory of a file.
  std::vector<Tensor> pack(std::span<const Item> items, DType dtype, Use use = Use::kReadOnly);

  /// Writes the cache if there was none that had everything; a failure is a warning in the log. Returns what became of
  /// the cache, "" if none is used. Weights are kept alive until then.
  std::string finish_cache();
  size_t mapped_bytes() const { return mapped_bytes_; }

 private:
  struct Made {
    load::PackEntry entry;
    std::shared_ptr<Storage> storage;
  };

  ops::PackedLayout layout_of(DType dtype, const Shape& shape) const {
    return ops::packed_layout(registry_, device_.name(), TensorMeta(dtype, shape));
  }
  /// From the cache, null if that does not have it.
  std::shared_ptr<Storage> cached(const load::PackEntry& entry, Use use);
  /// Brings one item to `offset` of a storage.
  void fill(const Item& item, DType dtype, const std::shared_ptr<Storage>& storage, size_t offset);
  /// One stored tensor; returns its bytes in packed form.
  size_t fill_part(const load::StoredTensor& stored, DType dtype, const std::shared_ptr<Storage>& storage,
                   size_t offset);
  /// Items whose parts do not fill their blocks are put together first.
  void fill_joined(const Item& item, DType dtype, const Tensor& packed);
  int64_t rows_at_a_time(const load::StoredTensor& stored, DType dtype) const;
  bool can_be_filled_in_parts(const Item& item, DType dtype) const;
  load::PackIdentity identity(DType dtype);
  uint64_t layout_hash(DType dtype);

  const load::Checkpoint* checkpoint_;
  const ops::Registry& registry_;
  device::Device& device_;
  device::Stream& stream_;
  Taken taken_;
  std::filesystem::path cache_path_;
  load::PackIdentity identity_;
  std::optional<load::PackCache> cache_;
  std::string cache_reason_;  ///< why it cannot be used, "" if it can
  std::vector<Made> made_;    ///< with a cache only
  size_t mapped_bytes_ = 0;
};

}  // namespace reprise::model
