#include "engine/sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace reprise::engine {
namespace {

const text::Tokenizer& tokenizer() {
  static const text::Tokenizer loaded = text::load_tokenizer(REPRISE_SOURCE_DIR "/models/mini");
  return loaded;
}

int32_t special_token() { return tokenizer().token_to_id("<|im_end|>").value(); }

// What a client sees of an output that is forced token by token.
struct Client {
  std::string streamed;
  RequestOutput output;
};

Client run(const std::vector<int32_t>& tokens, const SamplingParameters& sampling, bool skip_special_tokens = true,
           const std::vector<int32_t>& end_tokens = {}) {
  Sequence sequence(1, {{5}, sampling, skip_special_tokens, {}}, 0, tokenizer().vocabulary_size(), tokenizer(),
                    end_tokens);
  Client client;
  for (const int32_t token : tokens) {
    sequence.append(token);
    const TokenEvent event = sequence.take_event();
    EXPECT_EQ(event.token, token);
    EXPECT_TRUE(text::is_valid_utf8(event.text));
    client.streamed += event.text;
    EXPECT_EQ(event.output != nullptr, sequence.finished());
    if (sequence.finished()) break;
  }
  if (!sequence.finished()) {
    sequence.finish(FinishReason::kCancelled);
    client.streamed += sequence.take_event().text;
  }
  client.output = sequence.output();
  return client;
}

SamplingParameters with_stops(std::vector<std::string> stops, int32_t max_new_tokens = 1000) {
  SamplingParameters sampling;
  sampling.stop = std::move(stops);
  sampling.max_new_tokens = max_new_tokens;
  return sampling;
}

// One token for each character, so that every stop string spans several tokens.
std::vector<int32_t> letters(std::string_view text) {
  std::vector<int32_t> ids;
  for (const char letter : text) {
    for (const int32_t id : tokenizer().encode(std::string_view(&letter, 1))) ids.push_back(id);
  }
  return ids;
}

TEST(Sequence, TextThatIsMadeLateIsAllThereWhenItIsTold) {
  Sequence sequence(1, {{5}, with_stops({}), true, {}}, 0, tokenizer().vocabulary_size(), tokenizer());
  for (const int32_t token : tokenizer().encode("Tom has three")) sequence.append(token);
  EXPECT_EQ(sequence.take_event().text, "Tom has three");
  for (const int32_t token : tokenizer().encode(" more apples")) sequence.append(token);
  sequence.finish(FinishReason::kCancelled);
  EXPECT_EQ(sequence.output().text, "Tom has three more apples");
  EXPECT_EQ(sequence.take_event().text, " more apples");
}

TEST(Sequence, TextIsWhatTheTokenizerDecodes) {
  const std::string text = "Natalia sold 48 clips: \xF0\x9F\x99\x82 \xE6\xBC\xA2!";
  const Client client = run(tokenizer().encode(text), with_stops({}));
  EXPECT_EQ(client.streamed, text);
  EXPECT_EQ(client.output.text, text);
}

TEST(Sequence, B60NothingOfAStopStringLeaks) {
  const auto expect = [](const std::vector<std::string>& stops, const std::string& text, const std::string& stop) {
    const Client client = run(letters("ABCDEFG"), with_stops(stops));
    EXPECT_EQ(client.streamed, text);
    EXPECT_EQ(client.output.text, text);
    EXPECT_EQ(client.output.stop_string, stop);
    EXPECT_EQ(client.output.finish, stop.empty() ? FinishReason::kCancelled : FinishReason::kStop);
  };
  expect({"CDE"}, "AB", "CDE");
  expect({"DE"}, "ABC", "DE");
  expect({"G"}, "ABCDEF", "G");
  expect({"ABC"}, "", "ABC");
  expect({"X", "Y", "GH", "FX", "EF"}, "ABCD", "EF");
  expect({"FGH"}, "ABCDEFG", "");
}

TEST(Sequence, B60TheStopStringIsPartOfTheTextWhenItIsKept) {
  const auto expect = [](const std::vector<std::string>& stops, const std::string& text, const std::string& stop) {
    SamplingParameters sampling = with_stops(stops);
    sampling.keep_stop = true;
    const Client client = run(letters("ABCDEFG"), sampling);
    EXPECT_EQ(client.streamed, text);
    EXPECT_EQ(client.output.text, text);
    EXPECT_EQ(client.output.stop_string, stop);
  };
  expect({"CDE"}, "ABCDE", "CDE");
  expect({"G"}, "ABCDEFG", "G");
  expect({"ABC"}, "ABC", "ABC");
  expect({"FGH"}, "ABCDEFG", "");
}

TEST(Sequence, B60StopStringsBesideAndAcrossControlTokens) {
  std::vector<int32_t> tokens = letters("ABC");
  tokens.push_back(special_token());
  for (const int32_t letter : letters("DEF")) tokens.push_back(letter);
  for (const bool keep : {false, true}) {
    const auto expect = [&](const std::string& stop, bool skip_special, const std::string& text,
                            const std::string& kept) {
      SamplingParameters sampling = with_stops({stop});
      sampling.keep_stop = keep;
      const Client client = run(tokens, sampling, skip_special);
      EXPECT_EQ(client.streamed, keep ? kept : text) << stop;
      EXPECT_EQ(client.output.text, client.streamed);
      EXPECT_EQ(client.output.finish == FinishReason::kStop, client.output.stop_string == stop) << stop;
    };
    // Where the text leaves control tokens out, what lies around them is side by side.
    expect("CD", true, "AB", "ABCD");
    expect("C<|im_end|>D", true, "ABCDEF", "ABCDEF");
    expect("CD", false, "ABC<|im_end|>DEF", "ABC<|im_end|>DEF");
    expect("C<|im_end|>D", false, "AB", "ABC<|im_end|>D");
    expect("C<|im", false, "AB", "ABC<|im");
    // The token itself ends the text, shown or not.
    expect("<|im_end|>", true, "ABC", "ABC");
    expect("<|im_end|>", false, "ABC", "ABC<|im_end|>");
  }
}

TEST(Sequence, TheTokenThatEndedItIsToldAndItsTextKeptWhenAskedFor) {
  SamplingParameters sampling = with_stops({});
  sampling.stop_token_ids = letters("C");
  ASSERT_EQ(sampling.stop_token_ids.size(), 1u);
  for (const bool keep : {false, true}) {
    sampling.keep_stop = keep;
    const Client client = run(letters("ABCD"), sampling);
    EXPECT_EQ(client.streamed, keep ? "ABC" : "AB");
    EXPECT_EQ(client.output.finish, FinishReason::kStop);
    EXPECT_EQ(client.output.stop_token, sampling.stop_token_ids[0]);
  }
  // A control token has text only where those are shown.
  std::vector<int32_t> tokens = letters("AB");
  tokens.push_back(special_token());
  EXPECT_EQ(run(tokens, sampling, true, {special_token()}).streamed, "AB");
  EXPECT_EQ(run(tokens, sampling, false, {special_token()}).streamed, "AB<|im_end|>");
}

TEST(Sequence, NothingEndsTheOutputBeforeItsLeastTokens) {
  SamplingParameters sampling = with_stops({"BC", "EF"});
  sampling.min_new_tokens = 4;
  Client client = run(letters("ABCDEFG"), sampling);
  EXPECT_EQ(client.streamed, "ABCD");
  EXPECT_EQ(client.output.stop_string, "EF");
  // A stop string may not begin before either.
  sampling.stop = {"DE", "FG"};
  client = run(letters("ABCDEFG"), sampling);
  EXPECT_EQ(client.streamed, "ABCDE");

  sampling = with_stops({});
  sampling.min_new_tokens = 2;
  sampling.stop_token_ids = letters("C");
  Sequence sequence(1, {{5}, sampling, true, {}}, 0, tokenizer().vocabulary_size(), tokenizer(),
                    std::vector<int32_t>{special_token()});
  EXPECT_EQ(sequence.forbidden_tokens().size(), 2u);
  for (const int32_t id : letters("AC")) sequence.append(id);
  EXPECT_FALSE(sequence.finished());
  EXPECT_TRUE(sequence.forbidden_tokens().empty());
  sequence.append(letters("C")[0]);
  EXPECT_TRUE(sequence.finished());
}

TEST(Sequence, B60AStopStringWithAnEmojiIsFound) {
  const std::string emoji = "\xF0\x9F\x99\x82";
  const Client client = run(tokenizer().encode("yes " + emoji + " no"), with_stops({emoji}));
  EXPECT_EQ(client.streamed, "yes ");
  EXPECT_EQ(client.output.stop_string, emoji);
}

TEST(Sequence, B60ASpecialTokenInsideAStopStringIsInvisibleOrBreaksIt) {
  std::vector<int32_t> tokens = letters("AB");
  tokens.push_back(special_token());
  for (const int32_t id : letters("CD")) tokens.push_back(id);
  const Client skipped = run(tokens, with_stops({"BC"}));
  EXPECT_EQ(skipped.streamed, "A");
  EXPECT_EQ(skipped.output.finish, FinishReason::kStop);
  const Client shown = run(tokens, with_stops({"BC"}), false);
  EXPECT_EQ(shown.streamed, "AB<|im_end|>CD");
}

TEST(Sequence, EndTokensAreNoTextButReleaseWhatWasHeldBack) {
  std::vector<int32_t> tokens = letters("ABC");
  tokens.push_back(special_token());
  const Client client = run(tokens, with_stops({"CD"}), false, {special_token()});
  EXPECT_EQ(client.streamed, "ABC");
  EXPECT_EQ(client.output.finish, FinishReason::kStop);
  EXPECT_EQ(client.output.stop_string, "");
  EXPECT_EQ(client.output.token_ids, tokens);
}

TEST(Sequence, B08ALimitInsideACharacterYieldsOneReplacementCharacterAtTheEnd) {
  std::vector<int32_t> bytes;
  for (int32_t id = 0; id < tokenizer().vocabulary_size() && bytes.size() < 1; ++id) {
    if (tokenizer().token_bytes(id) == "\xF0") bytes.push_back(id);
  }
  ASSERT_EQ(bytes.size(), 1u);
  for (int32_t id = 0; id < tokenizer().vocabulary_size(); ++id) {
    if (tokenizer().token_bytes(id) == "\x9F") bytes.push_back(id);
  }
  ASSERT_EQ(bytes.size(), 2u);
  for (int32_t limit = 1; limit <= 2; ++limit) {
    const Client client = run(bytes, with_stops({}, limit));
    EXPECT_EQ(client.streamed, text::kReplacementCharacter);
    EXPECT_EQ(client.output.finish, FinishReason::kLength);
  }
}

TEST(Sequence, AnErrorKeepsTheTextSoFar) {
  Sequence sequence(1, {{5}, with_stops({}), true, {}}, 0, tokenizer().vocabulary_size(), tokenizer());
  for (const int32_t id : letters("AB")) sequence.append(id);
  sequence.fail(Error(ErrorCode::kOutOfMemory, "full"));
  sequence.fail(Error(ErrorCode::kInternal, "again"));
  sequence.finish(FinishReason::kCancelled);
  const TokenEvent event = sequence.take_event();
  ASSERT_NE(event.output, nullptr);
  EXPECT_EQ(event.output->text, "AB");
  EXPECT_EQ(event.output->finish, FinishReason::kError);
  EXPECT_EQ(event.output->error->code(), ErrorCode::kOutOfMemory);
}

}  // namespace
}  // namespace reprise::engine
