#include "text/unicode.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>

#include "text/utf8.h"

namespace reprise::text {
namespace {

std::string by_utf8proc(const std::string& text, int options) {
  utf8proc_uint8_t* out = nullptr;
  const auto size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &out, static_cast<utf8proc_option_t>(options));
  std::string result(reinterpret_cast<char*>(out), static_cast<size_t>(std::max<utf8proc_ssize_t>(size, 0)));
  std::free(out);
  return result;
}

TEST(Unicode, EveryCharacterNormalisesAsUtf8procDoes) {
  const std::pair<NormalForm, int> forms[] = {
      {NormalForm::kNfc, UTF8PROC_STABLE | UTF8PROC_COMPOSE},
      {NormalForm::kNfd, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE},
      {NormalForm::kNfkc, UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
      {NormalForm::kNfkd, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT}};
  for (const auto& [form, options] : forms) {
    for (char32_t block = 0; block < 0x30000; block += 16) {
      if (block >= 0xD800 && block < 0xE000) continue;
      std::string text;
      // Marks between the characters, so that ordering and composition have something to do.
      for (char32_t c = block; c < block + 16; ++c) {
        append_utf8(c, text);
        text += "\u0301\u0323";
      }
      ASSERT_EQ(normalize(text, form), by_utf8proc(text, options)) << static_cast<uint32_t>(block);
    }
  }
}

TEST(Unicode, WordCharactersAreLettersMarksNumbersAndConnectors) {
  for (char32_t c : {U'a', U'é', U'漢', U'5', U'_', U'\u0301', U'\u200D', U'Ⅷ', U'Ⓐ'})
    EXPECT_TRUE(is_word_character(c));
  for (char32_t c : {U' ', U'-', U'½', U'€', U'🙂', U'\u3000'}) EXPECT_FALSE(is_word_character(c));
}

}  // namespace
}  // namespace reprise::text
