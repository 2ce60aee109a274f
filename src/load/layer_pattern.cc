#define PCRE2_CODE_UNIT_WIDTH 8

#include "load/layer_pattern.h"

#include <pcre2.h>

#include <new>

#include "base/error.h"
#include "load/json.h"

namespace reprise::load {
namespace {

/// Names of layers are short: an expression that needs more steps never ends.
constexpr uint32_t kMatchLimit = 1'000'000;
constexpr uint32_t kHeapKilobytes = 16 << 10;

std::string message_of(int code) {
  PCRE2_UCHAR buffer[256];
  if (pcre2_get_error_message(code, buffer, sizeof(buffer)) < 0) return fmt::format("error {}", code);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct LayerPattern::Code {
  pcre2_code* code = nullptr;

  Code() = default;
  ~Code() { pcre2_code_free(code); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
};

LayerPattern::LayerPattern(std::string_view pattern, const std::string& where) : text_(pattern) {
  constexpr std::string_view kPrefix = "re:";
  if (!pattern.starts_with(kPrefix)) return;
  pattern.remove_prefix(kPrefix.size());
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  if (!context) throw std::bad_alloc();
  // Bounds the compiler's recursion.
  pcre2_set_parens_nest_limit(context.get(), 100);
  const auto code = std::make_shared<Code>();
  int error = 0;
  PCRE2_SIZE offset = 0;
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_ANCHORED, &error,
                             &offset, context.get());
  if (code->code == nullptr) {
    throw Error(ErrorCode::kUnsupported, "{}: the expression {} does not compile: {} at offset {}", where,
                printable(text_), message_of(error), offset);
  }
  code_ = code;
}

bool LayerPattern::matches(std::string_view layer) const {
  if (code_ == nullptr) return layer == text_;
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(pcre2_match_data_create(1, nullptr),
                                                                                  &pcre2_match_data_free);
  const std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> context(
      pcre2_match_context_create(nullptr), &pcre2_match_context_free);
  if (!match || !context) throw std::bad_alloc();
  pcre2_set_match_limit(context.get(), kMatchLimit);
  pcre2_set_heap_limit(context.get(), kHeapKilobytes);
  const int result = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(layer.data()), layer.size(), 0, 0,
                                 match.get(), context.get());
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result < 0) {
    throw Error(ErrorCode::kResourceExhausted, "matching {} with {}: {}", printable(layer), printable(text_),
                message_of(result));
  }
  return true;
}

}  // namespace reprise::load
