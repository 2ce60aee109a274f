#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::text {

/// Which added tokens (`<|im_end|>`, `<think>` ...) are recognised in a text that is encoded.
enum class AddedTokenPolicy {
  kAll,         ///< all: what Hugging Face's encode does by default, and what rendered chat templates need
  kNotSpecial,  ///< only those that are not marked special; a special one is ordinary text
  kNone,        ///< none: for text that somebody else wrote
};

/// A range of bytes of a text.
struct TextRange {
  size_t begin;
  size_t end;
};

struct EncodeOptions {
  AddedTokenPolicy added_tokens = AddedTokenPolicy::kAll;
  /// Ranges in ascending order, none overlapping, in which nothing is an added token, whatever the policy: what users
  /// wrote inside a rendered chat template. Outside of added tokens the ids are the same as without. Needs valid UTF-8.
  /// In a stretch that the normaliser changes, added tokens that are searched after normalisation are not recognised at
  /// all if the stretch touches such a range.
  std::span<const TextRange> literal_ranges = {};
  /// Whether the post-processor's tokens (such as a token for the beginning of a text) are added. Rendered chat
  /// templates hold theirs already.
  bool add_special_tokens = true;
};

struct TokenizerData;

/// A tokenizer.json of the byte-level BPE kind (GPT-2, Llama 3, Qwen, DeepSeek ...). Ids equal those of Hugging Face's
/// tokenizers. Immutable: all members may be called from any number of threads. Copies share the data.
///
/// Built: normalizer null, NFC, NFD, NFKC, NFKD, Lowercase, Strip, Prepend, Replace, Sequence; pre_tokenizer Split,
/// Digits, Punctuation, ByteLevel (last), Sequence; model BPE with or without ignore_merges; post_processor null,
/// ByteLevel, TemplateProcessing, Sequence; decoder ByteLevel, Fuse, Sequence; added tokens with all their flags.
/// Anything else is refused when loading, by its path and name.
class Tokenizer {
 public:
  /// Reads a tokenizer.json. Throws kNotFound, kIo, kCorruptData or kUnsupported.
  static Tokenizer from_file(const std::filesystem::path& path);
  /// Parses the content of one; `name` stands for it in errors.
  static Tokenizer from_json(std::string_view json, std::string_view name = "tokenizer.json");

  /// The ids of a text. Bytes that are not UTF-8 count as U+FFFD, one for each maximal subpart. Stack use does not
  /// depend on the text. Throws kInvalidArgument for wrong ranges or a text above 1 GiB, and kResourceExhausted for a
  /// text on which an expression of the tokenizer backtracks without end.
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// The text of ids. Bytes that form no character become U+FFFD, one for each maximal subpart. An id without a token
  /// (a model's vocabulary may be padded) yields nothing, as in Hugging Face's; has_token() tells.
  std::string decode(std::span<const int32_t> ids, bool skip_special = false) const;

  /// One more than the largest id.
  int32_t vocabulary_size() const;
  bool has_token(int32_t id) const;
  /// True for an added token that is marked special.
  bool is_special(int32_t id) const;
  /// The id of a token as tokenizer.json spells it (`Ġthe`, `<|im_end|>`).
  std::optional<int32_t> token_to_id(std::string_view token) const;
  /// The token as tokenizer.json spells it; empty for an id without a token.
  std::string_view id_to_token(int32_t id) const;
  /// The bytes that the token stands for, which need not be valid UTF-8; empty for an id without a token.
  std::string_view token_bytes(int32_t id) const;

 private:
  explicit Tokenizer(std::shared_ptr<const TokenizerData> data) : data_(std::move(data)) {}

  std::shared_ptr<const TokenizerData> data_;
};

/// The tokenizer of a model directory: its tokenizer.json.
Tokenizer load_tokenizer(const std::filesystem::path& directory);

}  // namespace reprise::text
