#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>

namespace reprise::text {

/// One JSON object read with every key accounted for: a key that nobody asked for is refused by finish(). Errors name
/// the path, such as `pre_tokenizer.pretokenizers[0].behavior`. The value must outlive this.
class JsonObject {
 public:
  /// Throws kCorruptData unless the value is an object.
  JsonObject(const nlohmann::json& value, std::string path);

  const std::string& path() const { return path_; }
  std::string path_of(std::string_view key) const;

  /// Null when the key is absent.
  const nlohmann::json* find(std::string_view key);
  /// The getters without a default throw kCorruptData when the key is absent; all throw it for another JSON type.
  const nlohmann::json& get(std::string_view key);
  bool get_bool(std::string_view key);
  bool get_bool(std::string_view key, bool otherwise);
  const std::string& get_string(std::string_view key);
  int64_t get_integer(std::string_view key);
  const nlohmann::json& get_array(std::string_view key);

  /// Throws kUnsupported, naming it, for a key that was not asked for.
  void finish() const;

 private:
  const nlohmann::json& value_;
  std::string path_;
  std::set<std::string, std::less<>> read_;
};

/// `path[index]`.
std::string element_path(std::string_view path, size_t index);

/// Throws kCorruptData: the value at `path` is not what it should be.
[[noreturn]] void throw_wrong_type(std::string_view path, std::string_view expected, const nlohmann::json& value);

}  // namespace reprise::text
