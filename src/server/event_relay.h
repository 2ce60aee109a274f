#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"

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

class ChoiceEventSink {
 public:
  virtual ~ChoiceEventSink() = default;
  /// Takes an event in. It must be quick: others wait for theirs.
  virtual void on_event(ChoiceEvent event) = 0;
  /// Some events were taken in, and no more of them are there right now.
  virtual void on_events_end() = 0;
};

/// Takes events from the engine's thread to the server's: that thread only appends to a list, and wakes the others once
/// for all that comes before they look. Events arrive in order, one at a time.
class EventRelay : public std::enable_shared_from_this<EventRelay> {
 public:
  using Post = std::function<void(std::function<void()>)>;

  /// `post` runs a task on the server's threads, one task at a time; `work` runs those that take longer, beside others.
  EventRelay(Post post, Post work) : post_(std::move(post)), work_(std::move(work)) {}

  void push(std::shared_ptr<ChoiceEventSink> sink, ChoiceEvent event);
  /// Runs a task that takes longer.
  void work(std::function<void()> task);
  /// From here on nothing is posted any more: what comes is dropped, and what has come.
  void close();

 private:
  struct Item {
    std::shared_ptr<ChoiceEventSink> sink;
    ChoiceEvent event;
  };

  void deliver();

  const Post post_;
  const Post work_;
  std::mutex mutex_;
  std::vector<Item> items_;
  bool closed_ = false;
};

}  // namespace reprise::server
