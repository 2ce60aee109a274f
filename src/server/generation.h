#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/engine_service.h"
#include "engine/request.h"
#include "server/event_relay.h"
#include "server/exchange.h"
#include "server/live_requests.h"
#include "server/server_metrics.h"

namespace reprise::server {

/// A TokenEvent that outlives its callback.
struct ChoiceEvent {
  size_t choice = 0;  ///< which of the requests of one answer
  std::optional<int32_t> token;
  std::string text;
  int32_t cached_tokens = 0;
  std::optional<engine::PositionLogprobs> logprobs;
  std::vector<engine::PositionLogprobs> prompt_logprobs;
  std::unique_ptr<engine::RequestOutput> output;  ///< with the last event of a request
};

/// Makes an answer of what its requests produce. Its members are called one after the other.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  /// Whether it wants every token; otherwise it sees the last event of each choice only.
  virtual bool wants_tokens() const = 0;
  /// Whether it takes so long that others should not wait for it.
  virtual bool is_heavy() const { return false; }
  /// Whether what it says of several events is less than what it says of each: then it is asked as rarely as the client
  /// looks.
  virtual bool gathers() const { return false; }
  /// The requests were taken: a stream may begin.
  virtual void begin() {}
  /// Takes an event in.
  virtual void on_event(ChoiceEvent& event) = 0;
  /// Says what the events since the last time come to.
  virtual void flush() = 0;
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
class Generation : public EventSink, public std::enable_shared_from_this<Generation> {
 public:
  /// Submits `requests`, of which `names` are the names for LiveRequests, each one's own first. Throws what
  /// EngineService::submit throws.
  static void start(const GenerationHost& host, const std::shared_ptr<Exchange>& exchange,
                    std::vector<engine::Request> requests, std::vector<std::vector<std::string>> names,
                    std::unique_ptr<AnswerWriter> writer, std::chrono::steady_clock::time_point arrival);

  void on_events() override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Choice {
    std::vector<std::string> names;
    engine::RequestId id = 0;
    Clock::time_point last_token{};  // of the engine's thread, as the next one
    bool has_begun = false;
  };

  /// What becomes of the events that wait: nobody looks at them, somebody will, does, or they wait for the client.
  enum class Progress { kIdle, kScheduled, kRunning, kBlocked };

  Generation(const GenerationHost& host, std::shared_ptr<Exchange> exchange, std::unique_ptr<AnswerWriter> writer,
             Clock::time_point arrival)
      : host_(host), exchange_(std::move(exchange)), writer_(std::move(writer)), arrival_(arrival) {}

  void on_engine_event(size_t choice, const engine::TokenEvent& event);
  void add(ChoiceEvent event);
  void measure(Choice& choice, const engine::TokenEvent& event);
  /// Sees to it that events which wait are answered; `has_room`: the client has taken what it had.
  void wake(bool has_room);
  void run_soon();
  void run();
  /// False when the client must take something first; then run() is called again by itself.
  bool has_room();
  /// Some of those that wait; empty when there are none.
  std::vector<ChoiceEvent> next_events();
  /// False when there is more to do.
  bool finish_run();
  void answer(ChoiceEvent& event);
  void flush();
  /// Runs a part of the writing; what it throws ends the answer.
  void write(const std::function<void()>& part);
  void fail(const Error& error);
  void cancel();
  void end_choice(Choice& choice);

  const GenerationHost host_;
  const std::shared_ptr<Exchange> exchange_;
  const std::unique_ptr<AnswerWriter> writer_;
  const Clock::time_point arrival_;
  std::mutex mutex_;  // of what start() fills in while events may come already
  std::vector<Choice> choices_;
  std::mutex events_mutex_;  // of what follows, up to last_seen_
  Progress progress_ = Progress::kIdle;
  int64_t turn_ = 0;  // how often a run was scheduled
  std::deque<ChoiceEvent> events_;
  bool announced_ = false;         // the relay knows of events,
  bool urgent_announced_ = false;  // and that some are urgent
  size_t outputs_seen_ = 0;
  bool last_seen_ = false;  // all outputs have ended: what they say should not wait
  bool failed_ = false;     // of run(), as all below
  bool unsaid_ = false;     // flush() has something to say
  size_t open_ = 0;
};

}  // namespace reprise::server
