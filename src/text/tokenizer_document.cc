#include "text/tokenizer_document.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/json_object.h"
#include "text/utf8.h"

namespace reprise::text {
namespace {

using nlohmann::json;

/// Takes the parser's events: builds the tree, and fills the tables while inside of them.
class Handler : public nlohmann::json_sax<json> {
 public:
  explicit Handler(TokenizerTables& tables) : tables_(tables) {}

  json take() { return std::move(root_); }

  bool null() override { return value(nullptr); }
  bool boolean(bool flag) override { return value(flag); }
  bool number_integer(number_integer_t number) override { return integer(number, number); }
  bool number_unsigned(number_unsigned_t number) override {
    // An id beyond int64 is out of range whichever it is.
    return integer(static_cast<int64_t>(std::min<number_unsigned_t>(number, INT64_MAX)), number);
  }
  bool number_float(number_float_t number, const string_t&) override { return value(number); }
  bool binary(binary_t&) override { return false; }  // not in JSON text

  bool string(string_t& text) override {
    if (mode_ == Mode::kMerges) {
      const size_t space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) wrong_table_value();
      tables_.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
      return true;
    }
    if (mode_ == Mode::kMerge) {
      if (sides_ == 2) wrong_table_value();
      auto& merge = tables_.merges.back();
      (sides_++ == 0 ? merge.first : merge.second) = std::move(text);
      return true;
    }
    return value(std::move(text));
  }

  bool start_object(size_t) override {
    const bool vocabulary = mode_ == Mode::kDocument && inside_model("vocab");
    open(json::object());
    if (vocabulary) mode_ = Mode::kVocabulary;
    return true;
  }

  bool key(string_t& text) override {
    if (mode_ == Mode::kVocabulary) {
      spelling_ = std::move(text);
      return true;
    }
    if (stack_.back()->contains(text)) {
      throw Error(ErrorCode::kCorruptData, "the key '{}' is given twice in one object", text);
    }
    keys_.back() = std::move(text);
    return true;
  }

  bool end_object() override { return close(); }

  bool start_array(size_t) override {
    if (mode_ == Mode::kMerges) {
      tables_.merges.emplace_back();
      sides_ = 0;
      mode_ = Mode::kMerge;
      return true;
    }
    const bool merges = mode_ == Mode::kDocument && inside_model("merges");
    open(json::array());
    if (merges) mode_ = Mode::kMerges;
    return true;
  }

  bool end_array() override {
    if (mode_ != Mode::kMerge) return close();
    if (sides_ != 2) wrong_table_value();
    mode_ = Mode::kMerges;
    return true;
  }

  bool parse_error(size_t, const std::string&, const json::exception& error) override {
    throw Error(ErrorCode::kCorruptData, "not valid JSON: {}", to_valid_utf8(error.what()));
  }

 private:
  enum class Mode { kDocument, kVocabulary, kMerges, kMerge };

  bool inside_model(std::string_view name) const {
    return stack_.size() == 2 && keys_[0] == "model" && keys_[1] == name;
  }

  [[noreturn]] void wrong_table_value() const {
    if (mode_ == Mode::kVocabulary) {
      throw Error(ErrorCode::kCorruptData, "model.vocab['{}']: expected an integer", spelling_);
    }
    const size_t index = tables_.merges.size() - (mode_ == Mode::kMerge ? 1 : 0);
    throw Error(ErrorCode::kCorruptData, "{}: expected two tokens, as \"a b\" or [\"a\", \"b\"]",
                element_path("model.merges", index));
  }

  bool integer(int64_t id, json number) {
    if (mode_ != Mode::kVocabulary) return value(std::move(number));
    tables_.vocabulary.emplace_back(std::move(spelling_), id);
    return true;
  }

  /// Puts a value where the parser is, and returns where it lies now.
  json* place(json item) {
    if (mode_ != Mode::kDocument) wrong_table_value();
    if (stack_.empty()) {
      root_ = std::move(item);
      return &root_;
    }
    json& container = *stack_.back();
    if (container.is_object()) return &(container[keys_.back()] = std::move(item));
    container.push_back(std::move(item));
    return &container.back();
  }

  bool value(json item) {
    place(std::move(item));
    return true;
  }

  void open(json container) {
    // While a container is open nothing is added to the one around it, so the pointer stays good.
    stack_.push_back(place(std::move(container)));
    keys_.emplace_back();
  }

  bool close() {
    mode_ = Mode::kDocument;
    stack_.pop_back();
    keys_.pop_back();
    return true;
  }

  TokenizerTables& tables_;
  json root_;
  std::vector<json*> stack_;       // the open objects and arrays
  std::vector<std::string> keys_;  // the current key of each; empty in arrays
  Mode mode_ = Mode::kDocument;
  std::string spelling_;  // the vocabulary entry whose id comes next
  int sides_ = 0;         // of the merge that is open
};

}  // namespace

json parse_tokenizer_document(std::string_view text, TokenizerTables& tables) {
  Handler handler(tables);
  json::sax_parse(text, &handler);
  return handler.take();
}

}  // namespace reprise::text
