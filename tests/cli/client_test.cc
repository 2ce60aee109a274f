// The parts of src/client/ that need no server; tests of the program with servers are beside this file.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "client/endpoint.h"
#include "client/event_stream.h"
#include "client/generation.h"
#include "client/http_loop.h"
#include "client/measures.h"
#include "client/prompt_source.h"
#include "client/report.h"
#include "client/server_state.h"
#include "client/token_times.h"

namespace reprise::client {
namespace {

std::vector<std::string> events_of(std::string_view bytes, size_t cut) {
  EventStream stream;
  std::vector<std::string> events;
  const auto collect = [&](std::string_view data) { events.emplace_back(data); };
  stream.feed(bytes.substr(0, cut), collect);
  stream.feed(bytes.substr(cut), collect);
  return events;
}

TEST(EventStream, YieldsTheSameEventsWhereverTheBytesAreCut) {
  const std::string_view bytes =
      "\xEF\xBB\xBF: comment\n\ndata: one\n\nevent: other\nid: 7\ndata:two\r\ndata: lines\r\n\r\n: keep-alive\r\r"
      "data\rdata: \r\r\n\ndata: [DONE]\n\ndata: never ended";
  const std::vector<std::string> expected = {"one", "two\nlines", "\n", "[DONE]"};
  for (size_t cut = 0; cut <= bytes.size(); ++cut) EXPECT_EQ(events_of(bytes, cut), expected) << "cut at " << cut;
  EventStream stream;
  std::vector<std::string> events;
  for (const char byte : bytes) stream.feed({&byte, 1}, [&](std::string_view data) { events.emplace_back(data); });
  EXPECT_EQ(events, expected);
}

TEST(EventStream, RefusesAnEventWithoutEnd) {
  EventStream stream;
  const std::string part(size_t{1} << 20, 'x');
  const auto nothing = [](std::string_view) {};
  stream.feed("data: ", nothing);
  EXPECT_THROW(
      {
        for (int i = 0; i < 65; ++i) stream.feed(part, nothing);
      },
      Error);
}

TEST(Endpoint, ReadsAddressesAndRefusesWhatIsNone) {
  const Endpoint plain = Endpoint::parse("http://localhost:30000/");
  EXPECT_EQ(plain.host + "|" + plain.port + "|" + plain.prefix, "localhost|30000|");
  const Endpoint prefixed = Endpoint::parse("http://[::1]:8080/proxy/a/");
  EXPECT_EQ(prefixed.host + "|" + prefixed.port + "|" + prefixed.prefix, "::1|8080|/proxy/a");
  EXPECT_EQ(prefixed.url(), "http://[::1]:8080/proxy/a");
  EXPECT_EQ(Endpoint::parse("example.org").port, "80");
  for (const char* wrong : {"", "http://", "http://:80", "http://a:0", "http://a:65536", "http://a:8x", "http://a b",
                            "http://::1", "http://[::1", "http://[::1]8", "http://user@a", "http://a/\r\nX: y"}) {
    EXPECT_THROW(Endpoint::parse(wrong), Error) << wrong;
  }
  try {
    Endpoint::parse("https://a");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  }
}

TEST(TokenTimes, DealsAnEventsTimeToItsTokens) {
  const std::vector<ContentEvent> events = {{0.5, 1}, {0.52, 2}, {0.60, 6}, {0.61, 6}, {0.66, 7}};
  const TokenTimes times = token_times(events, 7);
  EXPECT_FALSE(times.estimated);
  EXPECT_DOUBLE_EQ(times.first, 0.5);
  EXPECT_DOUBLE_EQ(times.last, 0.66);
  ASSERT_EQ(times.gaps.size(), 6u);
  for (const double gap : {times.gaps[0], times.gaps[1], times.gaps[4]}) EXPECT_NEAR(gap, 0.02, 1e-12);
  EXPECT_NEAR(times.gaps[5], 0.06, 1e-12);  // the event without a token is part of the time to the next one
  EXPECT_NEAR(*times.per_token, 0.16 / 6, 1e-12);
}

TEST(TokenTimes, OfOneTokenHasNoGap) {
  const std::vector<ContentEvent> one = {{0.3, 1}};
  EXPECT_TRUE(token_times(one, 1).gaps.empty());
  EXPECT_FALSE(token_times(one, 1).per_token.has_value());
}

TEST(TokenTimes, EstimatesWhereOnlyTheTotalIsKnown) {
  const std::vector<ContentEvent> events = {{0.1, -1}, {0.2, -1}, {0.3, -1}};
  EXPECT_FALSE(token_times(events, 3).estimated);
  EXPECT_EQ(token_times(events, 3).gaps.size(), 2u);
  const TokenTimes times = token_times(events, 10);
  EXPECT_TRUE(times.estimated);
  EXPECT_EQ(times.gaps.size(), 7u);  // 3, 6 and 10 tokens by the ends of the events
  EXPECT_NEAR(*times.per_token, 0.2 / 7, 1e-12);
  EXPECT_EQ(token_times(events, 0).gaps.size(), 2u);
}

TEST(Measures, PercentilesAreThoseOfNumpy) {
  const Distribution d = describe({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(d.mean, 2.5);
  EXPECT_DOUBLE_EQ(d.median, 2.5);
  EXPECT_NEAR(d.deviation, 1.118033988749895, 1e-15);
  EXPECT_NEAR(d.p90, 3.7, 1e-12);
  EXPECT_NEAR(d.p99, 3.97, 1e-12);
  EXPECT_DOUBLE_EQ(d.max, 4);
  EXPECT_EQ(describe({}).count, 0u);
  EXPECT_DOUBLE_EQ(describe({7}).p99, 7);
}

TEST(Measures, WilsonsIntervalStaysWithinZeroAndOne) {
  const Interval half = wilson_interval(493, 500);
  EXPECT_NEAR(half.low, 0.9714, 1e-4);
  EXPECT_NEAR(half.high, 0.9932, 1e-4);
  EXPECT_NEAR(wilson_interval(0, 10).high, 0.2775, 1e-4);
  EXPECT_EQ(wilson_interval(0, 10).low, 0);
  EXPECT_NEAR(wilson_interval(10, 10).high, 1, 1e-12);
  EXPECT_EQ(wilson_interval(0, 0).high, 1);
}

TEST(Metrics, ReadsLabelsWithEscapesAndSkipsWhatIsNone) {
  const std::vector<MetricSample> samples = parse_metrics(
      "# HELP a text\n# TYPE a counter\na 3\nb{x=\"1\", y=\"q\\\"u\\\\o\\nte\"} 4.5e1 1700000000\nc{x=\"open} 1\nd\n\n"
      "sglang:gen_throughput{model_name=\"m\"} +Inf\ne{} 2\nf{x=1} 2\n");
  ASSERT_EQ(samples.size(), 4u);
  EXPECT_EQ(samples[0].name, "a");
  EXPECT_DOUBLE_EQ(samples[1].value, 45);
  EXPECT_EQ(samples[1].labels.at("y"), "q\"u\\o\nte");
  EXPECT_TRUE(std::isinf(samples[2].value));
  EXPECT_EQ(samples[3].name, "e");
}

TEST(DecodeStepCounters, SayWhatMovedByMode) {
  const DecodeSteps before = {{{"full", "replayed"}, 10}, {{"full", "capture_failed"}, 2}};
  const DecodeSteps after = {{{"full", "replayed"}, 109}, {{"full", "capture_failed"}, 2}, {{"full", "no_exact"}, 1}};
  EXPECT_EQ(steps_text(difference(after, before)), "full: 99 of 100 replayed (99.0 %), 1 no_exact");
  EXPECT_EQ(steps_text(difference(after, after)), "none");
  const DecodeSteps named = {{{"full", "replayed"}, 3}, {{"full", "mode"}, 0}, {{"eager", "prefill"}, 0}};
  EXPECT_EQ(steps_text(named), "full: 3 of 3 replayed (100.0 %)");
}

TEST(PromptSource, DrawsLengthsFromTheRangeAndTheSamePromptsForASeed) {
  const PromptSource source({100, 50, 0.5}, 7);
  const std::vector<Prompt> prompts = source.random_ids(200, 32);
  int32_t least = 1000, most = 0;
  for (const Prompt& prompt : prompts) {
    EXPECT_EQ(static_cast<size_t>(prompt.tokens), prompt.ids.size());
    EXPECT_GE(prompt.output_tokens, 25);
    EXPECT_LE(prompt.output_tokens, 50);
    least = std::min(least, prompt.tokens);
    most = std::max(most, prompt.tokens);
    for (const int32_t id : prompt.ids) EXPECT_TRUE(id >= 0 && id < 32);
  }
  EXPECT_GE(least, 50);
  EXPECT_LT(least, 55);
  EXPECT_LE(most, 100);
  EXPECT_GT(most, 95);
  EXPECT_EQ(source.random_ids(3, 32)[2].ids, prompts[2].ids);
  EXPECT_NE(PromptSource({100, 50, 0.5}, 8).random_ids(3, 32)[2].ids, prompts[2].ids);
  EXPECT_THROW(PromptSource({100, 50, 1.5}, 7), Error);
  EXPECT_THROW(PromptSource({0, 50, 1}, 7), Error);
}

TEST(PromptSource, ReadsLinesAndConversations) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "prompts.json";
  const auto read = [&](std::string_view content) {
    std::ofstream(path, std::ios::binary) << content;
    return read_prompt_texts(path.string());
  };
  EXPECT_EQ(read("{\"prompt\": \"a\"}\n\n\"b\"\n{\"text\": \"c\", \"id\": 3}"),
            (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(read("[{\"conversations\": [{\"from\": \"human\", \"value\": \"q\"}, {\"value\": \"r\"}]}]"),
            std::vector<std::string>{"q"});
  for (const char* wrong : {"", "\n", "{}", "[1]", "{\"prompt\": 3}", "[{\"conversations\": []}]", "plain text"}) {
    EXPECT_THROW(read(wrong), Error) << wrong;
  }
  std::filesystem::remove(path);
}

TEST(AnswerReader, TellsNewTextFromWhatWasStreamedBefore) {
  AnswerReader cumulative(Interface::kGenerate, false);
  EXPECT_EQ(cumulative.read(R"({"text": "ab", "meta_info": {"completion_tokens": 1}})").text, "ab");
  const AnswerUpdate same = cumulative.read(R"({"text": "ab", "meta_info": {"completion_tokens": 2}})");
  EXPECT_FALSE(same.has_content);
  EXPECT_EQ(same.output_tokens, 2);
  EXPECT_EQ(cumulative.read(R"({"text": "abc", "meta_info": {"finish_reason": {"type": "stop"}}})").finish_reason,
            "stop");
  AnswerReader incremental(Interface::kGenerate, true);
  EXPECT_EQ(incremental.read(R"({"text": "a", "meta_info": {}})").text, "a");
  EXPECT_TRUE(incremental.read(R"({"text": "a", "meta_info": {}})").has_content);
}

TEST(AnswerReader, RefusesWhatTheInterfaceDoesNotHave) {
  for (const char* wrong : {"", "[]", "{\"text\": \"a\"}", "{\"error\": \"no\"}", "{\"object\": \"error\"}",
                            R"({"text": "", "meta_info": {"finish_reason": {"type": "abort", "message": "gone"}}})"}) {
    EXPECT_THROW(AnswerReader(Interface::kGenerate, false).read(wrong), Error) << wrong;
  }
  EXPECT_THROW(AnswerReader(Interface::kChat, false).read("{}"), Error);
  const AnswerUpdate odd = AnswerReader(Interface::kChat, false)
                               .read(R"({"choices": [{"delta": {"content": 5}, "finish_reason": null}], "usage": []})");
  EXPECT_FALSE(odd.has_content);
  EXPECT_TRUE(AnswerReader(Interface::kChat, false)
                  .read(R"({"choices": [{"delta": {"reasoning_content": "hm"}}]})")
                  .has_content);
}

TEST(HttpLoop, CallsInTheOrderOfTimesAndEndsWhenNothingIsLeft) {
  HttpLoop loop(Endpoint::parse("127.0.0.1:9"));
  std::vector<int> calls;
  const auto now = Clock::now();
  loop.at(now + std::chrono::milliseconds(20), [&] { calls.push_back(2); });
  loop.at(now, [&] {
    calls.push_back(1);
    loop.at(now + std::chrono::milliseconds(40), [&] { calls.push_back(3); });
  });
  loop.run();
  EXPECT_EQ(calls, (std::vector<int>{1, 2, 3}));
  EXPECT_GE(Clock::now() - now, std::chrono::milliseconds(40));
  loop.at(now, [] { throw Error(ErrorCode::kCorruptData, "through"); });
  EXPECT_THROW(loop.run(), Error);
  EXPECT_THROW(HttpLoop(Endpoint::parse("no-such-host.invalid:1")), Error);
}

}  // namespace
}  // namespace reprise::client
