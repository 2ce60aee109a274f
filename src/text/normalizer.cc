#include "text/normalizer.h"

#include "text/utf8.h"

namespace reprise::text {
namespace {

std::string strip(std::string_view text, const Normalizer::Strip& sides) {
  size_t begin = 0;
  while (sides.left && begin < text.size()) {
    const Utf8Unit unit = read_utf8(text, begin);
    if (!is_white_space(unit.code_point)) break;
    begin += unit.length;
  }
  size_t end = text.size();
  while (sides.right && end > begin) {
    size_t previous = end - 1;
    while (previous > begin && (static_cast<uint8_t>(text[previous]) & 0xC0) == 0x80) --previous;
    if (!is_white_space(read_utf8(text, previous).code_point)) break;
    end = previous;
  }
  return std::string(text.substr(begin, end - begin));
}

std::string replace(std::string_view text, const Normalizer::Replace& step, RegexScratch& scratch) {
  std::vector<RegexPiece> pieces;
  step.pattern.split(text, scratch, pieces);
  std::string out;
  out.reserve(text.size());
  for (const RegexPiece& piece : pieces) {
    out.append(piece.is_match ? std::string_view(step.content) : text.substr(piece.begin, piece.end - piece.begin));
  }
  return out;
}

}  // namespace

std::string Normalizer::apply(std::string_view text, RegexScratch& scratch) const {
  struct Visitor {
    std::string_view text;
    RegexScratch& scratch;
    std::string operator()(NormalForm form) const { return normalize(text, form); }
    std::string operator()(const Lowercase&) const { return to_lower(text); }
    std::string operator()(const Strip& step) const { return strip(text, step); }
    std::string operator()(const Prepend& step) const {
      return text.empty() ? std::string() : step.text + std::string(text);
    }
    std::string operator()(const Replace& step) const { return replace(text, step, scratch); }
  };
  std::string current(text);
  for (const Step& step : steps_) current = std::visit(Visitor{current, scratch}, step);
  return current;
}

}  // namespace reprise::text
