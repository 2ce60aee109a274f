#include "server/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/request_error.h"

namespace reprise::server {
namespace {

std::string refusal(std::string_view body) {
  try {
    parse_json_body(body);
  } catch (const RequestError& error) {
    return error.what();
  }
  return "";
}

TEST(ServerJson, KeepsTheOrderOfKeys) {
  EXPECT_EQ(to_text(parse_json_body(R"( {"z": 1, "a": [true, null, -2.5], "m": {"k": "\u00fc"}} )")),
            "{\"z\":1,\"a\":[true,null,-2.5],\"m\":{\"k\":\"\u00fc\"}}");
}

TEST(ServerJson, B70RefusesWhatIsNoProperJson) {
  for (const std::string& body : {std::string(), std::string("{"), std::string("{}x"), std::string("\xEF\xBB\xBF{}"),
                                  std::string("{\"a\":1,}"), std::string("{'a':1}"), std::string("{\"a\":NaN}"),
                                  std::string("{\"a\":Infinity}"), std::string("[1 2]"), std::string("\0{}", 3)}) {
    EXPECT_THAT(refusal(body), testing::Not(testing::IsEmpty())) << body;
  }
  EXPECT_THAT(refusal("{\"a\":1e999}"), testing::HasSubstr("too large"));
  EXPECT_THAT(refusal("{\"a\":1,\"b\":2,\"a\":3}"), testing::HasSubstr("'a' occurs twice"));
  EXPECT_THAT(refusal(std::string(10'000, '[') + std::string(10'000, ']')), testing::HasSubstr("nests deeper"));
  EXPECT_THAT(refusal(std::string(1'000'000, '[')), testing::HasSubstr("nests deeper"));
}

TEST(ServerJson, B73RefusesMoreValuesThanAnyRequestNeeds) {
  std::string many = "[0";
  for (int64_t i = 0; i < kMaxJsonValues; ++i) many += ",0";
  EXPECT_THAT(refusal(many + "]"), testing::HasSubstr("more than 1000000 values"));
}

TEST(ServerJson, B71RefusesOtherEncodingsWithoutRepeatingThem) {
  for (const char* body : {"{\"a\":\"\xC4\xE3\xBA\xC3\"}", R"({"a":"\ud800"})", R"({"a":"\udc00\ud800"})",
                           "{\"a\":\"\xC0\xAF\"}", "{\"\xFF\":1}", "{\"a\":\"\xF4\x90\x80\x80\"}"}) {
    const std::string message = refusal(body);
    EXPECT_THAT(message, testing::HasSubstr("not valid JSON (UTF-8): error at byte"));
    for (const char c : message) EXPECT_GE(c, ' ');
  }
  EXPECT_EQ(parse_json_body(R"({"a":"\u0000x"})")["a"].get<std::string>(), std::string("\0x", 2));
}

TEST(ServerJson, WritesValidStringsWhateverTheyHold) {
  std::string out;
  append_json_string(out, "a\"\\\n\x01\x7F\xF0\x9F\x99\x82\xF0\x9F");
  EXPECT_EQ(out, "\"a\\\"\\\\\\n\\u0001\\u007f\xF0\x9F\x99\x82\xEF\xBF\xBD\"");
  EXPECT_EQ(nlohmann::json::parse(out).get<std::string>(), "a\"\\\n\x01\x7F\xF0\x9F\x99\x82\xEF\xBF\xBD");
}

TEST(ServerJson, WritesOneLineForEveryReader) {
  const std::string ends = "\xC2\x85\xE2\x80\xA8\xE2\x80\xA9";
  const std::string others = "\xC2\x84\xC2\x86\xE2\x80\xA7\xE2\x80\xAA\xE2\x82\xAC";
  const std::string text = others + ends + "|" + ends;
  const std::string expected = "\"" + others + R"(\u0085\u2028\u2029|\u0085\u2028\u2029")";
  std::string out;
  append_json_string(out, text);
  EXPECT_EQ(out, expected);
  EXPECT_EQ(to_text(text), expected);
  EXPECT_EQ(to_text(others), "\"" + others + "\"");
  EXPECT_EQ(to_text({{ends, others}}), R"({"\u0085\u2028\u2029":")" + others + "\"}");
  EXPECT_EQ(parse_json_body(out).get<std::string>(), text);
}

}  // namespace
}  // namespace reprise::server
