#include "text/assistant_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "text/text_test_support.h"

namespace reprise::text {

// For gtest, which prints what differs.
void PrintTo(const ToolCall& call, std::ostream* out) { *out << call.name << "(" << call.arguments << ")"; }
void PrintTo(const AssistantMessage& message, std::ostream* out) {
  *out << "reasoning '" << message.reasoning << "', content '" << message.content << "', calls";
  for (const ToolCall& call : message.calls) PrintTo(call, &(*out << " "));
}

namespace {

using Kind = AssistantDelta::Kind;

struct Answer {
  std::string text;
  AssistantMessage message;
  AssistantParserOptions options = {};
};

constexpr const char* kCall = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>";

std::string call(const std::string& body) { return "<tool_call>\n" + body + "\n</tool_call>"; }

std::vector<Answer> answers() {
  std::vector<Answer> all = {
      {"", {}},
      {"Hello.", {"", "Hello.", {}}},
      {" \n two lines\n", {"", " \n two lines\n", {}}},
      {"  \n", {"", "  \n", {}}},
      // Reasoning.
      {"<think>\nI add.\n\nThen I carry.\n</think>\n\n42 < 43\n", {"I add.\n\nThen I carry.", "42 < 43\n", {}}},
      {"\n<think>\n\n</think>\n\n42", {"", "42", {}}},
      {"<think>cut off \n", {"cut off", "", {}}},
      {"<think>cut off </thi", {"cut off </thi", "", {}}},
      {"<think> a < b <think> </tool_call> </think>c", {"a < b <think> </tool_call>", "c", {}}},
      {"<think>a</think>b</think>c<think>d</think>", {"a", "b</think>c<think>d</think>", {}}},
      {"so <think>no</think>", {"", "so <think>no</think>", {}}},
      {"a <think", {"", "a <think", {}}},
      {"<think", {"", "<think", {}}},
      {"<think>a</think>  \n", {"a", "", {}}},
      {"<think>only <tool_call> thought</think>x", {"only <tool_call> thought", "x", {}}},
      // The prompt has opened the block.
      {"I add.\n</think>\n\n42", {"I add.", "42", {}}, {.starts_in_reasoning = true}},
      {"\n<think>\nI add.\n</think>42", {"I add.", "42", {}}, {.starts_in_reasoning = true}},
      {"<think>a <think>b", {"a <think>b", "", {}}, {.starts_in_reasoning = true}},
      {" <thin", {"<thin", "", {}}, {.starts_in_reasoning = true}},
      {"", {}, {.starts_in_reasoning = true}},
      // Switched off.
      {"<think>\na\n</think>\n\nb", {"", "<think>\na\n</think>\n\nb", {}}, {.reasoning = false}},
      {"a\n</think>b", {"", "a\n</think>b", {}}, {.reasoning = false, .starts_in_reasoning = true}},
      {std::string("a\n") + kCall + "\n", {"", std::string("a\n") + kCall + "\n", {}}, {.tools = false}},
      // Calls.
      {kCall, {"", "", {{"f", "{\"a\": 1}"}}}},
      {std::string("\n") + kCall + "\n", {"", "", {{"f", "{\"a\": 1}"}}}},
      {std::string("Let me look. \n\n") + kCall + "\n" + kCall,
       {"", "Let me look.", {{"f", "{\"a\": 1}"}, {"f", "{\"a\": 1}"}}}},
      {std::string("<think>\nhm\n</think>\n\n") + kCall + "\nDone.", {"hm", "Done.", {{"f", "{\"a\": 1}"}}}},
      {"<tool_call>{\"arguments\":{\"x\":[1.50,1e5,{\"y\":\"}\\\"\"}],\"z\":12345678901234567890123},\"name\":\"g\"}</"
       "tool_call>",
       {"", "", {{"g", "{\"x\":[1.50,1e5,{\"y\":\"}\\\"\"}],\"z\":12345678901234567890123}"}}}},
      {call("{\"name\": \"f\"}"), {"", "", {{"f", "{}"}}}},
      {call("{\"name\": \"f\", \"arguments\": null}"), {"", "", {{"f", "{}"}}}},
      {call("{\"name\": \"f\", \"parameters\" : {} }"), {"", "", {{"f", "{}"}}}},
      {call("{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 2}\"}"), {"", "", {{"f", "{\"a\": 2}"}}}},
      {call("{\"name\": \"\\u00fc\", \"argu\\u006dents\": {\"s\": \"\\u00fc ü\"}}"),
       {"", "", {{"ü", "{\"s\": \"\\u00fc ü\"}"}}}},
      {call("{\"name\": \"f\", \"arguments\": {\"s\": \"</tool_call> \\\\\\\"</tool_call><tool_call>\"}}") + "!",
       {"", "!", {{"f", "{\"s\": \"</tool_call> \\\\\\\"</tool_call><tool_call>\"}"}}}},
      {"a <tool_cal", {"", "a <tool_cal", {}}},
      {"a <tool_call", {"", "a <tool_call", {}}},
  };
  // No calls: the text stays as it is, white space around it as well, and what follows is read as usual.
  for (const char* body : {"", "{", "nothing", "{\"name\": 5}", "{\"name\": \"\"}", "{\"arguments\": {}}", "[]",
                           "{\"name\": \"f\", \"arguments\": [1]}", "{\"name\": \"f\", \"arguments\": 7}",
                           "{\"name\": \"f\", \"arguments\": \"[1]\"}", "{\"name\": \"f\", \"arguments\": \"{\"}",
                           "{\"name\": \"f\"} x", "{\"name\": \"open}", "{\"name\": \"f\\\"}", "{\"na\\<\"",
                           "{\"name\": \"f\", \"arguments\": {\"a\": 01}}", "<tool_call>", "\\\"", "{\"a\\"}) {
    const std::string wrong = "see \n" + call(body) + "\n ";
    all.push_back({wrong, {"", wrong, {}}});
    all.push_back({wrong + kCall, {"", "see \n" + call(body), {{"f", "{\"a\": 1}"}}}});
    all.push_back(
        {kCall + wrong + kCall, {"", wrong.substr(0, wrong.size() - 2), {{"f", "{\"a\": 1}"}, {"f", "{\"a\": 1}"}}}});
  }
  // A string that stays open takes nothing along.
  const std::string open = "<tool_call>{\"name\": \"</tool_call>";
  all.push_back({open, {"", open, {}}});
  all.push_back({open + kCall, {"", open, {{"f", "{\"a\": 1}"}}}});
  all.push_back({"<tool_call>{\"name\": \"f\", \"argu", {"", "<tool_call>{\"name\": \"f\", \"argu", {}}});
  all.push_back({"a\n<tool_call>{}</tool_cal", {"", "a\n<tool_call>{}</tool_cal", {}}});
  return all;
}

AssistantMessage parse_pieces(const std::vector<std::string_view>& pieces, AssistantParserOptions options) {
  AssistantParser parser(options);
  AssistantMessage message;
  const auto take = [&](const std::vector<AssistantDelta>& deltas) {
    for (const AssistantDelta& delta : deltas) {
      EXPECT_EQ(delta.text.empty(), delta.kind == Kind::kToolCall);
      message.add(delta);
    }
  };
  for (const std::string_view piece : pieces) take(parser.push(piece));
  take(parser.finish());
  return message;
}

TEST(AssistantParser, TakesAnswersApart) {
  for (const Answer& answer : answers()) {
    EXPECT_EQ(AssistantParser::parse(answer.text, answer.options), answer.message) << answer.text;
  }
}

TEST(AssistantParser, EveryCutGivesTheSame) {
  std::mt19937 random(20);
  for (const Answer& answer : answers()) {
    const std::string_view text = answer.text;
    std::vector<std::string_view> bytes;
    for (size_t i = 0; i < text.size(); ++i) bytes.push_back(text.substr(i, 1));
    EXPECT_EQ(parse_pieces(bytes, answer.options), answer.message) << text;
    for (size_t i = 0; i <= text.size(); ++i) {
      for (size_t j = i; j <= std::min(text.size(), i + 14); ++j) {
        ASSERT_EQ(parse_pieces({text.substr(0, i), text.substr(i, j - i), text.substr(j)}, answer.options),
                  answer.message)
            << text << " cut at " << i << " and " << j;
      }
    }
    for (int round = 0; round < 20; ++round) {
      std::vector<std::string_view> pieces;
      for (size_t at = 0; at < text.size();) {
        const size_t size = std::uniform_int_distribution<size_t>(1, 9)(random);
        pieces.push_back(text.substr(at, size));
        at += size;
      }
      ASSERT_EQ(parse_pieces(pieces, answer.options), answer.message) << text;
    }
  }
}

/// Texts of markers, quotes and white space in any order.
TEST(AssistantParser, RandomTextsGiveTheSameWhateverTheCutAndLoseNothing) {
  const std::string_view parts[] = {
      "<think>", "</think>", "<tool_call>", "</tool_call>", "{\"name\": \"f\"}", "\"",    "\\",   "{", "}", "\n",
      " ",       "x",        "<",           "</",           "\"name\":",         "\"f\"", "\\\"", "é"};
  std::mt19937 random(7);
  const auto below = [&](size_t limit) { return std::uniform_int_distribution<size_t>(0, limit - 1)(random); };
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (size_t count = below(24); count > 0; --count) text += parts[below(std::size(parts))];
    const AssistantParserOptions options{
        .reasoning = below(4) != 0, .tools = below(4) != 0, .starts_in_reasoning = below(3) == 0};
    const AssistantMessage whole = AssistantParser::parse(text, options);
    std::vector<std::string_view> pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t size = 1 + below(8);
      pieces.push_back(std::string_view(text).substr(at, size));
      at += size;
    }
    ASSERT_EQ(parse_pieces(pieces, options), whole) << text;
    if (!options.reasoning && whole.calls.empty()) {
      ASSERT_EQ(whole.content, text);
    }
    // All but markers and white space is somewhere.
    const auto letters = [](const std::string& of) {
      return std::ranges::count(of, 'x') + std::ranges::count(of, '\xc3');
    };
    ASSERT_EQ(letters(text), letters(whole.reasoning) + letters(whole.content)) << text;
  }
}

TEST(AssistantParser, PassesTextOnAtOnce) {
  AssistantParser parser;
  const auto one = [&](std::string_view piece) {
    const std::vector<AssistantDelta> deltas = parser.push(piece);
    EXPECT_LE(deltas.size(), 1U) << piece;
    return deltas.empty() ? "-" : deltas[0].text;
  };
  EXPECT_EQ(one("<think>"), "-");
  EXPECT_EQ(one("\n"), "-");
  EXPECT_EQ(one("I"), "I");
  EXPECT_EQ(one(" add"), " add");
  EXPECT_EQ(one(".\n"), ".");
  EXPECT_EQ(one("Then"), "\nThen");
  EXPECT_EQ(one("</thi"), "-");
  EXPECT_EQ(one("nk>\n"), "-");
  EXPECT_EQ(one("\n4"), "4");
  EXPECT_EQ(one("2 <"), "2");
  EXPECT_EQ(one(" 43"), " < 43");
  EXPECT_EQ(one("\n<tool_call>\n"), "-");
  EXPECT_EQ(one("{\"name\": \"f\"}\n"), "-");
  const std::vector<AssistantDelta> deltas = parser.push("</tool_call>");
  ASSERT_EQ(deltas.size(), 1U);
  EXPECT_EQ(deltas[0].kind, Kind::kToolCall);
  EXPECT_EQ(deltas[0].call, (ToolCall{"f", "{}"}));
  EXPECT_TRUE(parser.finish().empty());
}

TEST(AssistantParser, DeepAndHostileCallsEndQuickly) {
  const size_t count = 30'000;
  const auto repeated = [&](const std::string& part) {
    std::string text;
    for (size_t i = 0; i < count; ++i) text += part;
    return text;
  };
  const std::string deep = call("{\"name\": \"f\", \"arguments\": {\"a\": " + repeated("[") + repeated("]") + "}}");
  EXPECT_EQ(AssistantParser::parse(deep).calls.size(), 1U);
  for (const char* part :
       {"<tool_call>", "<tool_call>{\\\"</tool_call>", "<tool_call>{\"</tool_call>", "<tool_call>{\"\"</tool_call>",
        "<tool_call>{\"a\\\"</tool_call>", "<tool_call>x</tool_call>\n"}) {
    const std::string text = repeated(part);
    EXPECT_EQ(AssistantParser::parse(text).content, text) << part;
  }
}

TEST(AssistantParser, TellsWhetherMarkersAreSpecial) {
  EXPECT_FALSE(AssistantParser::markers_are_special(mini_tokenizer()));
  const Tokenizer special =
      TokenizerJson{.added_tokens = "[" + added_token(256, "<tool_call>", "special") + "]"}.load();
  EXPECT_TRUE(AssistantParser::markers_are_special(special));
  const Tokenizer ordinary = TokenizerJson{.added_tokens = "[" + added_token(256, "<tool_call>") + "]"}.load();
  EXPECT_FALSE(AssistantParser::markers_are_special(ordinary));
}

TEST(AssistantParser, Qwen3sMarkersStayInDecodedText) {
  REPRISE_REQUIRE_QWEN3_TOKENIZER();
  const Tokenizer& tokenizer = qwen3_tokenizer();
  EXPECT_FALSE(AssistantParser::markers_are_special(tokenizer));
  const std::string answer = std::string("<think>\nhm\n</think>\n\nI look.\n") + kCall + "<|im_end|>";
  EXPECT_EQ(AssistantParser::parse(tokenizer.decode(tokenizer.encode(answer), true)),
            (AssistantMessage{"hm", "I look.", {{"f", "{\"a\": 1}"}}}));
}

}  // namespace
}  // namespace reprise::text
