#include "server/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "server/raw_client.h"

namespace reprise::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// A server with a few routes; what streams are open can be reached by the test.
class HttpServerTest : public testing::Test {
 protected:
  void start(HttpServerOptions options = {}, const AccessOptions& access = {}) {
    Router router;
    router.add(
        {"GET"}, "/health",
        {.handler = [](const HttpRequest&,
                       const auto& exchange) { exchange->respond({.status = 200, .body = "{}", .headers = {}}); },
         .kind = RouteKind::kQuick});
    router.add({"POST"}, "/echo",
               {.handler =
                    [](const HttpRequest& request, const auto& exchange) {
                      exchange->respond({.status = 200, .body = request.body, .headers = {}});
                    },
                .json_body = true});
    router.add({"POST"}, "/size", {.handler = [](const HttpRequest& request, const auto& exchange) {
                 exchange->respond({.body = std::to_string(request.body.size()), .headers = {}});
               }});
    router.add({"POST"}, "/throw", {.handler = [](const HttpRequest&, const auto&) {
                 throw Error(ErrorCode::kInvalidArgument, "no such thing");
               }});
    router.add({"POST"}, "/stream", {.handler = [this](const HttpRequest&, const auto& exchange) {
                 exchange->begin_stream("text/event-stream");
                 keep(exchange);
               }});
    router.add({"POST"}, "/later", {.handler = [this](const HttpRequest&, const auto& exchange) { keep(exchange); }});
    router.add({"GET"}, "/id", {.handler = [](const HttpRequest& request, const auto& exchange) {
                 exchange->respond({.body = request.unique_id, .headers = {}});
               }});
    router.add({"GET"}, "/models/*", {.handler = [](const HttpRequest& request, const auto& exchange) {
                 exchange->respond({.body = request.path, .headers = {}});
               }});
    options.port = 0;
    server_ = std::make_unique<HttpServer>(std::make_shared<Gateway>(std::move(router), access), options);
    server_->start();
  }

  void keep(const std::shared_ptr<Exchange>& exchange) {
    exchange->on_gone([this] { ++gone_; });
    const std::lock_guard lock(mutex_);
    exchanges_.push_back(exchange);
  }
  std::shared_ptr<Exchange> exchange(size_t index = 0) {
    for (int i = 0; i < 1000; ++i) {
      {
        const std::lock_guard lock(mutex_);
        if (exchanges_.size() > index) return exchanges_[index];
      }
      std::this_thread::sleep_for(5ms);
    }
    ADD_FAILURE() << "the handler was not called";
    return nullptr;
  }
  bool wait_for_gone(int count) const {
    for (int i = 0; i < 1000 && gone_ < count; ++i) std::this_thread::sleep_for(5ms);
    return gone_ == count;
  }
  uint16_t port() const { return server_->port(); }
  static std::string post(std::string_view path, std::string_view body, std::string_view more = "") {
    return fmt::format(
        "POST {} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{}\r\n{}", path,
        body.size(), more, body);
  }
  static constexpr std::string_view kHealth = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";

  std::mutex mutex_;
  std::vector<std::shared_ptr<Exchange>> exchanges_;
  std::atomic<int> gone_{0};
  std::unique_ptr<HttpServer> server_;
};

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

TEST_F(HttpServerTest, StreamsPiecesAsTheyCome) {
  start();
  RawClient client(port());
  client.send(post("/stream", "{}"));
  const auto stream = exchange();
  EXPECT_TRUE(stream->write("data: 1\n\n"));
  const std::string first = client.receive_until("data: 1\n\n\r\n");
  EXPECT_THAT(first, HasSubstr("Content-Type: text/event-stream\r\n"));
  EXPECT_THAT(first, HasSubstr("9\r\ndata: 1\n\n\r\n"));
  EXPECT_TRUE(stream->write("data: 2\n\n"));
  stream->end_stream();
  EXPECT_FALSE(stream->write("late"));
  EXPECT_THAT(client.receive_until("0\r\n\r\n"), testing::EndsWith("9\r\ndata: 2\n\n\r\n0\r\n\r\n"));
  EXPECT_THAT(client.ask(kHealth), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(gone_, 0);
}

TEST_F(HttpServerTest, GathersPiecesButNeitherTheFirstNorTheLast) {
  HttpServerOptions options;
  options.gather_time = 60s;
  start(options);
  RawClient client(port());
  client.send(post("/stream", "{}"));
  const auto stream = exchange();
  stream->write("data: 1\n\n");
  client.receive_until("data: 1\n\n\r\n");
  stream->write("data: 2\n\n");
  client.receive_until("data: 2\n\n\r\n");
  stream->write("data: 3\n\n");
  stream->write("data: 4\n\n");
  EXPECT_EQ(client.receive(50ms), "");
  stream->end_stream();
  EXPECT_EQ(client.receive_until("0\r\n\r\n"), "12\r\ndata: 3\n\ndata: 4\n\n\r\n0\r\n\r\n");
  EXPECT_THAT(client.ask(kHealth), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, PutsNewsOfATopicInThePlaceOfWhatWasNotSent) {
  HttpServerOptions options;
  options.gather_time = 60s;
  start(options);
  RawClient client(port());
  client.send(post("/stream", "{}"));
  const auto stream = exchange();
  for (const char* first : {"data: a\n\n", "data: b\n\n"}) {
    stream->write(first, 7);
    client.receive_until(std::string(first) + "\r\n");
  }
  stream->write("data: c\n\n", 7);
  stream->write("data: d\n\n", 8);
  stream->write("data: e\n\n", 7);
  stream->write("data: f\n\n");
  stream->end_stream();
  EXPECT_EQ(client.receive_until("0\r\n\r\n"), "1b\r\ndata: e\n\ndata: d\n\ndata: f\n\n\r\n0\r\n\r\n");
}

TEST_F(HttpServerTest, StreamsToOldClientsUntilTheConnectionEnds) {
  start();
  RawClient client(port());
  client.send("POST /stream HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}");
  const auto stream = exchange();
  stream->write("data: 1\n\n");
  stream->end_stream();
  const std::string answer = client.receive_all();
  EXPECT_THAT(answer, Not(HasSubstr("chunked")));
  EXPECT_THAT(answer, Not(HasSubstr("Content-Length")));
  EXPECT_THAT(answer, testing::EndsWith("\r\n\r\ndata: 1\n\n"));
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

TEST_F(HttpServerTest, B61TellsOfClientsThatGo) {
  start();
  RawClient streaming(port());
  streaming.send(post("/stream", "{}"));
  exchange(0)->write("data: 1\n\n");
  streaming.receive_until("data: 1");
  streaming.close();
  EXPECT_TRUE(wait_for_gone(1));
  EXPECT_FALSE(exchange(0)->write("data: 2\n\n"));

  RawClient waiting(port());
  waiting.send(post("/later", "{}"));
  exchange(1);
  waiting.close();
  EXPECT_TRUE(wait_for_gone(2));
  exchange(1)->respond({.body = "too late", .headers = {}});

  // A client that ends its side waits for no answer of this kind any more.
  RawClient half_closed(port());
  half_closed.send(post("/later", "{}"));
  exchange(2);
  half_closed.half_close();
  EXPECT_TRUE(wait_for_gone(3));
  // What can be answered at once is answered all the same.
  RawClient quick(port());
  quick.send(kHealth);
  quick.half_close();
  EXPECT_THAT(quick.receive_response(), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, B74GivesUpClientsThatDoNotReadAndAnswersOthersMeanwhile) {
  HttpServerOptions options;
  options.max_unread_bytes = 64 << 10;
  start(options);
  RawClient slow(port(), 4096);
  slow.send(post("/stream", "{}"));
  const auto stream = exchange();
  const std::string piece(16 << 10, 'x');
  const auto begin = std::chrono::steady_clock::now();
  for (bool read = true; read && std::chrono::steady_clock::now() - begin < 20s; std::this_thread::sleep_for(1ms)) {
    if (stream->when_room(false, [] {})) read = stream->write(piece);
    if (stream->gone()) break;
  }
  EXPECT_TRUE(stream->gone());
  EXPECT_FALSE(stream->write(piece));
  EXPECT_TRUE(wait_for_gone(1));
  for (int i = 0; i < 200 && server_->counters().given_up == 0; ++i) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(server_->counters().given_up, 1);
  RawClient other(port());
  EXPECT_THAT(other.ask(kHealth), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, KeepsClientsThatReadHoweverMuchComesAtOnce) {
  HttpServerOptions options;
  options.max_unread_bytes = 4 << 10;
  start(options);
  RawClient client(port());
  client.send(post("/stream", "{}"));
  const auto stream = exchange();
  const std::string piece(1 << 20, 'x');
  for (int i = 0; i < 24; ++i) EXPECT_TRUE(stream->write(piece));
  stream->end_stream();
  size_t received = 0;
  bool ended = false;
  for (std::string more = client.receive(); !more.empty() && !ended; more = ended ? "" : client.receive()) {
    received += more.size();
    ended = more.ends_with("\r\n0\r\n\r\n");
  }
  EXPECT_GE(received, 24 * piece.size());
  EXPECT_TRUE(ended);
  EXPECT_EQ(server_->counters().given_up, 0);
}

TEST_F(HttpServerTest, SaysWhenAStreamHasRoomAgain) {
  HttpServerOptions options;
  options.max_unread_bytes = 1000;
  options.gather_time = 60s;
  start(options);
  RawClient client(port());
  client.send(post("/stream", "{}"));
  const auto stream = exchange();
  for (int i = 0; i < 2; ++i) {
    stream->write("data: 1\n\n");
    client.receive_until("data: 1\n\n\r\n");
  }
  std::promise<void> told;
  EXPECT_TRUE(stream->when_room(true, [] { FAIL(); }));
  stream->write("data: 2\n\n");  // not taken: gathered
  EXPECT_TRUE(stream->when_room(false, [] { FAIL(); }));
  EXPECT_FALSE(stream->when_room(true, [] { FAIL(); }));
  stream->write(std::string(1000, 'x'));
  EXPECT_FALSE(stream->when_room(false, [&told] { told.set_value(); }));
  client.close();
  EXPECT_EQ(told.get_future().wait_for(10s), std::future_status::ready);
  EXPECT_TRUE(stream->when_room(true, [] { FAIL(); }));
}

TEST_F(HttpServerTest, B74AnswersHealthBesideManyHalfSentRequestsAndOpenStreams) {
  start();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 100; ++i) {
    clients.push_back(std::make_unique<RawClient>(port()));
    clients.back()->send(i % 2 == 0 ? "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Le" : post("/stream", "{}"));
  }
  for (int i = 0; i < 20; ++i) {
    RawClient client(port());
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_THAT(client.ask(kHealth), StartsWith("HTTP/1.1 200"));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 500ms);
  }
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

TEST_F(HttpServerTest, LetsAnswersEndWhenItStops) {
  start();
  RawClient client(port());
  RawClient idle(port());
  idle.ask(kHealth);
  client.send(post("/stream", "{}"));
  const auto stream = exchange();
  stream->write("data: 1\n\n");
  client.receive_until("data: 1");
  auto stopped = std::async(std::launch::async, [this] { server_->stop(5s); });
  EXPECT_TRUE(idle.closed_by_server());
  stream->write("data: 2\n\n");
  stream->end_stream();
  EXPECT_THAT(client.receive_until("0\r\n\r\n"), HasSubstr("data: 2"));
  EXPECT_TRUE(client.closed_by_server());
  stopped.get();
  EXPECT_EQ(gone_, 0);
  EXPECT_EQ(server_->counters().open_connections, 0);
}

TEST_F(HttpServerTest, StopsInTimeWhateverClientsDo) {
  start();
  RawClient client(port());
  client.send(post("/stream", "{}"));
  exchange()->write("data: 1\n\n");
  const auto begin = std::chrono::steady_clock::now();
  server_->stop(50ms);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 3s);
  EXPECT_TRUE(wait_for_gone(1));
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
