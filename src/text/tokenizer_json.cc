#include "text/tokenizer_json.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/byte_alphabet.h"
#include "text/json_object.h"
#include "text/tokenizer_document.h"

namespace reprise::text {
namespace {

using nlohmann::json;

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

std::vector<BytePairEncoder::Merge> resolve_merges(const TokenizerTables& tables, const Vocabulary& vocabulary) {
  std::vector<BytePairEncoder::Merge> merges;
  merges.reserve(tables.merges.size());
  const auto id = [&](std::string_view spelling) {
    const std::optional<int32_t> found = vocabulary.id_of(spelling);
    if (!found) {
      throw Error(ErrorCode::kCorruptData, "{}: '{}' is not in the vocabulary",
                  element_path("model.merges", merges.size()), spelling);
    }
    return *found;
  };
  std::string merged;
  for (const auto& [left, right] : tables.merges) {
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

void parse_model(const json& value, TokenizerTables& tables, TokenizerParts& parts) {
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
  if (const json& entries = object.get("vocab"); !entries.is_object()) {
    throw_wrong_type("model.vocab", "an object", entries);
  }
  object.get_array("merges");
  parts.vocabulary.reserve(tables.vocabulary.size());
  for (auto& [spelling, id] : tables.vocabulary) parts.vocabulary.add(std::move(spelling), id, "model.vocab");
  const auto merges = resolve_merges(tables, parts.vocabulary);
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
  TokenizerTables tables;
  const json root = parse_tokenizer_document(text, tables);
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
  parse_model(object.get("model"), tables, parts);
  if (object.find("added_tokens")) parse_added_tokens(object.get_array("added_tokens"), parts);
  parse_post_processor(object.get("post_processor"), "post_processor", parts);
  object.finish();
  return parts;
}

}  // namespace reprise::text
