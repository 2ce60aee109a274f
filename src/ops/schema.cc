#include "ops/schema.h"

#include <array>
#include <cctype>
#include <cstdlib>

#include "base/error.h"

namespace reprise::ops {
namespace {

constexpr std::array<std::string_view, 6> kAttributeKinds = {"int", "float", "bool", "dtype", "shape", "str"};

/// Reads a schema from left to right; every fault names the schema and the place.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Schema parse() {
    Schema schema;
    schema.name = word();
    expect("(");
    if (!take(")")) {
      bool attributes = false;
      do {
        if (take("*")) {
          attributes = true;
        } else {
          argument(schema, attributes);
        }
      } while (take(","));
      expect(")");
    }
    expect("->");
    outputs(schema);
    skip_spaces();
    if (position_ != text_.size()) fail("nothing more");
    return schema;
  }

 private:
  void argument(Schema& schema, bool attributes) {
    if (attributes) {
      schema.attributes.push_back(attribute());
    } else if (take("Tensor")) {
      if (!schema.lists.empty()) fail("tensors before host lists");
      TensorSpec spec;
      spec.optional = take("?");
      spec.mutated = take("!");
      spec.name = word();
      schema.tensors.push_back(std::move(spec));
    } else if (take("int[]")) {
      HostListSpec spec;
      spec.updatable = take("^");
      spec.name = word();
      schema.lists.push_back(std::move(spec));
    } else {
      fail("'Tensor' or 'int[]'");
    }
  }

  AttributeSpec attribute() {
    AttributeSpec spec;
    const std::string kind = word();
    bool known = false;
    for (size_t i = 0; i < kAttributeKinds.size(); ++i) {
      if (kind != kAttributeKinds[i]) continue;
      spec.kind = static_cast<AttributeKind>(i);
      known = true;
    }
    if (!known) fail("an attribute type");
    spec.name = word();
    if (take("=")) spec.default_value = value(spec.kind);
    return spec;
  }

  Attribute value(AttributeKind kind) {
    skip_spaces();
    const size_t start = position_;
    while (position_ < text_.size() && text_[position_] != ',' && text_[position_] != ')') ++position_;
    std::string text(text_.substr(start, position_ - start));
    while (!text.empty() && text.back() == ' ') text.pop_back();
    switch (kind) {
      case AttributeKind::kInt:
        return Attribute(static_cast<int64_t>(std::strtoll(text.c_str(), nullptr, 10)));
      case AttributeKind::kFloat:
        return Attribute(std::strtod(text.c_str(), nullptr));
      case AttributeKind::kBool:
        return Attribute(text == "true");
      case AttributeKind::kDType: {
        const auto dtype = dtype_from_name(text);
        if (!dtype) fail("a dtype");
        return Attribute(*dtype);
      }
      case AttributeKind::kString:
        return Attribute(text);
      case AttributeKind::kShape:
        fail("no default for a shape");
    }
    return Attribute(int64_t{0});
  }

  void outputs(Schema& schema) {
    if (take("()")) return;
    do {
      expect("Tensor");
      schema.outputs.push_back(word());
    } while (take(","));
  }

  void skip_spaces() {
    while (position_ < text_.size() && text_[position_] == ' ') ++position_;
  }
  bool take(std::string_view token) {
    skip_spaces();
    if (text_.substr(position_, token.size()) != token) return false;
    position_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) fail(fmt::format("'{}'", token));
  }
  std::string word() {
    skip_spaces();
    const size_t start = position_;
    while (position_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[position_])) != 0 ||
                                        text_[position_] == '_' || text_[position_] == '.')) {
      ++position_;
    }
    if (position_ == start) fail("a name");
    return std::string(text_.substr(start, position_ - start));
  }
  [[noreturn]] void fail(std::string_view expected) const {
    throw Error(ErrorCode::kInvalidArgument, "operator schema '{}': expected {} at column {}", text_, expected,
                position_ + 1);
  }

  std::string_view text_;
  size_t position_ = 0;
};

}  // namespace

Schema Schema::parse(std::string_view text) { return Parser(text).parse(); }

std::string Schema::to_string() const {
  std::string text = name + "(";
  bool first = true;
  const auto separate = [&] {
    if (!first) text += ", ";
    first = false;
  };
  for (const TensorSpec& spec : tensors) {
    separate();
    text += fmt::format("Tensor{}{} {}", spec.optional ? "?" : "", spec.mutated ? "!" : "", spec.name);
  }
  for (const HostListSpec& spec : lists) {
    separate();
    text += fmt::format("int[]{} {}", spec.updatable ? "^" : "", spec.name);
  }
  if (!attributes.empty()) {
    separate();
    text += "*";
  }
  for (const AttributeSpec& spec : attributes) {
    separate();
    text += fmt::format("{} {}", kAttributeKinds[static_cast<size_t>(spec.kind)], spec.name);
    if (spec.default_value) text += " = " + ops::to_string(*spec.default_value);
  }
  text += ") -> ";
  if (outputs.empty()) text += "()";
  for (size_t i = 0; i < outputs.size(); ++i) text += fmt::format("{}Tensor {}", i == 0 ? "" : ", ", outputs[i]);
  return text;
}

}  // namespace reprise::ops
