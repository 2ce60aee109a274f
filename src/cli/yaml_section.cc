#include "cli/yaml_section.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/nearest_name.h"

namespace reprise::cli {
namespace {

template <typename T>
std::optional<T> parse_number(const std::string& text) {
  // What YAML 1.1 reads as octal, YAML 1.2 and people as decimal.
  const size_t digits = text.starts_with('-') ? 1 : 0;
  if (text.size() > digits + 1 && text[digits] == '0' && text[digits + 1] != '.' && text[digits + 1] != 'e' &&
      text[digits + 1] != 'E') {
    return std::nullopt;
  }
  T value{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

const YamlEntry* find_entry(const YamlNode& node, std::string_view key) {
  const auto place =
      std::find_if(node.entries.begin(), node.entries.end(), [&](const YamlEntry& entry) { return entry.key == key; });
  return place == node.entries.end() ? nullptr : &*place;
}

}  // namespace

YamlSection::YamlSection(const std::string& file, std::string path, const YamlNode& node)
    : file_(file), path_(std::move(path)), node_(node) {
  if (node.kind == YamlNode::Kind::kMap || node.kind == YamlNode::Kind::kNull) return;
  throw Error(ErrorCode::kInvalidArgument, "{}, line {}: {} is {}, must be a map", file_, node.line,
              path_.empty() ? "the file" : path_, node.describe());
}

std::string YamlSection::full_name(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

Error YamlSection::error(ErrorCode code, std::string_view key, std::string_view what) const {
  const YamlEntry* entry = find_entry(node_, key);
  REPRISE_CHECK(entry != nullptr);
  return Error(code, "{}, line {}: {} is {}, {}", file_, entry->line, full_name(key), entry->value.describe(), what);
}

const YamlNode* YamlSection::find(const char* key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
  const YamlEntry* entry = find_entry(node_, key);
  return entry == nullptr ? nullptr : &entry->value;
}

const std::string* YamlSection::plain_scalar(const char* key, std::string_view rule) {
  const YamlNode* node = find(key);
  if (node == nullptr) return nullptr;
  if (node->kind != YamlNode::Kind::kScalar || !node->plain) throw error(ErrorCode::kInvalidArgument, key, rule);
  return &node->text;
}

bool YamlSection::flag(const char* key, bool otherwise) {
  constexpr std::string_view kRule = "must be true or false";
  const std::string* text = plain_scalar(key, kRule);
  if (text == nullptr) return otherwise;
  if (*text == "true" || *text == "True" || *text == "TRUE") return true;
  if (*text == "false" || *text == "False" || *text == "FALSE") return false;
  throw error(ErrorCode::kInvalidArgument, key, kRule);
}

int64_t YamlSection::integer(const char* key, int64_t otherwise, int64_t least, int64_t most) {
  const std::string rule = fmt::format("must be an integer in [{}, {}]", least, most);
  const std::string* text = plain_scalar(key, rule);
  if (text == nullptr) return otherwise;
  const std::optional<int64_t> value = parse_number<int64_t>(*text);
  if (!value || *value < least || *value > most) throw error(ErrorCode::kInvalidArgument, key, rule);
  return *value;
}

double YamlSection::number(const char* key, double otherwise, double least, double most, bool with_least) {
  const std::string rule = std::isinf(most)
                               ? fmt::format("must be a number of at least {}", least)
                               : fmt::format("must be a number in {}{}, {}]", with_least ? '[' : '(', least, most);
  const std::string* text = plain_scalar(key, rule);
  if (text == nullptr) return otherwise;
  const std::optional<double> value = parse_number<double>(*text);
  const bool in_range =
      value && std::isfinite(*value) && (with_least ? *value >= least : *value > least) && *value <= most;
  if (!in_range) throw error(ErrorCode::kInvalidArgument, key, rule);
  return *value;
}

std::string YamlSection::text(const char* key, const std::string& otherwise) {
  const YamlNode* node = find(key);
  if (node == nullptr) return otherwise;
  if (node->kind != YamlNode::Kind::kScalar) throw error(ErrorCode::kInvalidArgument, key, "must be a text");
  return node->text;
}

std::string YamlSection::choice(const char* key, const std::vector<std::string>& allowed) {
  std::string value = text(key, allowed[0]);
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return value;
  throw error(ErrorCode::kInvalidArgument, key, fmt::format("must be one of {}", fmt::join(allowed, ", ")));
}

std::optional<uint64_t> YamlSection::optional_unsigned(const char* key) {
  const std::string rule = fmt::format("must be an integer in [0, {}], or null", UINT64_MAX);
  const YamlNode* node = find(key);
  if (node == nullptr || node->kind == YamlNode::Kind::kNull) return std::nullopt;
  const std::string* text = plain_scalar(key, rule);
  const std::optional<uint64_t> value = parse_number<uint64_t>(*text);
  if (!value) throw error(ErrorCode::kInvalidArgument, key, rule);
  return value;
}

YamlSection YamlSection::section(const char* key) {
  static const YamlNode kEmpty;
  const YamlNode* node = find(key);
  return {file_, full_name(key), node == nullptr ? kEmpty : *node};
}

void YamlSection::finish() const {
  for (const YamlEntry& entry : node_.entries) {
    if (std::find(known_.begin(), known_.end(), entry.key) != known_.end()) continue;
    Error error(ErrorCode::kInvalidArgument, "{}, line {}: there is no key '{}' in {}", file_, entry.line, entry.key,
                path_.empty() ? "the file" : path_);
    const std::string nearest = nearest_name(entry.key, known_);
    if (nearest.empty()) throw std::move(error).remedy(fmt::format("known are {}", fmt::join(known_, ", ")));
    throw std::move(error).remedy(fmt::format("did you mean '{}'?", nearest));
  }
}

}  // namespace reprise::cli
