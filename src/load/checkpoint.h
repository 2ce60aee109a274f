#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "load/safetensors_file.h"

namespace reprise::load {

/// The weights of a model: one safetensors file, or several that an index names. Nothing but headers is read.
/// Immutable after open(); threads may share it.
class Checkpoint {
 public:
  /// Opens a .safetensors file, or a directory with model.safetensors or model.safetensors.index.json (the first of the
  /// two that is there, as Hugging Face does), or the index or the single file that msmodelslim writes
  /// (quant_model_weight*.safetensors). All problems of a sharded checkpoint are reported together, before
  /// anything is allocated for weights: absent, empty, cut or undeclared shards, Git LFS pointers, names that lead out
  /// of the directory, tensors that the index places in a shard which has none of that name, and tensors that the index
  /// leaves out. The index's total_size is not checked: writers disagree on what it counts. Throws kNotFound, kIo,
  /// kCorruptData or kUnsupported.
  static Checkpoint open(const std::filesystem::path& path);

  /// Sorted by name.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  /// Null when the checkpoint has no such tensor.
  const StoredTensor* find(std::string_view name) const;
  /// Throws kNotFound, naming the tensor and the checkpoint.
  const StoredTensor& at(std::string_view name) const;
  /// Bytes of all tensors.
  uint64_t total_bytes() const;
  /// The file or the directory that was opened.
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit Checkpoint(std::filesystem::path path) : path_(std::move(path)) {}
  void add(const SafetensorsFile& file);
  void sort();
  static Checkpoint open_sharded(const std::filesystem::path& directory, const std::filesystem::path& index);

  std::filesystem::path path_;
  std::vector<StoredTensor> tensors_;
};

}  // namespace reprise::load
