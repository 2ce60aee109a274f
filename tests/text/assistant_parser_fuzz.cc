// However an answer is cut, the same comes out; without blocks and calls it is the answer itself.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/assistant_parser.h"

/// The first byte chooses options and the second the sizes of pieces; the rest is the answer.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reprise::text;
  if (size < 2) return 0;
  const AssistantParserOptions options{
      .reasoning = (data[0] & 1) != 0, .tools = (data[0] & 2) != 0, .starts_in_reasoning = (data[0] & 4) != 0};
  const std::string_view answer(reinterpret_cast<const char*>(data) + 2, size - 2);
  const AssistantMessage whole = AssistantParser::parse(answer, options);
  AssistantParser parser(options);
  AssistantMessage cut;
  uint32_t state = data[1];
  for (size_t at = 0; at < answer.size();) {
    state = state * 1664525 + 1013904223;
    const size_t piece = std::min<size_t>(1 + (state >> 24) % 13, answer.size() - at);
    for (const AssistantDelta& delta : parser.push(answer.substr(at, piece))) cut.add(delta);
    at += piece;
  }
  for (const AssistantDelta& delta : parser.finish()) cut.add(delta);
  if (!(cut == whole)) __builtin_trap();
  if (!options.reasoning && whole.calls.empty() && whole.content != answer) __builtin_trap();
  return 0;
}
