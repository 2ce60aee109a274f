#include "cli/serve_arguments.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/nearest_name.h"
#include "cli/sglang_flags.h"
#include "cli/yaml_document.h"

namespace reprise::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostFileBytes = size_t{1} << 20;

/// "--name", "--name=value", "-m", but not "-1".
bool begins_option(const std::string& token) {
  if (token.size() < 2 || token[0] != '-') return false;
  return token[1] == '-' ? token.size() > 2 : std::isalpha(static_cast<unsigned char>(token[1])) != 0;
}

std::vector<Argument> split_tokens(const std::vector<std::string>& tokens) {
  std::vector<Argument> arguments;
  for (const std::string& token : tokens) {
    if (!begins_option(token)) {
      if (arguments.empty()) arguments.emplace_back();
      arguments.back().values.push_back(token);
      continue;
    }
    const bool is_long = token[1] == '-';
    const size_t name_end = is_long ? std::min(token.find('='), token.size()) : 2;
    Argument& argument = arguments.emplace_back();
    argument.name = token.substr(0, name_end);
    if (name_end < token.size()) argument.values.push_back(token.substr(is_long ? name_end + 1 : name_end));
  }
  return arguments;
}

std::vector<std::string> join_tokens(const std::vector<Argument>& arguments) {
  std::vector<std::string> tokens;
  for (const Argument& argument : arguments) {
    // A value may begin with a dash.
    if (argument.name.starts_with("--") && argument.values.size() == 1 && !argument.values[0].empty()) {
      tokens.push_back(argument.name + "=" + argument.values[0]);
      continue;
    }
    if (!argument.name.empty()) tokens.push_back(argument.name);
    tokens.insert(tokens.end(), argument.values.begin(), argument.values.end());
  }
  return tokens;
}

Json json_of(const YamlNode& node) {
  Json json;
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      break;
    case YamlNode::Kind::kScalar:
      json = node.plain ? Json::parse(node.text, nullptr, false) : Json(node.text);
      if (json.is_discarded()) json = node.text;
      break;
    case YamlNode::Kind::kList:
      json = Json::array();
      for (const YamlNode& item : node.items) json.push_back(json_of(item));
      break;
    case YamlNode::Kind::kMap:
      json = Json::object();
      for (const YamlEntry& entry : node.entries) json[entry.key] = json_of(entry.value);
      break;
  }
  return json;
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return text;
}

/// Null as well: the flag is not given.
bool is_flag_value(const YamlNode& value) {
  if (value.kind == YamlNode::Kind::kNull) return true;
  const std::string text = lower_case(value.text);
  return value.kind == YamlNode::Kind::kScalar && value.plain && (text == "true" || text == "false");
}

/// An option as one argument, or as one for each of a list's items; nothing for null and false.
void append_entry(const std::string& file, const Argument& option, const YamlNode& value,
                  std::vector<Argument>& arguments) {
  Argument argument = option;
  switch (value.kind) {
    case YamlNode::Kind::kNull:
      return;
    case YamlNode::Kind::kMap:
      argument.values = {json_of(value).dump()};
      break;
    case YamlNode::Kind::kList:
      for (const YamlNode& item : value.items) {
        if (item.kind == YamlNode::Kind::kNull) {
          throw Error(ErrorCode::kInvalidArgument, "{}, line {}: the list of {} holds null, which is no value", file,
                      item.line > 0 ? item.line : value.line, option.name);
        }
        append_entry(file, option, item, arguments);
      }
      return;
    case YamlNode::Kind::kScalar: {
      const std::string lower = lower_case(value.text);
      if (value.plain && lower == "false") return;
      if (!value.plain || lower != "true") argument.values = {value.text};
    }
  }
  arguments.push_back(std::move(argument));
}

/// What all names of an option have in common.
std::string first_name(const std::string& name, const KnownOption& option) {
  if (!option.name.empty()) return option.name;
  const SglangFlag* flag = find_sglang_flag(name);
  return flag != nullptr && flag->treatment == SglangTreatment::kRenamed ? std::string(flag->target) : name;
}

/// The keys of the file are options without their dashes; words may be joined by '_' as well.
std::vector<Argument> read_file_arguments(const std::string& text, const std::string& name,
                                          const FindOption& find_option) {
  const YamlNode root = parse_yaml(text, name);
  if (root.kind != YamlNode::Kind::kMap && root.kind != YamlNode::Kind::kNull) {
    throw Error(ErrorCode::kInvalidArgument, "{}, line {}: the file is {}, must be a map of options", name, root.line,
                root.describe());
  }
  std::vector<Argument> arguments;
  std::map<std::string, const YamlEntry*> given;  // by the option's first name
  for (const YamlEntry& entry : root.entries) {
    Argument argument;
    argument.place = fmt::format("{}, line {}", name, entry.line);
    argument.name = "--" + entry.key;
    std::ranges::replace(argument.name, '_', '-');
    const KnownOption option = find_option(argument.name);
    const bool known = !option.name.empty() || find_sglang_flag(argument.name) != nullptr;
    if (!known || argument.name == "--config" || argument.name == "--print-config") {
      throw Error(ErrorCode::kInvalidArgument, "{}: there is no option '{}'", argument.place, entry.key)
          .remedy("`reprise serve --help` and docs/options.md list them");
    }
    const bool is_default =
        entry.value.kind == YamlNode::Kind::kScalar && !option.fallback.empty() && entry.value.text == option.fallback;
    if (option.flag && !is_flag_value(entry.value)) {
      throw Error(ErrorCode::kInvalidArgument, "{}: {} is {}, must be true or false", argument.place, entry.key,
                  entry.value.describe());
    }
    const size_t before = arguments.size();
    if (!is_default) append_entry(name, argument, entry.value, arguments);
    if (arguments.size() == before) continue;
    const auto [same, is_first] = given.emplace(first_name(argument.name, option), &entry);
    if (is_first) continue;
    throw Error(ErrorCode::kInvalidArgument, "{}: '{}' is another name of '{}', which was given in line {} already",
                argument.place, entry.key, same->second->key, same->second->line);
  }
  return arguments;
}

std::string name_or_itself(const std::string& name, const FindOption& find_option) {
  std::string found = find_option(name).name;
  return found.empty() ? name : found;
}

bool has(const std::vector<Argument>& arguments, const std::string& name, const FindOption& find_option) {
  return std::ranges::any_of(arguments, [&](const Argument& argument) {
    return !argument.implied && name_or_itself(argument.name, find_option) == name;
  });
}

/// Takes the value of --config out; empty without it.
std::string take_config(std::vector<Argument>& arguments) {
  std::string path;
  std::erase_if(arguments, [&](const Argument& argument) {
    if (argument.name != "--config") return false;
    if (argument.values.size() != 1 || !path.empty()) {
      throw Error(ErrorCode::kInvalidArgument, "--config needs one file");
    }
    path = argument.values[0];
    return true;
  });
  return path;
}

ServeArguments merge(const std::vector<Argument>& file, const std::vector<Argument>& line,
                     const FindOption& find_option) {
  const std::vector<Argument> from_line = translate_sglang_flags(line);
  std::vector<Argument> all = translate_sglang_flags(file);
  std::erase_if(all, [&](const Argument& argument) {
    return has(from_line, name_or_itself(argument.name, find_option), find_option);
  });
  all.insert(all.end(), from_line.begin(), from_line.end());
  const std::vector<Argument> given = all;
  std::erase_if(all, [&](const Argument& argument) {
    return argument.implied && has(given, name_or_itself(argument.name, find_option), find_option);
  });
  ServeArguments result{join_tokens(all)};
  for (const Argument& argument : all) {
    if (!argument.place.empty()) result.places[name_or_itself(argument.name, find_option)] = argument.place;
  }
  return result;
}

}  // namespace

ServeArguments merge_serve_arguments(const std::vector<std::string>& arguments, const std::string& file_text,
                                     const std::string& name, const FindOption& find_option) {
  std::vector<Argument> line = split_tokens(arguments);
  take_config(line);
  return merge(read_file_arguments(file_text, name, find_option), line, find_option);
}

ServeArguments resolve_serve_arguments(const std::vector<std::string>& arguments, const FindOption& find_option) {
  std::vector<Argument> line = split_tokens(arguments);
  const std::string path = take_config(line);
  if (path.empty()) return merge({}, line, find_option);
  return merge(read_file_arguments(read_file(path, kMostFileBytes), path, find_option), line, find_option);
}

}  // namespace reprise::cli
