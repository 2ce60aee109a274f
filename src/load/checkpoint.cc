#include "load/checkpoint.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/mapped_file.h"
#include "load/find_file.h"
#include "load/json.h"
#include "load/problems.h"

namespace reprise::load {
namespace {

constexpr const char* kSingleName = "model.safetensors";
constexpr const char* kIndexName = "model.safetensors.index.json";
/// msmodelslim's names: quant_model_weights.safetensors, quant_model_weight_w8a8.safetensors, and indices of such.
constexpr const char* kQuantizedPrefix = "quant_model_weight";
/// The largest known index files have a few megabytes.
constexpr size_t kMaxIndexBytes = size_t{256} << 20;

/// Shard name to the tensors that the index places in it.
using Shards = std::map<std::string, std::vector<std::string>>;

/// Shards lie beside the index, as Hugging Face writes them; a name must not lead elsewhere.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string("/\\\0", 3)) == std::string::npos;
}

Shards read_index(const std::filesystem::path& path) {
  const nlohmann::json index = parse_json(read_file(path, kMaxIndexBytes), path.string());
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object() || map->empty()) {
    throw Error(ErrorCode::kCorruptData, "{} has no weight_map that names tensors and files", path.string());
  }
  Shards shards;
  Problems problems;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string()) {
      problems.add(fmt::format("weight_map entry {} is {}, not a string", printable(tensor), describe(shard)));
      continue;
    }
    const std::string& name = shard.get_ref<const std::string&>();
    if (!is_plain_name(name)) {
      problems.add(fmt::format("tensor {} lies in {}, which is not a file name in the same directory",
                               printable(tensor), printable(name)));
      continue;
    }
    shards[name].push_back(tensor);
  }
  problems.throw_if_any(ErrorCode::kCorruptData, path.string());
  return shards;
}

/// Whether weights in another format are there, to say what is wrong rather than only what is absent.
[[noreturn]] void throw_no_weights(const std::filesystem::path& directory) {
  std::string found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".safetensors" || extension == ".bin" || extension == ".gguf" || extension == ".pth") {
      found += (found.empty() ? "" : ", ") + entry.path().filename().string();
    }
  }
  throw Error(ErrorCode::kNotFound, "{} has neither {} nor {}", directory.string(), kSingleName, kIndexName)
      .remedy(found.empty()
                  ? "give the directory of a model in Hugging Face layout"
                  : fmt::format("there is {}; a single .safetensors file can be given by its own name", found));
}

}  // namespace

Checkpoint Checkpoint::open(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) {
    Checkpoint result(path);
    result.add(SafetensorsFile::open(path));
    result.sort();
    return result;
  }
  if (std::filesystem::exists(path / kSingleName)) {
    Checkpoint result(path);
    result.add(SafetensorsFile::open(path / kSingleName));
    result.sort();
    return result;
  }
  if (std::filesystem::exists(path / kIndexName)) return open_sharded(path, path / kIndexName);
  if (const auto index = find_file(path, kQuantizedPrefix, ".safetensors.index.json"))
    return open_sharded(path, *index);
  const auto quantized = find_file(path, kQuantizedPrefix, ".safetensors");
  if (!quantized) throw_no_weights(path);
  Checkpoint result(path);
  result.add(SafetensorsFile::open(*quantized));
  result.sort();
  return result;
}

Checkpoint Checkpoint::open_sharded(const std::filesystem::path& directory, const std::filesystem::path& index) {
  const Shards shards = read_index(index);
  Checkpoint result(directory);
  Problems problems;
  ErrorCode code = ErrorCode::kCorruptData;
  for (const auto& [name, placed] : shards) {
    try {
      const SafetensorsFile file = SafetensorsFile::open(directory / name);
      for (const std::string& tensor : placed) {
        if (file.find(tensor) == nullptr) {
          problems.add(fmt::format("{} has no tensor {}, which the index places there", name, printable(tensor)));
        }
      }
      // Both lists are without duplicates, so equal sizes and no absent name mean equal lists.
      if (file.tensors().size() != placed.size()) {
        std::vector<std::string> sorted = placed;
        std::ranges::sort(sorted);
        for (const StoredTensor& tensor : file.tensors()) {
          if (!std::ranges::binary_search(sorted, tensor.name)) {
            problems.add(fmt::format("{} has the tensor {}, which the index does not place there", name,
                                     printable(tensor.name)));
          }
        }
      }
      result.add(file);
    } catch (const Error& error) {
      // An absent shard among them makes the whole "not found", which is what the user has to mend first.
      if (error.code() == ErrorCode::kNotFound) code = ErrorCode::kNotFound;
      problems.add(error.what());
    }
  }
  problems.throw_if_any(code, index.string());
  result.sort();
  return result;
}

void Checkpoint::add(const SafetensorsFile& file) {
  tensors_.insert(tensors_.end(), file.tensors().begin(), file.tensors().end());
}

void Checkpoint::sort() { std::ranges::sort(tensors_, {}, &StoredTensor::name); }

const StoredTensor* Checkpoint::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(tensors_, name, {}, &StoredTensor::name);
  return found == tensors_.end() || found->name != name ? nullptr : &*found;
}

const StoredTensor& Checkpoint::at(std::string_view name) const {
  const StoredTensor* found = find(name);
  if (found == nullptr) throw Error(ErrorCode::kNotFound, "{} has no tensor {}", path_.string(), printable(name));
  return *found;
}

uint64_t Checkpoint::total_bytes() const {
  uint64_t total = 0;
  for (const StoredTensor& tensor : tensors_) total += tensor.bytes.size();
  return total;
}

}  // namespace reprise::load
