#include "server/event_relay.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "server/connection_exchange.h"

namespace reprise::server {
namespace {

using namespace std::chrono_literals;

class NotedSink : public EventSink {
 public:
  NotedSink(std::string& log, char name) : log_(log), name_(name) {}
  void on_events() override { log_ += name_; }

 private:
  std::string& log_;
  const char name_;
};

/// A relay whose tasks wait until the test runs them.
class EventRelayTest : public testing::Test {
 protected:
  using Tasks = std::vector<std::function<void()>>;

  std::shared_ptr<EventRelay> relay(std::chrono::milliseconds gather_time) {
    return std::make_shared<EventRelay>(
        EventRelay::Executor{
            [this](std::function<void()> task) { posted_.push_back(std::move(task)); },
            [this](std::chrono::milliseconds, std::function<void()> task) { later_.push_back(std::move(task)); },
            [](std::function<void()> task) { task(); }},
        gather_time);
  }
  std::shared_ptr<EventSink> sink(char name) { return std::make_shared<NotedSink>(told_, name); }
  static void run(Tasks& tasks) {
    for (const auto& task : std::exchange(tasks, {})) task();
  }

  std::string told_;
  Tasks posted_, later_;
};

TEST_F(EventRelayTest, OneTaskTellsWhatATurnBrings) {
  const auto relay = this->relay(1h);
  for (const char name : {'a', 'b', 'c'}) relay->push(sink(name), /*urgent=*/false);
  EXPECT_TRUE(posted_.empty());
  relay->end_turn();
  relay->end_turn();
  EXPECT_EQ(posted_.size(), 1);
  run(posted_);
  EXPECT_EQ(told_, "abc");
}

TEST_F(EventRelayTest, WhatComesSoonBehindOthersWaitsUnlessItIsUrgent) {
  const auto relay = this->relay(1h);
  relay->push(sink('a'), false);
  relay->end_turn();
  run(posted_);
  relay->push(sink('b'), false);
  relay->push(sink('c'), true);
  relay->end_turn();
  EXPECT_EQ(posted_.size(), 1);
  run(posted_);
  EXPECT_EQ(told_, "ac");
  run(later_);  // looks whether a turn was the last one, but the time is not over
  EXPECT_EQ(told_, "ac");
}

TEST_F(EventRelayTest, WhatWaitsIsToldWhenNoTurnFollows) {
  const auto relay = this->relay(2ms);
  relay->push(sink('a'), false);
  relay->end_turn();
  run(posted_);
  relay->push(sink('b'), false);
  std::this_thread::sleep_for(5ms);
  EXPECT_EQ(told_, "a");
  run(later_);
  EXPECT_EQ(told_, "ab");
  for (int i = 0; i < 3; ++i) run(later_);
  EXPECT_TRUE(later_.empty());  // an idle server looks no more
}

TEST_F(EventRelayTest, WithoutAGatherTimeEachTurnIsTold) {
  const auto relay = this->relay(0ms);
  for (const char name : {'a', 'b', 'c'}) {
    relay->push(sink(name), false);
    relay->end_turn();
    run(posted_);
  }
  EXPECT_EQ(told_, "abc");
  EXPECT_TRUE(later_.empty());
}

TEST_F(EventRelayTest, PostsNothingOnceItIsClosed) {
  const auto relay = this->relay(1h);
  relay->push(sink('a'), true);
  relay->end_turn();
  relay->close();
  relay->push(sink('b'), true);
  relay->end_turn();
  EXPECT_EQ(posted_.size(), 1);
  run(posted_);
  EXPECT_EQ(told_, "");
}

TEST(ConnectionExchange, PutsNewsOfATopicInThePlaceOfWhatWasNotTaken) {
  ConnectionExchange exchange(1000, [] {});
  exchange.begin_stream("text/event-stream");
  exchange.write("a", 7);
  EXPECT_EQ(exchange.take().bytes, "a");
  exchange.write("b", 7);
  exchange.write("c", 8);
  exchange.write("d", 7);
  exchange.write("e");
  exchange.end_stream();
  EXPECT_EQ(exchange.take().bytes, "dce");
}

TEST(ConnectionExchange, SaysWhenAStreamHasRoomAgain) {
  ConnectionExchange exchange(1000, [] {});
  exchange.begin_stream("text/event-stream");
  int told = 0;
  EXPECT_TRUE(exchange.when_room(true, [&told] { ++told; }));
  exchange.write("x");
  EXPECT_TRUE(exchange.when_room(false, [&told] { ++told; }));
  EXPECT_FALSE(exchange.when_room(true, [&told] { ++told; }));
  exchange.write(std::string(1000, 'x'));
  EXPECT_FALSE(exchange.when_room(false, [&told] { ++told; }));
  EXPECT_EQ(told, 0);
  exchange.take();
  EXPECT_EQ(told, 1);
  exchange.write(std::string(2000, 'x'));
  EXPECT_FALSE(exchange.when_room(false, [&told] { ++told; }));
  exchange.set_gone();
  EXPECT_EQ(told, 2);
  EXPECT_TRUE(exchange.when_room(true, [&told] { ++told; }));
}

}  // namespace
}  // namespace reprise::server
