#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::load {

/// Numbers of a config are ids, sizes and counts: all fit an int32.
inline constexpr int64_t kMaxConfigInteger = std::numeric_limits<int32_t>::max();

/// Reads the keys of a JSON object with strict types, and remembers which were read. An absent key gives the default; a
/// null gives nothing where the function returns an optional or a list, and is an error elsewhere. Errors are
/// kCorruptData and name the file, the key and the value. Does not own the object.
class ConfigReader {
 public:
  /// `what` names the file; `prefix` goes before keys in messages ("rope_scaling."). Throws unless `object` is one.
  ConfigReader(const nlohmann::json& object, std::string what, std::string prefix = "");

  /// The key is there and is not null.
  bool has(std::string_view key) const;
  /// The value of a key, marked as read; null when it is absent.
  const nlohmann::json* get(std::string_view key);

  int64_t integer(std::string_view key, int64_t absent, int64_t min, int64_t max = kMaxConfigInteger);
  double number(std::string_view key, double absent, double min, double max = std::numeric_limits<double>::max());
  bool boolean(std::string_view key, bool absent);
  std::string text(std::string_view key, std::string_view absent);
  std::optional<int64_t> optional_integer(std::string_view key, int64_t min, int64_t max = kMaxConfigInteger);
  std::optional<double> optional_number(std::string_view key, double min,
                                        double max = std::numeric_limits<double>::max());
  std::optional<bool> optional_boolean(std::string_view key);
  std::optional<std::string> optional_text(std::string_view key);
  /// An integer, a list of integers, or nothing.
  std::vector<int32_t> integers(std::string_view key, int64_t min, int64_t max = kMaxConfigInteger);
  std::vector<std::string> texts(std::string_view key);

  /// Throws kCorruptData: "config.json: KEY is VALUE, not EXPECTED".
  [[noreturn]] void fail(std::string_view key, std::string_view expected) const;
  /// Throws kUnsupported: "config.json: KEY VALUE is not supported: REASON".
  [[noreturn]] void refuse(std::string_view key, std::string_view reason) const;

  /// Keys that were never read, with the prefix, cut to a printable length.
  std::vector<std::string> unused() const;

 private:
  const nlohmann::json& object_;
  std::string what_;
  std::string prefix_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace reprise::load
