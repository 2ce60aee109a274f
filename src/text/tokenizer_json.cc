#include "text/tokenizer_json.h"

#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "text/byte_alphabet.h"
#include "text/json_object.h"
#include "text/utf8.h"

namespace reprise::text {
namespace {

using nlohmann::json;

/// Parses the text; unlike nlohmann's own parse, an object with a key twice is an error.
json parse_json(std::string_view text) {
  std::vector<std::set<std::string>> keys;
  const auto check_keys = [&keys](int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
      throw Error(ErrorCode::kCorruptData, "the key '{}' is given twice in one object", value.get<std::string>());
    }
    return true;
  };
  try {
    return json::parse(text, check_keys);
  } catch (const json::exception& error) {
    throw Error(ErrorCode::kCorruptData, "not valid JSON: {}", to_valid_utf8(error.what()));
  }
}

void require_null(JsonObject& object, std::string_view key) {
  const json* value = object.find(key);
  if (value && !value->is_null())
    throw Error(ErrorCode::kUnsupported, "{}: only null is supported", object.path_of(key));
}

void require_empty_text(JsonObject& object, std::string_view key) {
  const json* value = object.find(key);
  if (!value || value->is_null()) return;
  if (!value->is_string()) throw_wrong_type(object.path_of(key), "a string or null", *value);
  if (!value->get_ref<const std::string&>().empty()) {
    throw Error(ErrorCode::kUnsupported, "{}: '{}' is not supported, only null or an empty text", object.path_of(key),
                value->get_ref<const std::string&>());
  }
}

void parse_vocabulary(const json& value, const std::string& path, Vocabulary& vocabulary) {
  if (!value.is_object()) throw_wrong_type(path, "an object", value);
  for (const auto& [spelling, id] : value.items()) {
    const bool fits = id.is_number_integer() && (!id.is_number_unsigned() || id.get<uint64_t>() <= INT64_MAX);
    if (!fits) throw_wrong_type(fmt::format("{}['{}']", path, spelling), "an integer", id);
    vocabulary.add(spelling, id.get<int64_t>(), path);
  }
}

/// The two sides of a merge, in either of its published forms: "a b" or ["a", "b"].
std::pair<std::string_view, std::string_view> merge_sides(const json& value, const std::string& path, size_t index) {
  if (value.is_string()) {
    const std::string_view text = value.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != std::string_view::npos && text.find(' ', space + 1) == std::string_view::npos) {
      return {text.substr(0, space), text.substr(space + 1)};
    }
  } else if (value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_string()) {
    return {value[0].get_ref<const std::string&>(), value[1].get_ref<const std::string&>()};
  }
  throw Error(ErrorCode::kCorruptData, "{}: expected two tokens, as \"a b\" or [\"a\", \"b\"]",
              element_path(path, index));
}

std::vector<BytePairEncoder::Merge> parse_merges(const json& value, const std::string& path,
                                                 const Vocabulary& vocabulary) {
  if (!value.is_array()) throw_wrong_type(path, "an array", value);
  std::vector<BytePairEncoder::Merge> merges;
  merges.reserve(value.size());
  std::string merged;
  for (size_t i = 0; i < value.size(); ++i) {
    const auto [left, right] = merge_sides(value[i], path, i);
    const auto id = [&](std::string_view spelling) {
      const std::optional<int32_t> found = vocabulary.id_of(spelling);
      if (!found) {
        throw Error(ErrorCode::kCorruptData, "{}: '{}' is not in the vocabulary", element_path(path, i), spelling);
      }
      return *found;
    };
    merged.assign(left).append(right);
    merges.push_back({id(left), id(right), id(merged)});
  }
  return merges;
}

std::vector<int32_t> byte_ids(const std::string& path, const Vocabulary& vocabulary) {
  std::vector<int32_t> ids;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string spelling = spell_bytes(std::string(1, static_cast<char>(byte)));
    const std::optional<int32_t> id = vocabulary.id_of(spelling);
    if (!id) {
      throw Error(ErrorCode::kUnsupported, "{}: byte 0x{:02X} ('{}') is missing, so this is no complete byte-level BPE",
                  path, byte, spelling);
    }
    ids.push_back(*id);
  }
  return ids;
}

void parse_model(const json& value, TokenizerParts& parts) {
  JsonObject object(value, "model");
  // Old files leave the type out; what has merges is BPE.
  if (object.find("type") && object.get_string("type") != "BPE") {
    throw Error(ErrorCode::kUnsupported, "model.type: '{}' is not supported, only BPE", object.get_string("type"));
  }
  if (const json* dropout = object.find("dropout"); dropout && !dropout->is_null() && *dropout != 0) {
    throw Error(ErrorCode::kUnsupported, "model.dropout: only null is supported");
  }
  require_empty_text(object, "continuing_subword_prefix");
  require_empty_text(object, "end_of_word_suffix");
  if (object.get_bool("byte_fallback", false)) {
    throw Error(ErrorCode::kUnsupported, "model.byte_fallback: only false is supported");
  }
  // Neither has an effect where every byte is in the vocabulary, which byte_ids() makes sure of.
  object.get_bool("fuse_unk", false);
  if (const json* unknown = object.find("unk_token"); unknown && !unknown->is_null() && !unknown->is_string()) {
    throw_wrong_type("model.unk_token", "a string or null", *unknown);
  }
  parts.ignore_merges = object.get_bool("ignore_merges", false);
  parse_vocabulary(object.get("vocab"), "model.vocab", parts.vocabulary);
  const auto merges = parse_merges(object.get("merges"), "model.merges", parts.vocabulary);
  parts.encoder = BytePairEncoder(byte_ids("model.vocab", parts.vocabulary), merges);
  object.finish();
}

void parse_added_tokens(const json& value, TokenizerParts& parts) {
  for (size_t i = 0; i < value.size(); ++i) {
    JsonObject object(value[i], element_path("added_tokens", i));
    AddedToken token;
    token.content = object.get_string("content");
    const int64_t id = object.get_integer("id");
    if (id < 0 || id >= Vocabulary::kIdLimit) {
      throw Error(ErrorCode::kCorruptData, "{}: {} is outside of 0 to {}", object.path_of("id"), id,
                  Vocabulary::kIdLimit - 1);
    }
    token.id = static_cast<int32_t>(id);
    token.special = object.get_bool("special");
    token.normalized = object.get_bool("normalized");
    token.single_word = object.get_bool("single_word");
    token.lstrip = object.get_bool("lstrip");
    token.rstrip = object.get_bool("rstrip");
    object.finish();
    if (token.content.empty()) throw Error(ErrorCode::kCorruptData, "{}: empty", object.path_of("content"));
    parts.vocabulary.add(token, object.path());
    parts.added_tokens.push_back(std::move(token));
  }
}

}  // namespace

TokenizerParts parse_tokenizer_json(std::string_view text) {
  const json root = parse_json(text);
  JsonObject object(root, "");
  TokenizerParts parts;
  if (const std::string& version = object.get_string("version"); version != "1.0") {
    throw Error(ErrorCode::kUnsupported, "version: '{}' is not supported, only 1.0", version);
  }
  require_null(object, "truncation");
  require_null(object, "padding");
  parts.normalizer = parse_normalizer(object.get("normalizer"), "normalizer");
  parts.pre_tokenizer = parse_pre_tokenizer(object.get("pre_tokenizer"), "pre_tokenizer");
  check_decoder(object.get("decoder"), "decoder");
  parse_model(object.get("model"), parts);
  if (object.find("added_tokens")) parse_added_tokens(object.get_array("added_tokens"), parts);
  parse_post_processor(object.get("post_processor"), "post_processor", parts);
  object.finish();
  return parts;
}

}  // namespace reprise::text
