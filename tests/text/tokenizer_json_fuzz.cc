// Any bytes either fail as a tokenizer.json with a reprise::Error, or make a tokenizer that encodes and decodes. The
// first byte says what the others are: the whole file, or one section of a file that is otherwise good, so that the
// sections are reached without having to find 256 vocabulary entries first.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/byte_alphabet.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace {

using namespace reprise;

std::string file_with(uint8_t section, std::string_view content) {
  static const std::string vocabulary = [] {
    std::string entries = R"("he":256,"ll":257,"hell":258)";
    for (int byte = 0; byte < 256; ++byte) {
      const std::string spelling = text::spell_bytes(std::string(1, static_cast<char>(byte)));
      entries += fmt::format(R"(,"{}{}":{})", spelling == "\"" || spelling == "\\" ? "\\" : "", spelling, byte);
    }
    return entries;
  }();
  const auto part = [&](uint8_t index, std::string_view usual) { return section == index ? content : usual; };
  constexpr std::string_view kByteLevel = R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true})";
  return fmt::format(
      R"({{"version":"1.0","normalizer":{},"pre_tokenizer":{},"decoder":{},"post_processor":{},"added_tokens":{},)"
      R"("model":{{"type":"BPE","vocab":{{{}{}}},"merges":{}}}}})",
      part(1, R"({"type":"NFC"})"), part(2, kByteLevel), part(3, kByteLevel), part(4, "null"), part(5, "[]"),
      vocabulary, part(6, ""), part(7, R"([["h","e"],["l","l"],["he","ll"]])"));
}

void use(const text::Tokenizer& tokenizer) {
  for (std::string_view sample : {"Hello, 'world' e\u0301 42\n <|im_end|> \xFF", "  aA\t\U0001F642"}) {
    const auto ids = tokenizer.encode(sample);
    text::Detokenizer detokenizer(tokenizer);
    std::string joined;
    for (const int32_t id : ids) joined += detokenizer.push(id);
    joined += detokenizer.finish();
    if (joined != tokenizer.decode(ids)) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view content(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const uint8_t section = data[0] % 8;
    use(text::Tokenizer::from_json(section == 0 ? std::string(content) : file_with(section, content)));
  } catch (const Error&) {
  }
  return 0;
}
