#pragma once

#include <string>
#include <string_view>

namespace reprise::text {

/// Rewrites a regular expression as Hugging Face's tokenizers understand it (Oniguruma, Ruby syntax) for PCRE2 with
/// UTF, UCP and MULTILINE. What both read alike passes unchanged; `\s` and `\S` become Unicode's White_Space written
/// out, because PCRE2 counts U+180E to it. What the two read differently is refused: throws kUnsupported with `where`
/// (the path in tokenizer.json) and the construct.
std::string translate_regex(std::string_view pattern, std::string_view where);

}  // namespace reprise::text
