#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "base/error.h"
#include "text/text_test_support.h"

namespace reprise::text {
namespace {

using Tokens = std::vector<std::string>;
using testing::HasSubstr;

/// The message of the error that loading raises.
std::string refusal(const TokenizerJson& json) {
  try {
    json.load();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Tokenizer, MergesByRankAndLeftmostFirst) {
  const TokenizerJson json{.merges = {{"b", "c"}, {"a", "b"}, {"a", "a"}, {"aa", "a"}, {"bc", "bc"}}};
  const Tokenizer tokenizer = json.load();
  EXPECT_EQ(tokens_of(tokenizer, "abc"), (Tokens{"a", "bc"}));
  EXPECT_EQ(tokens_of(tokenizer, "aaaaa"), (Tokens{"aa", "aaa"}));
  EXPECT_EQ(tokens_of(tokenizer, "bcbcbc"), (Tokens{"bcbc", "bc"}));
}

/// Rescans all pairs for each merge: slow and plain.
Tokens merge_naively(const TokenizerJson& json, std::string_view text) {
  Tokens tokens;
  for (char c : text) tokens.emplace_back(1, c);
  while (true) {
    size_t best_rank = json.merges.size();
    size_t best = 0;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      for (size_t rank = 0; rank < best_rank; ++rank) {
        if (json.merges[rank] == std::pair(tokens[i], tokens[i + 1])) {
          best_rank = rank;
          best = i;
        }
      }
    }
    if (best_rank == json.merges.size()) return tokens;
    tokens[best] += tokens[best + 1];
    tokens.erase(tokens.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

TEST(Tokenizer, ShortAndLongPiecesMergeAsTheDefinitionSays) {
  const TokenizerJson json{.merges = {{"b", "a"},
                                      {"a", "b"},
                                      {"a", "a"},
                                      {"ab", "ba"},
                                      {"aa", "b"},
                                      {"aa", "aa"},
                                      {"ba", "ab"},
                                      {"b", "b"},
                                      {"bb", "aab"}}};
  const Tokenizer tokenizer = json.load();
  uint32_t state = 1;
  for (size_t length = 1; length < 120; ++length) {
    std::string text;
    for (size_t i = 0; i < length; ++i) {
      state = state * 1664525 + 1013904223;
      text.push_back(state >> 30 == 0 ? 'c' : state >> 31 ? 'a' : 'b');
    }
    ASSERT_EQ(tokens_of(tokenizer, text), merge_naively(json, text)) << text;
  }
}

TEST(Tokenizer, BothFormsOfMergesAreTheSame) {
  const TokenizerJson pairs{.merges = {{"a", "b"}, {"ab", "c"}}};
  std::string strings = pairs.text();
  const std::string form = R"([["a","b"],["ab","c"]])";
  strings.replace(strings.find(form), form.size(), R"(["a b","ab c"])");
  EXPECT_EQ(Tokenizer::from_json(strings).encode("abcab"), pairs.load().encode("abcab"));
  EXPECT_EQ(tokens_of(pairs.load(), "abcab"), (Tokens{"abc", "ab"}));
}

TEST(Tokenizer, IgnoreMergesTakesAWholePieceFromTheVocabulary) {
  TokenizerJson json{.merges = {{"a", "b"}, {"b", "c"}, {"a", "bc"}}};
  EXPECT_EQ(tokens_of(json.load(), "abc"), (Tokens{"ab", "c"}));
  json.model_keys = R"("ignore_merges":true,)";
  EXPECT_EQ(tokens_of(json.load(), "abc"), (Tokens{"abc"}));
  EXPECT_EQ(tokens_of(json.load(), "abcc"), (Tokens{"ab", "c", "c"}));
}

TEST(Tokenizer, SplitBehaviorsCutAsTheyAreNamed) {
  const auto cut = [](std::string_view behavior, std::string_view invert) {
    // Letters merge, so that the pieces can be told apart.
    TokenizerJson json{.merges = {{"a", "b"}, {"-", "-"}, {"ab", "-"}, {"-", "ab"}, {"--", "ab"}, {"ab", "--"}}};
    json.pre_tokenizer = fmt::format(
        R"({{"type":"Sequence","pretokenizers":[{{"type":"Split","pattern":{{"String":"-"}},"behavior":"{}","invert":{}}},)"
        R"({{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}}]}})",
        behavior, invert);
    return tokens_of(json.load(), "ab--ab");
  };
  EXPECT_EQ(cut("Isolated", "false"), (Tokens{"ab", "-", "-", "ab"}));
  EXPECT_EQ(cut("Removed", "false"), (Tokens{"ab", "ab"}));
  EXPECT_EQ(cut("Removed", "true"), (Tokens{"-", "-"}));
  EXPECT_EQ(cut("MergedWithPrevious", "false"), (Tokens{"ab-", "-", "ab"}));
  EXPECT_EQ(cut("MergedWithNext", "false"), (Tokens{"ab", "-", "-ab"}));
  EXPECT_EQ(cut("Contiguous", "false"), (Tokens{"ab", "--", "ab"}));
}

TEST(Tokenizer, ByteLevelBringsItsExpressionAndASpaceInFront) {
  TokenizerJson json{.merges = {{"Ġ", "a"}, {"a", "1"}, {"1", "1"}}};
  json.pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true})";
  EXPECT_EQ(tokens_of(json.load(), "a11"), (Tokens{"Ġa", "11"}));
  EXPECT_EQ(tokens_of(json.load(), " a"), (Tokens{"Ġa"}));
  EXPECT_EQ(tokens_of(json.load(), ""), Tokens{});
}

TEST(Tokenizer, DigitsAndPunctuationCut) {
  TokenizerJson json{.merges = {{"1", "1"}, {"!", "!"}}};
  const auto with = [&](std::string_view first) {
    json.pre_tokenizer = fmt::format(
        R"({{"type":"Sequence","pretokenizers":[{},{{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}}]}})",
        first);
    return tokens_of(json.load(), "11!!");
  };
  EXPECT_EQ(with(R"({"type":"Digits","individual_digits":true})"), (Tokens{"1", "1", "!!"}));
  EXPECT_EQ(with(R"({"type":"Digits","individual_digits":false})"), (Tokens{"11", "!!"}));
  EXPECT_EQ(with(R"({"type":"Punctuation"})"), (Tokens{"11", "!", "!"}));
  EXPECT_EQ(with(R"({"type":"Punctuation","behavior":"Contiguous"})"), (Tokens{"11", "!!"}));
}

TEST(Tokenizer, NormalizersChangeTheTextAsTheyAreNamed) {
  const auto normalized = [](std::string_view normalizer, std::string_view text) {
    const Tokenizer tokenizer = TokenizerJson{.normalizer = std::string(normalizer)}.load();
    return tokenizer.decode(tokenizer.encode(text));
  };
  EXPECT_EQ(normalized(R"({"type":"NFD"})", "\u00E9"), "e\u0301");
  EXPECT_EQ(normalized(R"({"type":"NFKD"})", "\uFB01\u00E9"), "fie\u0301");
  EXPECT_EQ(normalized(R"({"type":"Lowercase"})", "ÀΣİ"), "àσi\u0307");
  EXPECT_EQ(normalized(R"({"type":"Strip","strip_left":true,"strip_right":true})", " \u3000a b\u00A0\n"), "a b");
  EXPECT_EQ(normalized(R"({"type":"Strip","strip_left":false,"strip_right":true})", " a "), " a");
  EXPECT_EQ(normalized(R"({"type":"Strip","strip_left":true,"strip_right":true})", " \n "), "");
  EXPECT_EQ(normalized(R"({"type":"Prepend","prepend":"_"})", "a"), "_a");
  EXPECT_EQ(normalized(R"({"type":"Replace","pattern":{"String":"."},"content":"--"})", "a.b"), "a--b");
  EXPECT_EQ(normalized(R"({"type":"Replace","pattern":{"Regex":"\\s+"},"content":""})", "a \n b"), "ab");
}

TEST(Tokenizer, AddedTokensTakeTheLongestAtTheLeftmostPlace) {
  TokenizerJson json{.added_tokens = fmt::format("[{},{},{}]", added_token(256, "<a>"), added_token(257, "<a><b>"),
                                                 added_token(258, "b>"))};
  EXPECT_EQ(tokens_of(json.load(), "x<a><b><a>b>"), (Tokens{"x", "<a><b>", "<a>", "b>"}));
}

TEST(Tokenizer, AddedTokenFlagsDecideAboutTheSurroundings) {
  TokenizerJson json{
      .added_tokens = fmt::format("[{},{},{},{}]", added_token(256, "[l]", "lstrip"), added_token(257, "[r]", "rstrip"),
                                  added_token(258, "word", "single_word"), added_token(259, "[s]", "special"))};
  const Tokenizer tokenizer = json.load();
  EXPECT_EQ(tokens_of(tokenizer, "a \t[l] b"), (Tokens{"a", "[l]", "Ġ", "b"}));
  EXPECT_EQ(tokens_of(tokenizer, "a [r] \u3000b"), (Tokens{"a", "Ġ", "[r]", "b"}));
  EXPECT_EQ(tokens_of(tokenizer, "[r]  [l]"), (Tokens{"[r]", "[l]"}));
  EXPECT_EQ(tokens_of(tokenizer, "word-word"), (Tokens{"word", "-", "word"}));
  EXPECT_EQ(tokens_of(tokenizer, "swordé"), (Tokens{"s", "w", "o", "r", "d", "Ã", "©"}));
  EXPECT_TRUE(tokenizer.is_special(259));
  EXPECT_FALSE(tokenizer.is_special(258));
  const std::vector<int32_t> ids{65, 259, 258};
  EXPECT_EQ(tokenizer.decode(ids), "A[s]word");
  EXPECT_EQ(tokenizer.decode(ids, true), "Aword");
}

TEST(Tokenizer, TemplatesPutTheirTokensAroundATextOnRequest) {
  TokenizerJson json{
      .added_tokens = fmt::format("[{},{}]", added_token(256, "<s>", "special"), added_token(257, "</s>", "special"))};
  json.post_processor = R"({"type":"Sequence","processors":[{"type":"ByteLevel","trim_offsets":true},
    {"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},
     {"SpecialToken":{"id":"</s>","type_id":0}}],"pair":[],"special_tokens":{
     "<s>":{"id":"<s>","ids":[256],"tokens":["<s>"]},"</s>":{"id":"</s>","ids":[257],"tokens":["</s>"]}}}]})";
  EXPECT_EQ(tokens_of(json.load(), "a"), (Tokens{"<s>", "a", "</s>"}));
  EXPECT_EQ(tokens_of(json.load(), "a", {.add_special_tokens = false}), (Tokens{"a"}));
  json.post_processor.replace(json.post_processor.find("[256]"), 5, "[255]");
  EXPECT_THAT(refusal(json), HasSubstr("post_processor.processors[1].special_tokens.<s>.ids[0]"));
}

TEST(Tokenizer, BytesThatAreNotUtf8CountAsReplacementCharacters) {
  const Tokenizer& tokenizer = mini_tokenizer();
  EXPECT_EQ(tokenizer.encode("a\xFFz"), tokenizer.encode("a\uFFFDz"));
  // One for each maximal subpart: a cut-off character is one, its stray continuation bytes one each.
  EXPECT_EQ(tokenizer.encode("\xF0\x9F\x99"), tokenizer.encode("\uFFFD"));
  EXPECT_EQ(tokenizer.encode("\xED\xA0\x80"), tokenizer.encode("\uFFFD\uFFFD\uFFFD"));
}

TEST(Tokenizer, IdsWithoutATokenYieldNothing) {
  const Tokenizer& tokenizer = mini_tokenizer();
  const std::vector<int32_t> ids{-1, 0, 2048, INT32_MAX, INT32_MIN};
  EXPECT_EQ(tokenizer.decode(ids), "!");
  EXPECT_EQ(tokenizer.vocabulary_size(), 2048);
  EXPECT_FALSE(tokenizer.has_token(2048));
  EXPECT_TRUE(tokenizer.has_token(2047));
  EXPECT_EQ(tokenizer.id_to_token(-1), "");
}

TEST(Tokenizer, IdsAndTokensAreFoundBothWays) {
  const Tokenizer& tokenizer = mini_tokenizer();
  for (int32_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    ASSERT_EQ(tokenizer.token_to_id(tokenizer.id_to_token(id)), id);
  }
  EXPECT_EQ(tokenizer.token_bytes(*tokenizer.token_to_id("Ġt")), " t");
  EXPECT_EQ(tokenizer.token_to_id("no such token"), std::nullopt);
}

TEST(Tokenizer, ThreadsShareOne) {
  const Tokenizer& tokenizer = mini_tokenizer();
  const std::string text = "Question: how many apples? \u00E9\n#### 42<|im_end|>";
  const auto expected = tokenizer.encode(text);
  std::vector<std::thread> threads;
  std::atomic<int> equal = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 50; ++n) equal += tokenizer.encode(text) == expected && tokenizer.decode(expected) == text;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal, 200);
}

TEST(Tokenizer, WrongLiteralRangesAreRefused) {
  const Tokenizer& tokenizer = mini_tokenizer();
  const auto encode = [&](std::string_view text, std::vector<TextRange> ranges) {
    return tokenizer.encode(text, {.literal_ranges = ranges});
  };
  EXPECT_THROW(encode("abc", {{2, 4}}), Error);
  EXPECT_THROW(encode("abc", {{2, 1}}), Error);
  EXPECT_THROW(encode("abc", {{1, 2}, {0, 1}}), Error);
  EXPECT_THROW(encode("a\xFF", {{0, 1}}), Error);
  EXPECT_NO_THROW(encode("abc", {{0, 1}, {1, 3}}));
}

TEST(Tokenizer, RefusesByPathWhatItDoesNotSupport) {
  const auto sequence = [](std::string_view part) {
    return fmt::format(R"({{"type":"Sequence","pretokenizers":[{}]}})", part);
  };
  const std::string byte_level =
      R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false})";
  EXPECT_THAT(refusal({.normalizer = R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Precompiled"}]})"}),
              HasSubstr("normalizer.normalizers[1].type: 'Precompiled'"));
  EXPECT_THAT(refusal({.normalizer = R"({"type":"NFC","extra":1})"}), HasSubstr("normalizer.extra: unknown key"));
  EXPECT_THAT(refusal({.pre_tokenizer = "null"}), HasSubstr("pre_tokenizer: has no ByteLevel"));
  EXPECT_THAT(refusal({.pre_tokenizer = sequence(R"({"type":"Metaspace"})")}),
              HasSubstr("pre_tokenizer.pretokenizers[0].type: 'Metaspace'"));
  EXPECT_THAT(refusal({.pre_tokenizer = sequence(byte_level + R"(,{"type":"Digits","individual_digits":true})")}),
              HasSubstr("pre_tokenizer.pretokenizers[1].type: 'Digits' after ByteLevel"));
  EXPECT_THAT(refusal({.post_processor = R"({"type":"BertProcessing"})"}),
              HasSubstr("post_processor.type: 'BertProcessing'"));
  EXPECT_THAT(refusal({.decoder = R"({"type":"Metaspace"})"}), HasSubstr("decoder.type: 'Metaspace'"));
  EXPECT_THAT(refusal({.decoder = "null"}), HasSubstr("decoder: has no ByteLevel"));
  EXPECT_THAT(refusal({.model_keys = R"("dropout":0.1,)"}), HasSubstr("model.dropout"));
  EXPECT_THAT(refusal({.model_keys = R"("byte_fallback":true,)"}), HasSubstr("model.byte_fallback"));
  EXPECT_THAT(refusal({.model_keys = R"("end_of_word_suffix":"</w>",)"}),
              HasSubstr("model.end_of_word_suffix: '</w>'"));
  EXPECT_THAT(refusal({.model_keys = R"("surprise":1,)"}), HasSubstr("model.surprise: unknown key"));
  EXPECT_THAT(refusal({.root_keys = R"("truncation":{},)"}), HasSubstr("truncation: only null"));
  EXPECT_THAT(refusal({.root_keys = R"("padding":{},)"}), HasSubstr("padding: only null"));
  EXPECT_EQ(
      refusal({.model_keys = R"("dropout":null,"unk_token":"","fuse_unk":false,"continuing_subword_prefix":"",)"}), "");
}

TEST(Tokenizer, RefusesByPathWhatContradictsItself) {
  EXPECT_THAT(refusal({.added_tokens = "[" + added_token(256, "!") + "]"}),
              HasSubstr("added_tokens[0]: '!' has the id 256"));
  EXPECT_THAT(refusal({.added_tokens = "[" + added_token(3, "<x>") + "]"}), HasSubstr("added_tokens[0]"));
  EXPECT_THAT(refusal({.added_tokens = "[" + added_token(-1, "<x>") + "]"}), HasSubstr("added_tokens[0].id: -1"));
  EXPECT_THAT(refusal({.added_tokens = R"([{"id":256}])"}), HasSubstr("added_tokens[0].content: missing"));
  EXPECT_THAT(refusal({.added_tokens = R"({})"}), HasSubstr("added_tokens: expected an array"));
  EXPECT_THAT(refusal({.root_keys = R"("version":"1.0",)"}), HasSubstr("'version' is given twice"));

  std::string text = TokenizerJson{.merges = {{"a", "b"}}}.text();
  text.replace(text.find(R"([["a","b"]])"), 11, R"([["a","q"]])");
  EXPECT_THROW(Tokenizer::from_json(text), Error);
  EXPECT_THROW(Tokenizer::from_json("{"), Error);
  EXPECT_THROW(Tokenizer::from_json(""), Error);
  EXPECT_THROW(Tokenizer::from_json("[]"), Error);
  EXPECT_THROW(Tokenizer::from_json(R"({"version":"1.0")"
                                    "\xFF"),
               Error);
}

TEST(Tokenizer, WrongEntriesOfTheTablesAreNamed) {
  const auto refusal_with = [](std::string_view from, std::string_view to) -> std::string {
    std::string text = TokenizerJson{.merges = {{"a", "b"}, {"ab", "c"}}}.text();
    text.replace(text.find(from), from.size(), to);
    try {
      Tokenizer::from_json(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::string merge = R"(["ab","c"])";
  EXPECT_THAT(refusal_with(merge, R"(["ab","c","d"])"), HasSubstr("model.merges[1]: expected two tokens"));
  EXPECT_THAT(refusal_with(merge, R"(["ab"])"), HasSubstr("model.merges[1]: expected two tokens"));
  EXPECT_THAT(refusal_with(merge, R"(["ab",["c"]])"), HasSubstr("model.merges[1]: expected two tokens"));
  EXPECT_THAT(refusal_with(merge, R"("ab c d")"), HasSubstr("model.merges[1]: expected two tokens"));
  EXPECT_THAT(refusal_with(merge, "7"), HasSubstr("model.merges[1]: expected two tokens"));
  EXPECT_THAT(refusal_with(merge, "{}"), HasSubstr("model.merges[1]: expected two tokens"));
  EXPECT_THAT(refusal_with(merge, R"(["ab","q"])"), HasSubstr("model.merges[1]: 'abq' is not in the vocabulary"));
  EXPECT_THAT(refusal_with(R"("ab":256)", R"("ab":"x")"), HasSubstr("model.vocab['ab']: expected an integer"));
  EXPECT_THAT(refusal_with(R"("ab":256)", R"("ab":{})"), HasSubstr("model.vocab['ab']: expected an integer"));
  EXPECT_THAT(refusal_with(R"("ab":256)", R"("ab":18446744073709551615)"), HasSubstr("model.vocab"));
  EXPECT_THAT(refusal_with(R"("ab":256)", R"("ab":255)"), HasSubstr("have the same id 255"));
  EXPECT_THAT(refusal_with(R"("ab":256)", R"("ab":256,"ab":258)"), HasSubstr("'ab' has two ids"));
  EXPECT_THAT(refusal_with(R"("merges":[)", R"("merges":7,"x":[)"), HasSubstr("model.merges: expected an array"));
}

TEST(Tokenizer, DeepNestingNeedsNoStack) {
  const size_t depth = 300'000;
  const std::string nested = std::string(depth, '[') + std::string(depth, ']');
  EXPECT_THROW(Tokenizer::from_json(nested), Error);
  EXPECT_THROW(Tokenizer::from_json(std::string(depth, '[')), Error);
  EXPECT_THAT(refusal({.added_tokens = nested}), HasSubstr("added_tokens[0]: expected an object"));
}

TEST(Tokenizer, FilesThatAreMissingOrCutShortAreNamed) {
  try {
    load_tokenizer(REPRISE_SOURCE_DIR "/tests");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("tests/tokenizer.json"));
  }
  std::ifstream file(REPRISE_SOURCE_DIR "/models/mini/tokenizer.json");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  text.resize(text.size() / 2);
  EXPECT_THROW(Tokenizer::from_json(text), Error);
}

}  // namespace
}  // namespace reprise::text
