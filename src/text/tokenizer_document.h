#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::text {

/// The two parts that make up nearly all of a tokenizer.json, kept out of the JSON tree: a tree of them takes longer to
/// build than everything else.
struct TokenizerTables {
  std::vector<std::pair<std::string, int64_t>> vocabulary;  ///< `model.vocab`, in the file's order
  std::vector<std::pair<std::string, std::string>> merges;  ///< `model.merges`, in either of its forms
};

/// Parses a tokenizer.json. In the tree that is returned model.vocab and model.merges are empty; what they held is in
/// `tables`. Throws kCorruptData for what is not JSON, for an object with a key twice and for wrong types in the
/// tables.
nlohmann::json parse_tokenizer_document(std::string_view text, TokenizerTables& tables);

}  // namespace reprise::text
