#include "text/jinja_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/utf8.h"

namespace reprise::text {

namespace {

/// Builds values while the JSON text is read, so that objects keep their order and nothing recurses.
class JinjaJsonReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit JinjaJsonReader(std::string_view what) : what_(what) {}

  JinjaValue take() { return std::move(result_); }

  bool null() override { return add(JinjaValue::none()); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(JinjaValue(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > INT64_MAX) refuse("an integer beyond 64 bits with sign");
    return add(JinjaValue(static_cast<int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t& spelling) override {
    if (spelling.find_first_of(".eE") == std::string::npos) refuse("an integer beyond 64 bits with sign");
    return add(JinjaValue(value));
  }
  bool string(string_t& value) override { return add(JinjaValue(std::move(value), Origin::kInput)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(true); }
  bool start_array(size_t) override { return open(false); }
  bool key(string_t& value) override {
    levels_.back().key = JinjaValue(std::move(value), Origin::kInput);
    return true;
  }
  bool end_object() override {
    JinjaValue value(std::move(levels_.back().mapping));
    levels_.pop_back();
    return add(std::move(value));
  }
  bool end_array() override {
    JinjaValue value(JinjaList(std::move(levels_.back().elements)));
    levels_.pop_back();
    return add(std::move(value));
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    throw Error(ErrorCode::kInvalidArgument, "{}: not valid JSON at byte {}", what_, position);
  }

 private:
  struct Level {
    bool object = false;
    JinjaValue key;
    JinjaMapping mapping;
    std::vector<JinjaValue> elements;
  };

  [[noreturn]] void refuse(std::string_view reason) {
    throw Error(ErrorCode::kInvalidArgument, "{}: {}", what_, reason);
  }
  bool open(bool object) {
    if (levels_.size() >= JinjaValue::kMaximumDepth) refuse("nested too deep");
    levels_.emplace_back().object = object;
    return true;
  }
  bool add(JinjaValue value) {
    if (levels_.empty()) {
      result_ = std::move(value);
    } else if (levels_.back().object) {
      levels_.back().mapping.insert(std::move(levels_.back().key), std::move(value));
    } else {
      levels_.back().elements.push_back(std::move(value));
    }
    return true;
  }

  std::string what_;
  std::vector<Level> levels_;
  JinjaValue result_;
};

/// What stands for a character in a JSON string; empty for the character itself.
std::string json_escape(char32_t character, bool ensure_ascii) {
  switch (character) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\f':
      return "\\f";
    case '\b':
      return "\\b";
    default:
      break;
  }
  const auto code = static_cast<uint32_t>(character);
  if (code < 0x20 || (ensure_ascii && code > 0x7E && code < 0x10000)) return fmt::format("\\u{:04x}", code);
  if (ensure_ascii && code >= 0x10000) {
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10), 0xDC00 + ((code - 0x10000) & 0x3FF));
  }
  return {};
}

class JinjaJsonWriter {
 public:
  JinjaJsonWriter(JinjaRun& run, const JinjaJsonStyle& style, MarkedText& out) : run_(run), style_(style), out_(out) {}

  void write(const JinjaValue& value, int level) {
    run_.step();
    if (const MarkedText* text = value.text()) return write_string(*text);
    if (const JinjaList* list = value.list(); list && list->kind() != JinjaList::Kind::kGenerator) {
      return write_list(*list, level);
    }
    if (const JinjaMapping* mapping = value.mapping()) return write_mapping(*mapping, level);
    write_plain(scalar(value));
  }

 private:
  std::string scalar(const JinjaValue& value) {
    if (value.is_none()) return "null";
    if (const bool* boolean = value.boolean()) return *boolean ? "true" : "false";
    if (const int64_t* integer = value.integer()) return fmt::format("{}", *integer);
    if (const double* real = value.real()) {
      if (std::isnan(*real)) return "NaN";
      if (std::isinf(*real)) return *real > 0 ? "Infinity" : "-Infinity";
      return spell_float(*real);
    }
    run_.fail("tojson cannot write {}", value.is_undefined() ? value.undefined_text() : std::string(value.type_name()));
  }
  void write_plain(std::string_view bytes) {
    out_.append(bytes, Origin::kTemplate);
    run_.charge_bytes(bytes.size());
    run_.check_size(out_.size());
  }
  void write_string(const MarkedText& text) {
    write_plain("\"");
    run_.charge_bytes(text.size());
    const std::string& bytes = text.bytes();
    size_t begin = 0;
    for (size_t at = 0; at < bytes.size();) {
      const Utf8Unit unit = read_utf8(bytes, at);
      if (const std::string escape = json_escape(unit.code_point, style_.ensure_ascii); !escape.empty()) {
        out_.append(text, begin, at);
        out_.append(escape, text.origin_at(at));
        begin = at + unit.length;
      }
      at += unit.length;
    }
    out_.append(text, begin, bytes.size());
    write_plain("\"");
  }
  void new_line(int level) {
    if (style_.indent < 0) return;
    write_plain("\n");
    write_plain(std::string(static_cast<size_t>(level) * static_cast<size_t>(style_.indent), ' '));
  }
  void write_list(const JinjaList& list, int level) {
    if (list.size() == 0) return write_plain("[]");
    write_plain("[");
    for (size_t i = 0; i < list.size(); ++i) {
      if (i > 0) write_plain(style_.item_separator);
      new_line(level + 1);
      write(list.elements()[i], level + 1);
    }
    new_line(level);
    write_plain("]");
  }
  void write_mapping(const JinjaMapping& mapping, int level) {
    if (mapping.size() == 0) return write_plain("{}");
    std::vector<const JinjaMapping::Entry*> entries;
    for (const auto& entry : mapping.entries()) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
        run_.step();
        if (!a->first.text() || !b->first.text()) run_.fail("tojson sorts mappings by strings only");
        return a->first.text()->bytes() < b->first.text()->bytes();
      });
    }
    write_plain("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) write_plain(style_.item_separator);
      new_line(level + 1);
      const JinjaValue& key = entries[i]->first;
      write_string(key.text() ? *key.text() : MarkedText(scalar(key), Origin::kTemplate));
      write_plain(style_.key_separator);
      write(entries[i]->second, level + 1);
    }
    new_line(level);
    write_plain("}");
  }

  JinjaRun& run_;
  const JinjaJsonStyle& style_;
  MarkedText& out_;
};

}  // namespace

JinjaValue jinja_value_from_json(std::string_view json, std::string_view what) {
  JinjaJsonReader reader(what);
  nlohmann::json::sax_parse(json, &reader);
  return reader.take();
}

void append_json(JinjaRun& run, const JinjaValue& value, const JinjaJsonStyle& style, MarkedText& out) {
  JinjaJsonWriter(run, style, out).write(value, 0);
}

std::string spell_float(double value) {
  std::string spelling = fmt::format("{}", value);
  if (std::isfinite(value) && spelling.find_first_of(".e") == std::string::npos) spelling += ".0";
  return spelling;
}

}  // namespace reprise::text
