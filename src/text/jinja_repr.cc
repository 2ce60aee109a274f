#include <cmath>

#include "text/jinja_json.h"
#include "text/jinja_operators.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace reprise::text {

namespace {

/// Writes values as Python's repr() does.
class JinjaReprWriter {
 public:
  JinjaReprWriter(JinjaRun& run, MarkedText& out) : run_(run), out_(out) {}

  void write(const JinjaValue& value) {
    run_.step();
    run_.check_size(out_.size());
    if (const MarkedText* text = value.text()) {
      write_string(*text);
    } else if (const JinjaList* list = value.list()) {
      write_list(*list);
    } else if (const JinjaMapping* mapping = value.mapping()) {
      write_mapping(*mapping);
    } else if (value.is_undefined()) {
      plain("Undefined");
    } else if (value.object()) {
      run_.fail("{} cannot be printed", value.type_name());
    } else {
      plain(scalar(value));
    }
  }

  static std::string scalar(const JinjaValue& value) {
    if (value.is_none()) return "None";
    if (const bool* boolean = value.boolean()) return *boolean ? "True" : "False";
    if (const int64_t* integer = value.integer()) return fmt::format("{}", *integer);
    return spell_float(*value.real());
  }

 private:
  void plain(std::string_view bytes) { out_.append(bytes, Origin::kTemplate); }

  void write_string(const MarkedText& text) {
    const std::string& bytes = text.bytes();
    run_.charge_bytes(bytes.size());
    const bool has_single = bytes.find('\'') != std::string::npos;
    const char quote = has_single && bytes.find('"') == std::string::npos ? '"' : '\'';
    plain(std::string_view(&quote, 1));
    for (size_t at = 0; at < bytes.size();) {
      const Utf8Unit unit = read_utf8(bytes, at);
      const std::string escape = escape_of(unit.code_point, quote);
      if (escape.empty()) {
        out_.append(text, at, at + unit.length);
      } else {
        out_.append(escape, text.origin_at(at));
      }
      at += unit.length;
    }
    plain(std::string_view(&quote, 1));
  }
  static std::string escape_of(char32_t character, char quote) {
    const auto code = static_cast<uint32_t>(character);
    if (character == static_cast<char32_t>(quote) || character == '\\') return {'\\', static_cast<char>(character)};
    if (character == '\n') return "\\n";
    if (character == '\r') return "\\r";
    if (character == '\t') return "\\t";
    if (is_printable(character)) return {};
    if (code < 0x100) return fmt::format("\\x{:02x}", code);
    return code < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
  }

  void write_list(const JinjaList& list) {
    const bool tuple = list.kind() == JinjaList::Kind::kTuple;
    plain(tuple ? "(" : "[");
    for (size_t i = 0; i < list.size(); ++i) {
      if (i > 0) plain(", ");
      write(list.elements()[i]);
    }
    if (tuple && list.size() == 1) plain(",");
    plain(tuple ? ")" : "]");
  }
  void write_mapping(const JinjaMapping& mapping) {
    plain("{");
    bool first = true;
    for (const auto& [key, value] : mapping.entries()) {
      if (!first) plain(", ");
      first = false;
      write(key);
      plain(": ");
      write(value);
    }
    plain("}");
  }

  JinjaRun& run_;
  MarkedText& out_;
};

}  // namespace

MarkedText jinja_to_text(JinjaRun& run, const JinjaValue& value) {
  if (const MarkedText* text = value.text()) return *text;
  if (value.is_undefined()) return {};
  if (!value.list() && !value.mapping() && !value.object()) {
    return MarkedText(JinjaReprWriter::scalar(value), Origin::kTemplate);
  }
  MarkedText text;
  JinjaReprWriter(run, text).write(value);
  run.check_size(text.size());
  return text;
}

}  // namespace reprise::text
