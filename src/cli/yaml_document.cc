#include "cli/yaml_document.h"

#include <fmt/core.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "base/error.h"

namespace reprise::cli {
namespace {

/// Aliases repeat what they name, and one may contain itself.
constexpr int kMostNodes = 10000;
constexpr int kMostLevels = 32;

class Converter {
 public:
  explicit Converter(const std::string& name) : name_(name) {}

  YamlNode convert(const YAML::Node& node, int level = 0) {
    const int line = node.Mark().line + 1;
    if (++nodes_ > kMostNodes || level > kMostLevels) fail(line, "more values or deeper nesting than expected");
    YamlNode result;
    result.line = line;
    check_tag(node, line);
    switch (node.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null:
        break;
      case YAML::NodeType::Scalar:
        result.kind = YamlNode::Kind::kScalar;
        result.text = node.Scalar();
        result.plain = node.Tag() == "?";
        break;
      case YAML::NodeType::Sequence:
        result.kind = YamlNode::Kind::kList;
        for (const YAML::Node& item : node) result.items.push_back(convert(item, level + 1));
        break;
      case YAML::NodeType::Map:
        result.kind = YamlNode::Kind::kMap;
        for (const auto& entry : node) add(result, entry.first, entry.second, level);
        break;
    }
    return result;
  }

  [[noreturn]] void fail(int line, const std::string& what) const {
    throw Error(ErrorCode::kCorruptData, "{}, line {}: {}", name_, line, what);
  }

 private:
  void add(YamlNode& map, const YAML::Node& key, const YAML::Node& value, int level) {
    const int line = key.Mark().line + 1;
    if (!key.IsScalar()) fail(line, "a key must be a name");
    const auto same = std::find_if(map.entries.begin(), map.entries.end(),
                                   [&](const YamlEntry& entry) { return entry.key == key.Scalar(); });
    if (same != map.entries.end()) {
      fail(line, fmt::format("the key '{}' was given in line {} already", key.Scalar(), same->line));
    }
    map.entries.push_back({key.Scalar(), line, convert(value, level + 1)});
  }

  /// "?" is no tag, "!" is what quotes give.
  void check_tag(const YAML::Node& node, int line) const {
    const std::string& tag = node.Tag();
    if (tag.empty() || tag == "?" || tag == "!" || tag == "tag:yaml.org,2002:str") return;
    fail(line, fmt::format("the tag {} has no meaning here", tag));
  }

  const std::string& name_;
  int nodes_ = 0;
};

}  // namespace

std::string YamlNode::describe() const {
  switch (kind) {
    case Kind::kNull:
      return "empty";
    case Kind::kScalar:
      return plain ? text : fmt::format("'{}' (a text)", text);
    case Kind::kList:
      return "a list";
    case Kind::kMap:
      return "a map";
  }
  return "";
}

YamlNode parse_yaml(const std::string& text, const std::string& name) {
  Converter converter(name);
  std::vector<YAML::Node> documents;
  try {
    documents = YAML::LoadAll(text);
  } catch (const YAML::Exception& error) {
    converter.fail(error.mark.is_null() ? 1 : error.mark.line + 1, "no valid YAML: " + error.msg);
  }
  if (documents.empty()) return {};
  if (documents.size() > 1) converter.fail(documents[1].Mark().line + 1, "a second document begins; one is expected");
  return converter.convert(documents[0]);
}

}  // namespace reprise::cli
