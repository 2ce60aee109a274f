#include "base/escape_json.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

TEST(EscapeJson, EscapesWhatCannotStandInAString) {
  EXPECT_EQ(escape_json(""), "");
  EXPECT_EQ(escape_json("add.bf16"), "add.bf16");
  EXPECT_EQ(escape_json("a\"b\\c"), R"(a\"b\\c)");
  EXPECT_EQ(escape_json(std::string_view("\n\0\x1f", 3)), R"(\u000a\u0000\u001f)");
  EXPECT_EQ(escape_json("\x7f\xc3\xa9"), "\x7f\xc3\xa9");
}

}  // namespace
}  // namespace reprise
