#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/yaml_document.h"

namespace reprise::cli {

/// A map of a YAML file, read key by key: each getter checks type and range and gives the default when the key is
/// absent. Types are strict: a bool is true or false without quotes, a number is decimal. Errors are kInvalidArgument
/// with file, line, key, value and what is allowed.
class YamlSection {
 public:
  /// `node`: a map, or null for one without keys. `path`: its name in front of its keys, e.g. "data_config"; "" for the
  /// whole file. The node and `file` must outlive the section.
  YamlSection(const std::string& file, std::string path, const YamlNode& node);

  bool flag(const char* key, bool otherwise);
  int64_t integer(const char* key, int64_t otherwise, int64_t least, int64_t most);
  /// Above `least`, or equal to it if `with_least`; at most `most`.
  double number(const char* key, double otherwise, double least, double most, bool with_least = true);
  std::string text(const char* key, const std::string& otherwise);
  /// One of `allowed`; its first is the default.
  std::string choice(const char* key, const std::vector<std::string>& allowed);
  std::optional<uint64_t> optional_unsigned(const char* key);
  YamlSection section(const char* key);
  /// Null when the key is absent. The key counts as known.
  const YamlNode* find(const char* key);
  bool has(const char* key) { return find(key) != nullptr; }

  /// Refuses keys that no getter asked for, with the nearest that one did.
  void finish() const;

  const std::vector<YamlEntry>& entries() const { return node_.entries; }
  /// "FILE, line 7: data_config.seed is 1.5, " followed by `what`. For keys of the file.
  Error error(ErrorCode code, std::string_view key, std::string_view what) const;

 private:
  std::string full_name(std::string_view key) const;
  /// The scalar of a key, which must be without quotes; null when the key is absent.
  const std::string* plain_scalar(const char* key, std::string_view rule);

  const std::string& file_;
  std::string path_;
  const YamlNode& node_;
  std::vector<std::string> known_;
};

}  // namespace reprise::cli
