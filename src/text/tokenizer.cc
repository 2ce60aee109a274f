#include "text/tokenizer.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/mapped_file.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

namespace reprise::text {
namespace {

// The largest published file has about 35 MB.
constexpr size_t kFileLimit = size_t{512} << 20;
// Keeps positions, also those of a text that normalisation made longer, within 31 bits.
constexpr size_t kTextLimit = size_t{1} << 30;

/// True if [begin, end) has a byte in common with one of the ranges, which are in ascending order.
bool overlaps(std::span<const TextRange> ranges, size_t begin, size_t end) {
  auto range = std::partition_point(ranges.begin(), ranges.end(), [=](const TextRange& r) { return r.end <= begin; });
  while (range != ranges.end() && range->begin == range->end) ++range;
  return range != ranges.end() && range->begin < end;
}

void check_ranges(std::span<const TextRange> ranges, std::string_view text) {
  size_t previous = 0;
  for (const TextRange& range : ranges) {
    if (range.begin < previous || range.end < range.begin || range.end > text.size()) {
      throw Error(ErrorCode::kInvalidArgument, "literal range {} to {} of a text of {} bytes is out of order or bounds",
                  range.begin, range.end, text.size());
    }
    previous = range.end;
  }
  if (!ranges.empty() && !is_valid_utf8(text)) {
    throw Error(ErrorCode::kInvalidArgument, "literal ranges need a text in valid UTF-8");
  }
}

}  // namespace

struct TokenizerData {
  explicit TokenizerData(TokenizerParts parsed) : parts(std::move(parsed)) {
    build_matcher(false, raw_matcher);
    build_matcher(true, normalized_matcher);
    if (!parts.ignore_merges) return;
    for (int32_t id = 0; id < parts.vocabulary.size(); ++id) {
      const std::string* spelling = parts.vocabulary.spelling(id);
      if (!spelling) continue;
      if (auto bytes = bytes_of_spelling(*spelling)) whole_pieces.emplace(std::move(*bytes), id);
    }
  }
  TokenizerData(const TokenizerData&) = delete;
  TokenizerData& operator=(const TokenizerData&) = delete;

  void build_matcher(bool normalized, AddedTokenMatcher& matcher) {
    RegexScratch scratch;
    std::vector<const AddedToken*> tokens;
    std::vector<std::string> spellings;
    for (const AddedToken& token : parts.added_tokens) {
      if (token.normalized != normalized) continue;
      tokens.push_back(&token);
      spellings.push_back(normalized ? parts.normalizer.apply(token.content, scratch) : token.content);
    }
    matcher = AddedTokenMatcher(std::move(tokens), spellings);
  }

  TokenizerParts parts;
  AddedTokenMatcher raw_matcher;
  AddedTokenMatcher normalized_matcher;
  std::unordered_map<std::string, int32_t> whole_pieces;  // filled for ignore_merges: bytes to id
};

namespace {

/// One call of encode().
class Encoding {
 public:
  Encoding(const TokenizerData& data, const EncodeOptions& options) : data_(data), options_(options) {}

  std::vector<int32_t> run(std::string_view text) {
    const auto& parts = data_.parts;
    if (options_.add_special_tokens) append(parts.ids_before);
    if (options_.added_tokens == AddedTokenPolicy::kNone || data_.raw_matcher.empty()) {
      encode_raw(text, 0);
    } else {
      const auto blocked = [this](size_t begin, size_t end) { return overlaps(options_.literal_ranges, begin, end); };
      for (const auto& stretch : data_.raw_matcher.split(text, blocked, skipped_)) {
        if (stretch.token) {
          ids_.push_back(stretch.token->id);
        } else {
          encode_raw(text.substr(stretch.begin, stretch.end - stretch.begin), stretch.begin);
        }
      }
    }
    if (options_.add_special_tokens) append(parts.ids_after);
    return std::move(ids_);
  }

 private:
  void append(const std::vector<int32_t>& ids) { ids_.insert(ids_.end(), ids.begin(), ids.end()); }

  /// A stretch without added tokens of the raw kind; `offset` is where it stands in the whole text.
  void encode_raw(std::string_view text, size_t offset) {
    std::string normalized;
    bool changed = false;
    const bool touched = overlaps(options_.literal_ranges, offset, offset + text.size());
    if (!data_.parts.normalizer.empty()) {
      normalized = data_.parts.normalizer.apply(text, regex_scratch_);
      changed = normalized != text;
      text = normalized;
    }
    if (options_.added_tokens == AddedTokenPolicy::kNone || data_.normalized_matcher.empty()) {
      encode_pieces(text);
      return;
    }
    const auto blocked = [&](size_t begin, size_t end) {
      return changed ? touched : overlaps(options_.literal_ranges, offset + begin, offset + end);
    };
    for (const auto& stretch : data_.normalized_matcher.split(text, blocked, skipped_)) {
      if (stretch.token) {
        ids_.push_back(stretch.token->id);
      } else {
        encode_pieces(text.substr(stretch.begin, stretch.end - stretch.begin));
      }
    }
  }

  void encode_pieces(std::string_view text) {
    pieces_.clear();
    data_.parts.pre_tokenizer.apply(text, regex_scratch_, storage_, pieces_);
    for (std::string_view piece : pieces_) {
      if (data_.parts.ignore_merges) {
        if (const auto whole = data_.whole_pieces.find(std::string(piece)); whole != data_.whole_pieces.end()) {
          ids_.push_back(whole->second);
          continue;
        }
      }
      data_.parts.encoder.encode(piece, scratch_, ids_);
    }
  }

  const TokenizerData& data_;
  const EncodeOptions& options_;
  const std::function<bool(const AddedToken&)> skipped_ = [this](const AddedToken& token) {
    return token.special && options_.added_tokens == AddedTokenPolicy::kNotSpecial;
  };
  RegexScratch regex_scratch_;
  BytePairEncoder::Scratch scratch_;
  std::string storage_;
  std::vector<std::string_view> pieces_;
  std::vector<int32_t> ids_;
};

}  // namespace

Tokenizer Tokenizer::from_json(std::string_view json, std::string_view name) {
  try {
    return Tokenizer(std::make_shared<const TokenizerData>(parse_tokenizer_json(json)));
  } catch (Error& error) {
    error.add_context(fmt::format("reading {}", name));
    throw;
  }
}

Tokenizer Tokenizer::from_file(const std::filesystem::path& path) {
  return from_json(read_file(path, kFileLimit), path.string());
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() > kTextLimit) {
    throw Error(ErrorCode::kInvalidArgument, "a text of {} bytes is longer than the {} that can be encoded at once",
                text.size(), kTextLimit);
  }
  check_ranges(options.literal_ranges, text);
  Encoding encoding(*data_, options);
  if (is_valid_utf8(text)) return encoding.run(text);
  return encoding.run(to_valid_utf8(text));
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (skip_special && is_special(id)) continue;
    bytes.append(token_bytes(id));
  }
  return is_valid_utf8(bytes) ? bytes : to_valid_utf8(bytes);
}

int32_t Tokenizer::vocabulary_size() const { return data_->parts.vocabulary.size(); }

bool Tokenizer::has_token(int32_t id) const { return data_->parts.vocabulary.spelling(id) != nullptr; }

bool Tokenizer::is_special(int32_t id) const { return data_->parts.vocabulary.is_special(id); }

std::optional<int32_t> Tokenizer::token_to_id(std::string_view token) const {
  return data_->parts.vocabulary.id_of(token);
}

std::string_view Tokenizer::id_to_token(int32_t id) const {
  const std::string* spelling = data_->parts.vocabulary.spelling(id);
  return spelling ? std::string_view(*spelling) : std::string_view();
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  const std::string* bytes = data_->parts.vocabulary.bytes(id);
  return bytes ? std::string_view(*bytes) : std::string_view();
}

Tokenizer load_tokenizer(const std::filesystem::path& directory) {
  return Tokenizer::from_file(directory / "tokenizer.json");
}

}  // namespace reprise::text
