#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/added_tokens.h"

namespace reprise::text {

/// Ids and tokens, both ways. A token's *spelling* is its text in tokenizer.json (bytes of the byte-level alphabet, or
/// an added token's content); its *bytes* are what it stands for in a text.
class Vocabulary {
 public:
  /// Ids from here on are refused: far above every published vocabulary, and tables by id stay small.
  static constexpr int64_t kIdLimit = int64_t{1} << 22;

  /// Makes room for so many entries.
  void reserve(size_t count);
  /// Adds an entry of the model's vocabulary. Throws kCorruptData, naming `where`, for an id or a spelling given twice.
  void add(std::string spelling, int64_t id, std::string_view where);
  /// Adds an added token; its spelling may be in the vocabulary already, then under the same id.
  void add(const AddedToken& token, std::string_view where);

  /// One more than the largest id.
  int32_t size() const { return static_cast<int32_t>(entries_.size()); }
  std::optional<int32_t> id_of(std::string_view spelling) const;
  /// Null for an id without a token.
  const std::string* spelling(int32_t id) const;
  const std::string* bytes(int32_t id) const;
  bool is_special(int32_t id) const;

 private:
  struct Entry {
    std::string spelling;
    std::string bytes;
    bool present = false;
    bool special = false;
  };
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  const Entry* find(int32_t id) const;
  Entry& slot(int64_t id, std::string_view where);

  std::vector<Entry> entries_;
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> ids_;
};

}  // namespace reprise::text
