// Any bytes either fail to parse as a template with a reprise::Error, or make a program that renders or refuses within
// its limits; the marks of what it renders cover all bytes. The template sees the variables of a conversation.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_parser.h"

namespace {

using namespace reprise;

const text::JinjaVariables& variables() {
  static const text::JinjaVariables made = [] {
    const text::JinjaValue root = text::jinja_value_from_json(
        R"({"messages":[{"role":"system","content":" a\n"},{"role":"user","content":"\u00fc <b> \ud83d\ude42"},
        {"role":"assistant","content":"<think>x</think>y","tool_calls":[{"function":{"name":"f","arguments":{"n":1}}}]}],
        "tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"n":7,"x":-2.5,"z":null,
        "b":true,"l":[3,1,2,"q"],"m":{"k":{"v":[1]}}})",
        "variables");
    text::JinjaVariables all;
    for (const auto& [key, value] : root.mapping()->entries()) all.emplace_back(key.text()->bytes(), value);
    return all;
  }();
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  text::JinjaOptions options;
  options.limits.steps = 20'000;
  options.limits.bytes = size_t{4} << 20;
  options.limits.output = size_t{1} << 20;
  options.now = std::tm{};
  try {
    const auto program = text::parse_jinja({reinterpret_cast<const char*>(data), size}, "t");
    const text::MarkedText text = render_jinja(*program, variables(), options);
    const auto runs = text.runs();
    if (text.empty() ? !runs.empty() : runs.back().end != text.size()) __builtin_trap();
    for (size_t i = 1; i < runs.size(); ++i) {
      if (runs[i].end <= runs[i - 1].end || runs[i].origin == runs[i - 1].origin) __builtin_trap();
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) __builtin_trap();
  }
  return 0;
}
