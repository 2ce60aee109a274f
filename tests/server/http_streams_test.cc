#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "server/http_server_harness.h"

namespace reprise::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

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

}  // namespace
}  // namespace reprise::server
