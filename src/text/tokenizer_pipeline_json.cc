// The sections of tokenizer.json that are pipelines: normalizer, pre_tokenizer, post_processor, decoder.
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "text/json_object.h"
#include "text/tokenizer_json.h"

namespace reprise::text {
namespace {

using nlohmann::json;

// GPT-2's expression, which a ByteLevel pre-tokenizer brings along.
constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// Rust's char::is_numeric, and ASCII punctuation or the general category P.
constexpr std::string_view kDigitPattern = R"(\p{N})";
constexpr std::string_view kPunctuationPattern = R"([!-/:-@\[-`{-~\p{P}])";

// Published files nest one deep.
constexpr int kNestingLimit = 8;

[[noreturn]] void refuse_type(const JsonObject& object, const std::string& type) {
  throw Error(ErrorCode::kUnsupported, "{}: '{}' is not supported", object.path_of("type"), type);
}

void check_nesting(std::string_view path, int depth) {
  if (depth > kNestingLimit) throw Error(ErrorCode::kUnsupported, "{}: more than {} levels deep", path, kNestingLimit);
}

/// A `pattern`: {"String": text} or {"Regex": expression}.
Regex parse_pattern(const json& value, const std::string& path) {
  JsonObject object(value, path);
  const bool literal = object.find("String") != nullptr;
  const std::string key = literal ? "String" : "Regex";
  const std::string& text = object.get_string(key);
  object.finish();
  if (text.empty()) throw Error(ErrorCode::kUnsupported, "{}: an empty pattern is not supported", object.path_of(key));
  return literal ? Regex::literal(text, object.path_of(key)) : Regex::compile(text, object.path_of(key));
}

void add_normalizer(const json& value, const std::string& path, int depth, std::vector<Normalizer::Step>& steps) {
  check_nesting(path, depth);
  JsonObject object(value, path);
  const std::string& type = object.get_string("type");
  if (type == "NFC") {
    steps.emplace_back(NormalForm::kNfc);
  } else if (type == "NFD") {
    steps.emplace_back(NormalForm::kNfd);
  } else if (type == "NFKC") {
    steps.emplace_back(NormalForm::kNfkc);
  } else if (type == "NFKD") {
    steps.emplace_back(NormalForm::kNfkd);
  } else if (type == "Lowercase") {
    steps.emplace_back(Normalizer::Lowercase{});
  } else if (type == "Strip") {
    const bool left = object.get_bool("strip_left");
    steps.emplace_back(Normalizer::Strip{left, object.get_bool("strip_right")});
  } else if (type == "Prepend") {
    steps.emplace_back(Normalizer::Prepend{object.get_string("prepend")});
  } else if (type == "Replace") {
    Regex pattern = parse_pattern(object.get("pattern"), object.path_of("pattern"));
    steps.emplace_back(Normalizer::Replace{std::move(pattern), object.get_string("content")});
  } else if (type == "Sequence") {
    const json& list = object.get_array("normalizers");
    for (size_t i = 0; i < list.size(); ++i) {
      add_normalizer(list[i], element_path(object.path_of("normalizers"), i), depth + 1, steps);
    }
  } else {
    refuse_type(object, type);
  }
  object.finish();
}

SplitBehavior parse_behavior(JsonObject& object) {
  const std::string& name = object.get_string("behavior");
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  throw Error(ErrorCode::kUnsupported, "{}: '{}' is not supported", object.path_of("behavior"), name);
}

/// What parsing a pre-tokenizer gathers.
struct PreTokenizerBuilder {
  std::vector<PreTokenizer::Split> steps;
  int prefix_space_before = -1;
  bool byte_level = false;

  void add(const json& value, const std::string& path, int depth) {
    check_nesting(path, depth);
    JsonObject object(value, path);
    const std::string& type = object.get_string("type");
    if (type == "Sequence") {
      const json& list = object.get_array("pretokenizers");
      for (size_t i = 0; i < list.size(); ++i) {
        add(list[i], element_path(object.path_of("pretokenizers"), i), depth + 1);
      }
      object.finish();
      return;
    }
    // ByteLevel rewrites the text as its alphabet; a step behind it would read that.
    if (byte_level) {
      throw Error(ErrorCode::kUnsupported, "{}: '{}' after ByteLevel is not supported", object.path_of("type"), type);
    }
    if (type == "Split") {
      Regex pattern = parse_pattern(object.get("pattern"), object.path_of("pattern"));
      const SplitBehavior behavior = parse_behavior(object);
      steps.push_back({std::move(pattern), behavior, object.get_bool("invert")});
    } else if (type == "Digits") {
      const bool individual = object.get_bool("individual_digits");
      steps.push_back({Regex::compile(kDigitPattern, path),
                       individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous, false});
    } else if (type == "Punctuation") {
      // The default is the one of Hugging Face's own reader.
      const SplitBehavior behavior = object.find("behavior") ? parse_behavior(object) : SplitBehavior::kIsolated;
      steps.push_back({Regex::compile(kPunctuationPattern, path), behavior, false});
    } else if (type == "ByteLevel") {
      byte_level = true;
      if (object.get_bool("add_prefix_space")) prefix_space_before = static_cast<int>(steps.size());
      object.get_bool("trim_offsets", true);  // concerns offsets, which are not given out
      if (object.get_bool("use_regex", true)) {
        steps.push_back({Regex::compile(kByteLevelPattern, path), SplitBehavior::kIsolated, false});
      }
    } else {
      refuse_type(object, type);
    }
    object.finish();
  }
};

/// The keys of a ByteLevel post-processor or decoder. None changes ids or text: the first only moves offsets.
void check_byte_level(JsonObject& object) {
  for (std::string_view key : {"add_prefix_space", "trim_offsets", "use_regex"}) object.get_bool(key, false);
  object.finish();
}

struct Template {
  std::vector<int32_t> before;
  std::vector<int32_t> after;
};

std::vector<int32_t> template_token_ids(const json& value, const std::string& path, const std::string& name,
                                        const Vocabulary& vocabulary) {
  JsonObject object(value, path);
  if (object.get_string("id") != name)
    throw Error(ErrorCode::kCorruptData, "{}: differs from its key", object.path_of("id"));
  const json& ids = object.get_array("ids");
  const json& tokens = object.get_array("tokens");
  if (ids.size() != tokens.size()) throw Error(ErrorCode::kCorruptData, "{}: ids and tokens differ in number", path);
  std::vector<int32_t> out;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!tokens[i].is_string()) throw_wrong_type(element_path(object.path_of("tokens"), i), "a string", tokens[i]);
    if (!ids[i].is_number_integer()) throw_wrong_type(element_path(object.path_of("ids"), i), "an integer", ids[i]);
    const std::optional<int32_t> id = vocabulary.id_of(tokens[i].get_ref<const std::string&>());
    if (!id || ids[i] != *id) {
      throw Error(ErrorCode::kCorruptData, "{}: '{}' does not have this id", element_path(object.path_of("ids"), i),
                  tokens[i].get_ref<const std::string&>());
    }
    out.push_back(*id);
  }
  object.finish();
  return out;
}

/// The form for one text: special tokens around exactly one sequence A.
Template parse_template(JsonObject& object, const Vocabulary& vocabulary) {
  JsonObject special(object.get("special_tokens"), object.path_of("special_tokens"));
  const json& single = object.get_array("single");
  object.get_array("pair");  // for two texts, which are never encoded together here
  Template form;
  bool text_seen = false;
  for (size_t i = 0; i < single.size(); ++i) {
    JsonObject item(single[i], element_path(object.path_of("single"), i));
    const bool is_text = item.find("Sequence") != nullptr;
    const std::string_view key = is_text ? "Sequence" : "SpecialToken";
    JsonObject piece(item.get(key), item.path_of(key));
    const std::string& name = piece.get_string("id");
    piece.get_integer("type_id");  // a segment number, which is not given out
    piece.finish();
    item.finish();
    if (is_text) {
      if (name != "A" || text_seen) {
        throw Error(ErrorCode::kUnsupported, "{}: only one sequence, A, is supported", piece.path_of("id"));
      }
      text_seen = true;
      continue;
    }
    const auto ids = template_token_ids(special.get(name), special.path_of(name), name, vocabulary);
    auto& side = text_seen ? form.after : form.before;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (!text_seen) throw Error(ErrorCode::kUnsupported, "{}: has no sequence A", object.path_of("single"));
  // Tokens that only the form for two texts uses.
  for (const auto& entry : object.get("special_tokens").items()) special.find(entry.key());
  return form;
}

void add_post_processor(const json& value, const std::string& path, int depth, const Vocabulary& vocabulary,
                        std::optional<Template>& form) {
  check_nesting(path, depth);
  JsonObject object(value, path);
  const std::string& type = object.get_string("type");
  if (type == "ByteLevel") {
    check_byte_level(object);
  } else if (type == "Sequence") {
    const json& list = object.get_array("processors");
    for (size_t i = 0; i < list.size(); ++i) {
      add_post_processor(list[i], element_path(object.path_of("processors"), i), depth + 1, vocabulary, form);
    }
    object.finish();
  } else if (type == "TemplateProcessing") {
    if (form) throw Error(ErrorCode::kUnsupported, "{}: a second TemplateProcessing is not supported", path);
    form = parse_template(object, vocabulary);
    object.finish();
  } else {
    refuse_type(object, type);
  }
}

/// True when the decoder contains ByteLevel; Fuse only joins texts, which is done anyway.
bool contains_byte_level(const json& value, const std::string& path, int depth) {
  check_nesting(path, depth);
  JsonObject object(value, path);
  const std::string& type = object.get_string("type");
  bool found = false;
  if (type == "ByteLevel") {
    check_byte_level(object);
    return true;
  }
  if (type == "Sequence") {
    const json& list = object.get_array("decoders");
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string inner = element_path(object.path_of("decoders"), i);
      if (contains_byte_level(list[i], inner, depth + 1)) {
        if (found) throw Error(ErrorCode::kUnsupported, "{}: a second ByteLevel is not supported", inner);
        found = true;
      } else if (!found) {
        // Before ByteLevel it would join spellings that are decoded one by one.
        throw Error(ErrorCode::kUnsupported, "{}: a decoder before ByteLevel is not supported", inner);
      }
    }
  } else if (type != "Fuse") {
    refuse_type(object, type);
  }
  object.finish();
  return found;
}

}  // namespace

Normalizer parse_normalizer(const json& value, std::string_view path) {
  std::vector<Normalizer::Step> steps;
  if (!value.is_null()) add_normalizer(value, std::string(path), 0, steps);
  return Normalizer(std::move(steps));
}

PreTokenizer parse_pre_tokenizer(const json& value, std::string_view path) {
  PreTokenizerBuilder builder;
  if (!value.is_null()) builder.add(value, std::string(path), 0);
  if (!builder.byte_level) {
    throw Error(ErrorCode::kUnsupported, "{}: has no ByteLevel; only byte-level tokenizers are supported", path);
  }
  return PreTokenizer(std::move(builder.steps), builder.prefix_space_before);
}

void check_decoder(const json& value, std::string_view path) {
  if (value.is_null() || !contains_byte_level(value, std::string(path), 0)) {
    throw Error(ErrorCode::kUnsupported, "{}: has no ByteLevel; only byte-level tokenizers are supported", path);
  }
}

void parse_post_processor(const json& value, std::string_view path, TokenizerParts& parts) {
  if (value.is_null()) return;
  std::optional<Template> form;
  add_post_processor(value, std::string(path), 0, parts.vocabulary, form);
  if (!form) return;
  parts.ids_before = std::move(form->before);
  parts.ids_after = std::move(form->after);
}

}  // namespace reprise::text
