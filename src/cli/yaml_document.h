#pragma once

#include <string>
#include <vector>

namespace reprise::cli {

struct YamlEntry;

/// One value of a YAML file, with its place.
struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  std::string text = {};           ///< of a scalar
  bool plain = false;              ///< a scalar without quotes: it may stand for a bool or a number
  int line = 0;                    ///< from 1 on
  std::vector<YamlNode> items;     ///< of a list
  std::vector<YamlEntry> entries;  ///< of a map, in the order of the file

  /// The value as a message shows it: "8", "'8' (a text)", "a list".
  std::string describe() const;
};

struct YamlEntry {
  std::string key;
  int line = 0;
  YamlNode value;
};

/// Reads a file of one document; an empty one is null. kCorruptData, naming `name` and the line, for what is no YAML,
/// for keys that come twice or are no scalars, for tags, for more than one document, and for more values or deeper
/// nesting than any configuration has.
YamlNode parse_yaml(const std::string& text, const std::string& name);

}  // namespace reprise::cli
