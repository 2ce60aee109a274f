#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/engine_service.h"
#include "server/event_relay.h"
#include "server/exchange.h"
#include "server/live_requests.h"
#include "server/server_metrics.h"

namespace reprise::server {

/// Makes an answer of what its requests produce. Its members are called one after the other.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  /// Whether it wants every token; otherwise it sees the last event of each choice only.
  virtual bool wants_tokens() const = 0;
  /// The requests were taken: a stream may begin.
  virtual void begin() {}
  virtual void on_event(ChoiceEvent& event) = 0;
  /// All choices have ended.
  virtual void on_complete() = 0;
  /// The answer cannot be completed; nothing follows.
  virtual void on_failure(const Error& error) = 0;
};

/// What generations need of a server.
struct GenerationHost {
  engine::EngineService& service;
  std::shared_ptr<EventRelay> relay;
  std::shared_ptr<LiveRequests> live;
  std::shared_ptr<ServerMetrics> metrics;
};

/// The requests of one answer, from their submission to their ends. The client's going cancels them.
class Generation : public ChoiceEventSink, public std::enable_shared_from_this<Generation> {
 public:
  /// Submits `requests`, of which `names` are the names for LiveRequests. Throws what EngineService::submit throws.
  static void start(const GenerationHost& host, const std::shared_ptr<Exchange>& exchange,
                    std::vector<engine::Request> requests, std::vector<std::string> names,
                    std::unique_ptr<AnswerWriter> writer, std::chrono::steady_clock::time_point arrival);

  void on_event(ChoiceEvent& event) override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Choice {
    std::string name;
    engine::RequestId id = 0;
    bool ended = false;
    Clock::time_point last_token{};  // of the engine's thread
  };

  Generation(const GenerationHost& host, std::unique_ptr<AnswerWriter> writer, Clock::time_point arrival)
      : host_(host), writer_(std::move(writer)), arrival_(arrival) {}

  void on_engine_event(size_t choice, const engine::TokenEvent& event);
  void measure(Choice& choice, const engine::TokenEvent& event);
  void cancel();
  void end_choice(Choice& choice);

  const GenerationHost host_;
  const std::unique_ptr<AnswerWriter> writer_;
  const Clock::time_point arrival_;
  std::mutex mutex_;  // of what start() fills in while events may come already
  std::vector<Choice> choices_;
  bool failed_ = false;  // of the relay's thread
  size_t open_ = 0;      // of the relay's thread
};

}  // namespace reprise::server
