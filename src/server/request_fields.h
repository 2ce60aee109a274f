#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "server/json.h"

namespace reprise::server {

/// One JSON object of a request, read with every key accounted for: a key that nobody asked for is refused by finish().
/// A null counts as absent, as it does for OpenAI. Errors are RequestErrors with status 400 that name the field. The
/// value must outlive this.
class RequestFields {
 public:
  /// `path`: what the object is called in messages, such as "sampling_params"; empty for the body.
  explicit RequestFields(const Json& value, std::string path = {});

  /// Null when the key is absent or null.
  const Json* find(std::string_view key);
  bool has(std::string_view key) { return find(key) != nullptr; }

  bool boolean(std::string_view key, bool otherwise);
  std::optional<int64_t> integer(std::string_view key, int64_t least = std::numeric_limits<int64_t>::min(),
                                 int64_t most = std::numeric_limits<int64_t>::max());
  int32_t integer32(std::string_view key, int32_t otherwise, int32_t least = std::numeric_limits<int32_t>::min(),
                    int32_t most = std::numeric_limits<int32_t>::max());
  std::optional<double> number(std::string_view key);
  std::optional<std::string> text(std::string_view key);
  /// A text, or a list of texts.
  std::vector<std::string> texts(std::string_view key);
  std::vector<int32_t> token_ids(std::string_view key);

  /// Keys that clients send and that cannot change what this server answers.
  void ignore(std::initializer_list<std::string_view> keys);
  /// Refuses a key whose feature is not built, unless its value is null, false, or an empty text, list or object.
  void refuse(std::string_view key, std::string_view why);
  /// What finish() says besides of keys that nobody asks for here: a sentence, such as where they belong.
  void explain(std::initializer_list<std::string_view> keys, std::string_view sentence);
  /// Refuses what nobody asked for.
  void finish() const;

  /// The field's name in messages: "sampling_params.top_k".
  std::string name_of(std::string_view key) const;
  [[noreturn]] void fail(std::string_view key, std::string message) const;

 private:
  const Json& value_;
  std::string path_;
  std::set<std::string, std::less<>> read_;
  std::map<std::string, std::string, std::less<>> explained_;
};

/// A list of token ids; `name` stands for it in messages.
std::vector<int32_t> read_token_ids(const Json& value, const std::string& name);

}  // namespace reprise::server
