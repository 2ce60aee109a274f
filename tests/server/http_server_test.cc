#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "server/http_server_harness.h"

namespace reprise::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST_F(HttpServerTest, AnswersSeveralRequestsOfOneConnection) {
  start();
  RawClient client(port());
  EXPECT_THAT(client.ask(kHealth), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(client.ask(post("/echo", R"({"a":1})")), HasSubstr("\r\n\r\n{\"a\":1}"));
  // Two at once are answered one after the other.
  client.send(post("/echo", "1111") + post("/echo", "2222"));
  EXPECT_THAT(client.receive_until("2222"), HasSubstr("1111"));
  EXPECT_THAT(client.ask("GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
              HasSubstr("Connection: close"));
  EXPECT_TRUE(client.closed_by_server());
}

TEST_F(HttpServerTest, NamesWhatIsNotThere) {
  start();
  RawClient client(port());
  EXPECT_THAT(client.ask("GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n"), StartsWith("HTTP/1.1 404"));
  const std::string wrong_method = client.ask("DELETE /health HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(wrong_method, StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(wrong_method, HasSubstr("Allow: GET, HEAD, OPTIONS"));
  EXPECT_THAT(client.ask("GET /models/a%2Fb HTTP/1.1\r\nHost: x\r\n\r\n"), HasSubstr("/models/a%2Fb"));
  client.send("HEAD /health HTTP/1.1\r\nHost: x\r\n\r\n");
  const std::string head = client.receive_until("\r\n\r\n");
  EXPECT_THAT(head, HasSubstr("Content-Length: 2\r\n"));
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
  RawClient other(port());
  EXPECT_THAT(other.ask("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}"),
              StartsWith("HTTP/1.1 400"));
}

TEST_F(HttpServerTest, GivesExceptionsOfHandlersAsErrors) {
  start();
  RawClient client(port());
  const std::string answer = client.ask(post("/throw", ""));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(answer, HasSubstr(R"({"error":{"message":"no such thing","type":"invalid_request_error","param":null)"));
  EXPECT_THAT(client.ask(kHealth), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, KeepsProperRequestIdsAndMakesOthers) {
  start();
  RawClient client(port());
  EXPECT_THAT(client.ask("GET /health HTTP/1.1\r\nHost: x\r\nX-Request-Id: job-7.a\r\n\r\n"),
              HasSubstr("x-request-id: job-7.a\r\n"));
  const std::string made = client.ask("GET /health HTTP/1.1\r\nHost: x\r\nx-request-id: a b\"c\r\n\r\n");
  EXPECT_THAT(made, Not(HasSubstr("a b")));
  EXPECT_THAT(made, testing::ContainsRegex("x-request-id: [0-9a-f]{32}\r\n"));
}

TEST_F(HttpServerTest, HasItsOwnIdOfARequestWhateverTheClientCallsIt) {
  start();
  RawClient client(port());
  const std::string first = client.ask("GET /id HTTP/1.1\r\nHost: x\r\nx-request-id: same\r\n\r\n");
  const std::string second = client.ask("GET /id HTTP/1.1\r\nHost: x\r\nx-request-id: same\r\n\r\n");
  EXPECT_THAT(first, HasSubstr("x-request-id: same\r\n"));
  EXPECT_THAT(first, testing::ContainsRegex("\r\n\r\n[0-9a-f]{32}$"));
  EXPECT_NE(first, second);
}

TEST_F(HttpServerTest, B73RefusesWhatIsTooLargeWithoutReadingIt) {
  HttpServerOptions options;
  options.max_body_bytes = 1000;
  options.max_header_bytes = 4096;
  start(options);
  {
    RawClient client(port());
    EXPECT_THAT(client.ask(post("/size", std::string(1000, ' '))), HasSubstr("\r\n\r\n1000"));
    const std::string over = client.ask(post("/size", std::string(1001, ' ')));
    EXPECT_THAT(over, StartsWith("HTTP/1.1 413"));
    EXPECT_THAT(over, HasSubstr("\"error\""));
  }
  {
    // Announced, and never sent: the answer does not wait for it.
    RawClient client(port());
    client.send("POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 64000000000\r\n\r\n");
    EXPECT_THAT(client.receive_response(), StartsWith("HTTP/1.1 413"));
  }
  {
    RawClient client(port());
    client.send("POST /size HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    const std::string chunk = "100\r\n" + std::string(256, ' ') + "\r\n";
    for (int i = 0; i < 10000 && client.send(chunk); ++i) {
    }
    EXPECT_THAT(client.receive_response(), StartsWith("HTTP/1.1 413"));
  }
  {
    RawClient client(port());
    std::string head = "GET /health HTTP/1.1\r\nHost: x\r\n";
    for (int i = 0; i < 1000; ++i) head += "x-filler: " + std::string(1000, 'a') + "\r\n";
    client.send(head + "\r\n");
    EXPECT_THAT(client.receive_response(), StartsWith("HTTP/1.1 431"));
  }
  RawClient client(port());
  EXPECT_THAT(client.ask(kHealth), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, B73RefusesContradictingLengths) {
  start();
  for (const char* head :
       {"POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        "POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 5x\r\n\r\n",
        "POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        "POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST /size HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "nonsense\r\n\r\n",
        "GET /health HTTP/3.7\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"}) {
    RawClient client(port());
    client.send(head);
    EXPECT_THAT(client.receive_response(), StartsWith("HTTP/1.1 400")) << head;
    EXPECT_TRUE(client.closed_by_server());
  }
}

TEST_F(HttpServerTest, RefusesBodiesWhoseEndsOthersMaySeeElsewhere) {
  start();
  const std::string hidden = "GET /models/hidden HTTP/1.1\r\nHost: x\r\n\r\n";
  const auto answer_to = [&](std::string_view version, std::string_view headers) {
    RawClient client(port());
    client.send(fmt::format("POST /size {}\r\nHost: x\r\n{}\r\n{}", version, headers, hidden));
    const std::string answer = client.receive_all();
    EXPECT_THAT(answer, Not(HasSubstr("/models/hidden"))) << headers;
    EXPECT_THAT(answer, HasSubstr("Connection: close")) << headers;
    return answer.substr(9, 3);
  };
  EXPECT_EQ(answer_to("HTTP/1.1", "Transfer-Encoding: gzip\r\n"), "400");
  EXPECT_EQ(answer_to("HTTP/1.1", "Transfer-Encoding: chunked, identity\r\n"), "400");
  EXPECT_EQ(answer_to("HTTP/1.1", "Transfer-Encoding: gzip\r\nContent-Length: 3\r\n"), "400");
  EXPECT_EQ(answer_to("HTTP/1.1", "Transfer-Encoding: chunkedx\r\n"), "400");
  EXPECT_EQ(answer_to("HTTP/1.1", "Transfer-Encoding: gzip, chunked\r\n"), "501");
  EXPECT_EQ(answer_to("HTTP/1.0", "Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n"), "400");
  RawClient proper(port());
  EXPECT_THAT(proper.ask("POST /size HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
              HasSubstr("\r\n\r\n3"));
}

TEST_F(HttpServerTest, TakesRequestsAsTheStandardHasThem) {
  start();
  const auto answer_to = [this](std::string_view request) {
    RawClient client(port());
    return client.ask(request);
  };
  EXPECT_THAT(answer_to("GET http://x/models/a?b=c HTTP/1.1\r\nHost: x\r\n\r\n"), HasSubstr("\r\n\r\n/models/a"));
  EXPECT_THAT(answer_to("GET HTTPS://x:1/health HTTP/1.1\r\nHost: x\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer_to("GET http://x HTTP/1.1\r\nHost: x\r\n\r\n"), HasSubstr("nothing at /."));
  EXPECT_THAT(answer_to("GET /health HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(answer_to("GET /health HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(answer_to("GET /health HTTP/1.0\r\n\r\n"), HasSubstr(" 200 "));
  EXPECT_THAT(answer_to("\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer_to("\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n"), StartsWith("HTTP/1.1 400"));
}

TEST_F(HttpServerTest, B73InvitesAWaitingBody) {
  start();
  RawClient client(port());
  client.send("POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.receive(), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("1234");
  EXPECT_THAT(client.receive_response(), HasSubstr("\r\n\r\n4"));
}

TEST_F(HttpServerTest, EndsSlowHeadsAndBodies) {
  HttpServerOptions options;
  options.header_timeout = 100ms;
  options.body_timeout = 100ms;
  options.idle_timeout = 100ms;
  start(options);
  RawClient head(port());
  head.send("GET /health HT");
  EXPECT_THAT(head.receive_response(), StartsWith("HTTP/1.1 408"));
  RawClient body(port());
  body.send("POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n1");
  EXPECT_THAT(body.receive_response(), StartsWith("HTTP/1.1 408"));
  RawClient idle(port());
  EXPECT_TRUE(idle.closed_by_server());
}

TEST_F(HttpServerTest, AnswersRequestsThatAreSentAheadHoweverLargeTheyAre) {
  start();
  RawClient client(port());
  client.send(post("/later", "{}"));
  const auto first = exchange();
  std::thread sender([&client] { client.send(post("/size", std::string(1 << 20, ' '))); });
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(gone_, 0);
  first->respond({.body = "the first", .headers = {}});
  EXPECT_THAT(client.receive_until("\r\n\r\n1048576"), testing::AllOf(HasSubstr("the first"), HasSubstr("1048576")));
  sender.join();
  // The server can stop while a client waits so.
  RawClient ahead(port(), 4096);
  ahead.send(post("/later", "{}"));
  exchange(1);
  std::thread more([&ahead] { ahead.send(post("/size", std::string(4 << 20, ' '))); });
  std::this_thread::sleep_for(50ms);
  const auto begin = std::chrono::steady_clock::now();
  server_->stop(50ms);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 3s);
  more.join();
}

TEST_F(HttpServerTest, B77AsksForTheKeyEverywhereButWhereItIsDocumented) {
  AccessOptions access;
  access.api_key = "sk-secret";
  start({}, access);
  const auto status_of = [this](std::string_view method, std::string_view path, std::string_view headers) {
    RawClient client(port());
    const std::string answer = client.ask(
        fmt::format("{} {} HTTP/1.1\r\nHost: x\r\nOrigin: http://page.example\r\n{}\r\n", method, path, headers));
    EXPECT_THAT(answer, Not(HasSubstr("sk-secret")));
    return answer.substr(9, 3);
  };
  const std::string wanted = "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization\r\n";
  EXPECT_EQ(status_of("OPTIONS", "/echo", wanted), "204");
  EXPECT_EQ(status_of("OPTIONS", "/health", wanted), "204");
  EXPECT_EQ(status_of("GET", "/health", ""), "200");
  EXPECT_EQ(status_of("GET", "/models/a", ""), "401");
  EXPECT_EQ(status_of("GET", "/nothing", ""), "401");
  EXPECT_EQ(status_of("GET", "/models/a", "Authorization: Bearer wrong\r\n"), "401");
  EXPECT_EQ(status_of("GET", "/models/a", "Authorization: Bearer sk-secre\r\n"), "401");
  EXPECT_EQ(status_of("GET", "/models/a", "Authorization: Bearer \r\n"), "401");
  EXPECT_EQ(status_of("GET", "/models/a", "Authorization: sk-secret\r\n"), "401");
  EXPECT_EQ(status_of("GET", "/models/a", "X-Api-Key: sk-secret\r\n"), "401");
  EXPECT_EQ(status_of("GET", "/models/a", "Authorization: Bearer sk-secret\r\n"), "200");
  EXPECT_EQ(status_of("GET", "/models/a", "authorization: bearer sk-secret\r\n"), "200");
  // White space at the end of a header is no part of its value.
  EXPECT_EQ(status_of("GET", "/models/a", "Authorization: Bearer sk-secret  \r\n"), "200");
  EXPECT_EQ(status_of("GET", "/models/a", "Authorization: Bearer SK-SECRET\r\n"), "401");
}

TEST_F(HttpServerTest, LetsPagesOfOtherOriginsInWhereAllowed) {
  start();
  RawClient client(port());
  const std::string preflight = client.ask(
      "OPTIONS /echo HTTP/1.1\r\nHost: x\r\nOrigin: http://page.example\r\nAccess-Control-Request-Method: "
      "POST\r\n\r\n");
  EXPECT_THAT(preflight, HasSubstr("Access-Control-Allow-Origin: *\r\n"));
  EXPECT_THAT(preflight, HasSubstr("Access-Control-Allow-Methods: GET, HEAD, POST, PUT, OPTIONS\r\n"));
  EXPECT_THAT(preflight, HasSubstr("Access-Control-Allow-Headers: Authorization, Content-Type"));
  EXPECT_THAT(client.ask("GET /health HTTP/1.1\r\nHost: x\r\nOrigin: http://page.example\r\n\r\n"),
              HasSubstr("Access-Control-Allow-Origin: *\r\n"));
  EXPECT_THAT(client.ask(kHealth), Not(HasSubstr("Access-Control")));
}

TEST_F(HttpServerTest, SaysWhyItCannotListen) {
  start();
  Router router;
  HttpServerOptions options;
  options.port = port();
  try {
    HttpServer second(std::make_shared<Gateway>(std::move(router), AccessOptions{}), options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_THAT(error.what(), HasSubstr("in use"));
  }
}

}  // namespace
}  // namespace reprise::server
