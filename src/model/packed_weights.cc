#include "model/packed_weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "load/convert.h"

namespace reprise::model {
namespace {

/// Plain bytes that are packed at a time: what is in memory twice.
constexpr size_t kPartBytes = size_t{4} << 20;
/// Rows of a part are a multiple of it, which fills the blocks of every format that there is.
constexpr int64_t kPartRows = 64;

/// Stored elements on the device as `dtype`, in place where that is possible.
Tensor import_as(device::Device& device, const load::StoredTensor& stored, std::span<const std::byte> bytes,
                 const TensorMeta& meta) {
  if (stored.dtype == meta.dtype) return device.import(meta, bytes, stored.owner);
  const auto converted = std::make_shared<std::vector<std::byte>>(meta.contiguous_bytes());
  load::convert(stored.dtype, bytes, meta.dtype, *converted);
  return device.import(meta, *converted, converted);
}

/// Which tensors a piece is made of, and in which form: what the name of its first tensor does not tell.
uint64_t content_of(std::span<const PackedWeights::Item> items, const TensorMeta& packed) {
  uint64_t hash = hash_text(fmt::format("{} {}", name_of(packed.dtype), packed.format.name()));
  for (const PackedWeights::Item& item : items) {
    hash = hash_text(fmt::format("|{} {}", item.shape.to_string(), fmt::join(item.sources, "+")), hash);
  }
  return hash;
}

}  // namespace

std::vector<Tensor> PackedWeights::pack(std::span<const Item> items, DType dtype, Use use) {
  std::vector<ops::PackedLayout> layouts;
  for (const Item& item : items) layouts.push_back(layout_of(dtype, item.shape));
  const auto add = [](size_t sum, const ops::PackedLayout& layout) { return sum + layout.bytes; };
  const size_t bytes = std::accumulate(layouts.begin(), layouts.end(), size_t{0}, add);
  std::shared_ptr<Storage> storage;
  if (checkpoint_ == nullptr) {
    storage = std::make_shared<Storage>(nullptr, bytes);
  } else {
    const load::PackEntry entry{items[0].sources[0], content_of(items, layouts[0].meta), bytes};
    storage = cached(entry, use);
    const bool is_cached = storage != nullptr;
    if (!is_cached) storage = device_.allocate(bytes);
    size_t offset = 0;
    std::map<std::string, size_t> offsets;  // of what is there already, by its first tensor
    for (size_t i = 0; i < items.size(); ++i) {
      const auto [place, is_new] = offsets.emplace(items[i].sources[0], offset);
      if (!is_new && !is_cached) {
        auto* data = static_cast<std::byte*>(storage->data());
        device_.copy(data + offset, data + place->second, layouts[i].bytes, device::CopyKind::kDeviceToDevice);
      } else if (is_new) {
        if (!is_cached) fill(items[i], dtype, storage, offset);
        for (const std::string& source : items[i].sources) taken_(checkpoint_->at(source));
      }
      offset += layouts[i].bytes;
    }
    if (!cache_path_.empty()) made_.push_back({entry, storage});
  }
  std::vector<Tensor> views;
  size_t offset = 0;
  for (const ops::PackedLayout& layout : layouts) {
    views.emplace_back(layout.meta, storage, offset);
    offset += layout.bytes;
  }
  return views;
}

std::shared_ptr<Storage> PackedWeights::cached(const load::PackEntry& entry, Use use) {
  if (!cache_) return nullptr;
  const std::span<const std::byte> bytes = cache_->find(entry);
  if (bytes.size() != entry.bytes || bytes.empty()) {
    if (cache_reason_.empty()) {
      cache_reason_ = fmt::format("it does not have the weight {}", entry.name);
      log_info("pack cache {}: {}; it is written again", cache_path_.string(), cache_reason_);
    }
    return nullptr;
  }
  if (use == Use::kMayChange) {
    const std::shared_ptr<Storage> storage = device_.allocate(bytes.size());
    device_.copy(storage->data(), bytes.data(), bytes.size(), device::CopyKind::kHostToDevice);
    cache_->file()->release(static_cast<size_t>(bytes.data() - cache_->file()->bytes().data()), bytes.size());
    return storage;
  }
  mapped_bytes_ += bytes.size();
  const TensorMeta meta(DType::kU8, Shape{static_cast<int64_t>(bytes.size())});
  return device_.import(meta, bytes, cache_->file()).storage();
}

bool PackedWeights::can_be_filled_in_parts(const Item& item, DType dtype) const {
  const std::span<const std::string> all(item.sources);
  return std::ranges::all_of(all.first(all.size() - 1), [&](const std::string& source) {
    const Shape& shape = checkpoint_->at(source).shape;
    return ops::fills_packed_blocks(registry_, device_.name(), TensorMeta(dtype, shape), shape.size(0));
  });
}

void PackedWeights::fill(const Item& item, DType dtype, const std::shared_ptr<Storage>& storage, size_t offset) {
  if (!can_be_filled_in_parts(item, dtype)) {
    fill_joined(item, dtype, Tensor(layout_of(dtype, item.shape).meta, storage, offset));
    return;
  }
  for (const std::string& source : item.sources) offset += fill_part(checkpoint_->at(source), dtype, storage, offset);
}

int64_t PackedWeights::rows_at_a_time(const load::StoredTensor& stored, DType dtype) const {
  const int64_t rows = stored.shape.size(0);
  const auto row_bytes = static_cast<int64_t>(TensorMeta(dtype, Shape{1, stored.shape[1]}).contiguous_bytes());
  if (row_bytes == 0) return rows;
  const int64_t part = std::max(kPartRows, static_cast<int64_t>(kPartBytes) / row_bytes / kPartRows * kPartRows);
  if (part >= rows) return rows;
  const bool ends_a_block =
      ops::fills_packed_blocks(registry_, device_.name(), TensorMeta(dtype, stored.shape), part) &&
      layout_of(dtype, Shape{2 * part, stored.shape[1]}).bytes ==
          2 * layout_of(dtype, Shape{part, stored.shape[1]}).bytes;
  return ends_a_block ? part : rows;
}

size_t PackedWeights::fill_part(const load::StoredTensor& stored, DType dtype, const std::shared_ptr<Storage>& storage,
                                size_t offset) {
  const int64_t rows = stored.shape.size(0);
  const int64_t step = rows_at_a_time(stored, dtype);
  const size_t row_bytes = rows == 0 ? 0 : stored.bytes.size() / static_cast<size_t>(rows);
  size_t done = 0;
  for (int64_t row = 0; row < rows; row += step) {
    const int64_t count = std::min(step, rows - row);
    const Shape shape{count, stored.shape[1]};
    const std::span<const std::byte> bytes =
        stored.bytes.subspan(static_cast<size_t>(row) * row_bytes, static_cast<size_t>(count) * row_bytes);
    const ops::PackedLayout layout = layout_of(dtype, shape);
    ops::pack_weight_into(registry_, device_, stream_, import_as(device_, stored, bytes, TensorMeta(dtype, shape)),
                          Tensor(layout.meta, storage, offset + done));
    stream_.synchronize();
    stored.release(bytes);
    done += layout.bytes;
  }
  return done;
}

void PackedWeights::fill_joined(const Item& item, DType dtype, const Tensor& packed) {
  const TensorMeta meta(dtype, item.shape);
  const auto together = std::make_shared<std::vector<std::byte>>(meta.contiguous_bytes());
  size_t offset = 0;
  for (const std::string& source : item.sources) {
    const load::StoredTensor& stored = checkpoint_->at(source);
    const std::span part = std::span(*together).subspan(offset, TensorMeta(dtype, stored.shape).contiguous_bytes());
    if (stored.dtype == dtype) {
      std::ranges::copy(stored.bytes, part.begin());
    } else {
      load::convert(stored.dtype, stored.bytes, dtype, part);
    }
    offset += part.size();
    stored.release(stored.bytes);
  }
  ops::pack_weight_into(registry_, device_, stream_, device_.import(meta, *together, together), packed);
  stream_.synchronize();
}

uint64_t PackedWeights::layout_hash(DType dtype) {
  // Neither full blocks of rows nor of columns, and every byte another one than its neighbours.
  const Shape shape{40, 72};
  const TensorMeta meta(dtype, shape);
  const auto plain = std::make_shared<std::vector<std::byte>>(meta.contiguous_bytes());
  for (size_t i = 0; i < plain->size(); ++i) (*plain)[i] = static_cast<std::byte>(i * 37 % 101 + i / 101 % 17);
  const ops::PackedLayout layout = layout_of(dtype, shape);
  const Tensor packed(layout.meta, device_.allocate(layout.bytes));
  device_.fill(packed.data(), 0, layout.bytes);
  ops::pack_weight_into(registry_, device_, stream_, device_.import(meta, *plain, plain), packed);
  stream_.synchronize();
  std::vector<std::byte> bytes(layout.bytes);
  device_.copy(bytes.data(), packed.data(), bytes.size(), device::CopyKind::kDeviceToHost);
  return hash_bytes(bytes);
}

load::PackIdentity PackedWeights::identity(DType dtype) {
  load::PackIdentity result;
  result.device = device_.name();
  result.dtype = name_of(dtype);
  for (const DType one : {DType::kF32, DType::kBF16, DType::kI8}) {
    result.formats += fmt::format("{}{} {}", result.formats.empty() ? "" : ", ", name_of(one),
                                  layout_of(one, Shape{16, 16}).meta.format.name());
    result.layout = result.layout * 1099511628211u + layout_hash(one);
  }
  result.sources = load::pack_sources(*checkpoint_);
  return result;
}

void PackedWeights::use_cache(const std::filesystem::path& file, DType dtype) {
  if (checkpoint_ == nullptr) return;
  identity_ = identity(dtype);
  cache_path_ = file;
  try {
    cache_ = load::PackCache::open(file, identity_);
  } catch (const Error& error) {
    cache_reason_ = error.code() == ErrorCode::kNotFound ? "there was none" : error.what();
    if (error.code() != ErrorCode::kNotFound) {
      log_warning("pack cache {}: {}; the weights are packed again", file.string(), cache_reason_);
    }
  }
}

std::string PackedWeights::finish_cache() {
  if (cache_path_.empty()) return "";
  const std::vector<Made> made = std::move(made_);
  if (cache_ && cache_reason_.empty()) return "mapped " + cache_path_.string();
  std::vector<load::PackEntry> entries;
  for (const Made& one : made) entries.push_back(one.entry);
  const auto read = [&](size_t index, uint64_t offset, std::span<std::byte> to) {
    device_.copy(to.data(), static_cast<const std::byte*>(made[index].storage->data()) + offset, to.size(),
                 device::CopyKind::kDeviceToHost);
  };
  try {
    load::write_pack_cache(cache_path_, identity_, entries, read);
  } catch (const std::exception& error) {
    // Whatever the matter is, the weights are there.
    log_warning("pack cache {}: {}; the next start packs the weights again", cache_path_.string(), error.what());
    return fmt::format("not written ({})", error.what());
  }
  return fmt::format("written {} ({})", cache_path_.string(), cache_reason_);
}

}  // namespace reprise::model
