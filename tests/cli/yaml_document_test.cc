#include "cli/yaml_document.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace reprise::cli {
namespace {

std::string yaml_refusal(const std::string& text) {
  try {
    parse_yaml(text, "a.yaml");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST(YamlDocument, KeepsOrderLinesAndQuotes) {
  const YamlNode node = parse_yaml("b: 1\na:\n  - 'x'\n  - {c: ~}\nd: !!str true\n", "a.yaml");
  ASSERT_EQ(node.kind, YamlNode::Kind::kMap);
  ASSERT_EQ(node.entries.size(), 3U);
  EXPECT_EQ(node.entries[0].key, "b");
  EXPECT_EQ(node.entries[0].value.text, "1");
  EXPECT_TRUE(node.entries[0].value.plain);
  EXPECT_EQ(node.entries[1].line, 2);
  const YamlNode& list = node.entries[1].value;
  ASSERT_EQ(list.kind, YamlNode::Kind::kList);
  EXPECT_EQ(list.items[0].text, "x");
  EXPECT_EQ(list.items[0].line, 3);
  EXPECT_FALSE(list.items[0].plain);
  EXPECT_EQ(list.items[1].entries[0].value.kind, YamlNode::Kind::kNull);
  EXPECT_FALSE(node.entries[2].value.plain) << "said to be a text";
  EXPECT_EQ(node.entries[2].line, 5);
}

TEST(YamlDocument, AnEmptyFileIsNull) {
  for (const char* text : {"", "\n\n", "# nothing\n", "---\n", "~"}) {
    EXPECT_EQ(parse_yaml(text, "a.yaml").kind, YamlNode::Kind::kNull) << text;
  }
}

TEST(YamlDocument, WhatIsNoYamlIsRefusedWithItsLine) {
  EXPECT_EQ(yaml_refusal("a: 1\nb: [1, 2\nc: 3\n").find("a.yaml, line "), 0U) << yaml_refusal("a: [1");
  for (const char* text : {"a: 1\n\tb: 2\n", "a: {b: 1\n", "a: b: c\n", "*x\n", "%YAML 9\n---\na"}) {
    EXPECT_EQ(yaml_refusal(text).find("a.yaml, line "), 0U) << text << ": " << yaml_refusal(text);
    EXPECT_NE(yaml_refusal(text).find("no valid YAML: "), std::string::npos) << text << ": " << yaml_refusal(text);
  }
}

TEST(YamlDocument, AKeyCannotComeTwice) {
  EXPECT_EQ(yaml_refusal("a: 1\nb: 2\na: 3\n"), "a.yaml, line 3: the key 'a' was given in line 1 already");
  EXPECT_EQ(yaml_refusal("s:\n  x: 1\n  x: 1\n"), "a.yaml, line 3: the key 'x' was given in line 2 already");
}

TEST(YamlDocument, WhatNoConfigurationNeedsIsRefused) {
  EXPECT_EQ(yaml_refusal("a: 1\n---\nb: 2\n"), "a.yaml, line 3: a second document begins; one is expected");
  EXPECT_EQ(yaml_refusal("[a, b]: 1\n"), "a.yaml, line 1: a key must be a name");
  EXPECT_EQ(yaml_refusal("a: !!python/object:os.system x\n"),
            "a.yaml, line 1: the tag tag:yaml.org,2002:python/object:os.system has no meaning here");
}

TEST(YamlDocument, AliasesThatGrowOrContainThemselvesEnd) {
  std::string bomb = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 9; ++i) {
    bomb += fmt::format("a{0}: &a{0} [", i);
    for (int j = 0; j < 10; ++j) bomb += fmt::format("{}*a{}", j == 0 ? "" : ", ", i - 1);
    bomb += "]\n";
  }
  EXPECT_NE(yaml_refusal(bomb).find("more values or deeper nesting"), std::string::npos);
  EXPECT_NE(yaml_refusal("a: &a [*a]\n").find("more values or deeper nesting"), std::string::npos);
  EXPECT_NE(yaml_refusal("a: " + std::string(100, '[') + std::string(100, ']')).find("deeper nesting"),
            std::string::npos);
  EXPECT_NE(yaml_refusal("a: " + std::string(100000, '[')), "accepted");
}

}  // namespace reprise::cli
