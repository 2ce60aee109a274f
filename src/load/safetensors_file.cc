#include "load/safetensors_file.h"

#include "base/error.h"
#include "load/json.h"
#include "load/mapping_guard.h"
#include "load/safetensors_header.h"

namespace reprise::load {

void StoredTensor::release(std::span<const std::byte> part) const {
  owner->release(static_cast<size_t>(part.data() - owner->bytes().data()), part.size());
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile result(open_guarded(path));
  SafetensorsHeader header = parse_safetensors_header(result.file_->bytes(), path.string());
  result.metadata_ = std::move(header.metadata);
  result.tensors_.reserve(header.entries.size());
  for (HeaderEntry& entry : header.entries) {
    result.index_.emplace(entry.name, result.tensors_.size());
    result.tensors_.push_back({std::move(entry.name), entry.dtype, entry.shape,
                               result.file_->bytes().subspan(entry.begin, entry.end - entry.begin), result.file_});
  }
  return result;
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const StoredTensor& SafetensorsFile::at(std::string_view name) const {
  const StoredTensor* found = find(name);
  if (found == nullptr) throw Error(ErrorCode::kNotFound, "{} has no tensor {}", path().string(), printable(name));
  return *found;
}

}  // namespace reprise::load
