#include "client/load.h"

#include <cmath>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "base/random.h"
#include "client/event_stream.h"

namespace reprise::client {
namespace {

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// Reads one answer into its record. While a load runs, what comes is only kept, with the time at which it came:
/// reading it would take time that the server may need, where both share a machine, or that other answers wait for.
class Answer final : public HttpReceiver, public std::enable_shared_from_this<Answer> {
 public:
  Answer(RequestRecord& record, Clock::time_point begin, const Backend& backend, const GenerationSettings& settings,
         std::function<void(std::shared_ptr<Answer>)> on_done)
      : record_(record),
        begin_(begin),
        reader_(backend.interface, settings.incremental_text),
        on_done_(std::move(on_done)) {}

  size_t unread_bytes() const { return unread_.size(); }

  /// Reads what was kept, and completes the record; once, behind on_end().
  void settle() {
    try {
      read_kept();
    } catch (const Error& error) {
      if (!failure_) failure_ = error;
    }
    finish();
  }

  void on_status(int status, std::string_view content_type) override {
    status_ = status;
    is_stream_ = content_type.starts_with("text/event-stream");
  }

  void on_body(std::string_view bytes, Clock::time_point at) override {
    if (status_ != 200 || !is_stream_) {
      if (body_.size() < kMaxErrorBytes) body_ += bytes;
      return;
    }
    unread_ += bytes;
    arrivals_.push_back({unread_.size(), seconds_between(begin_, at) - record_.due});
    if (unread_.size() > kMostUnread) read_kept();
  }

  void on_end(const Error* error, Clock::time_point at) override {
    record_.end = seconds_between(begin_, at);
    if (error != nullptr) failure_ = *error;
    on_done_(shared_from_this());
  }

 private:
  static constexpr size_t kMaxErrorBytes = size_t{64} << 10;
  static constexpr size_t kMostUnread = size_t{1} << 20;

  /// Bytes that came together.
  struct Arrival {
    size_t end;  ///< in unread_
    double seconds;
  };

  void read_kept() {
    const std::string bytes = std::exchange(unread_, {});
    size_t begin = 0;
    for (const Arrival& arrival : std::exchange(arrivals_, {})) {
      stream_.feed(std::string_view(bytes).substr(begin, arrival.end - begin), [&](std::string_view event) {
        if (event == "[DONE]") {
          is_done_ = true;
        } else {
          take(reader_.read(event), arrival.seconds);
        }
      });
      begin = arrival.end;
    }
  }

  void take(const AnswerUpdate& update, double seconds) {
    record_.text += update.text;
    if (update.prompt_tokens) record_.prompt_tokens = *update.prompt_tokens;
    if (update.cached_tokens) record_.cached_tokens = *update.cached_tokens;
    const int64_t tokens = update.output_tokens.value_or(-1);
    const bool more = tokens > (events_.empty() ? 0 : std::max<int64_t>(0, events_.back().tokens));
    // Tokens may have no text of their own; a role, which brings neither, and the usage behind the end take no time.
    const bool brings_tokens = more && record_.finish_reason.empty();
    if (update.has_content || brings_tokens) events_.push_back({seconds, tokens});
    if (!update.finish_reason.empty()) {
      record_.finish_reason = update.finish_reason;
      finish_seconds_ = seconds;
    }
    if (!update.output_tokens) return;
    record_.output_tokens = std::max(record_.output_tokens, tokens);
    record_.output_counted = true;
  }

  void finish() {
    if (failure_) {
      record_.error = failure_->what();
    } else if (status_ != 200) {
      record_.error = fmt::format("HTTP status {}: {}", status_, error_message(body_));
    } else if (!is_stream_) {
      record_.error = fmt::format("the server did not stream its answer: {}", error_message(body_));
    } else if (events_.empty() && record_.finish_reason.empty()) {
      record_.error = "the stream ended without any content";
    } else if (record_.finish_reason.empty() && !is_done_) {
      record_.error = "the stream broke off: it brought neither a finish reason nor [DONE]";
    }
    if (!record_.error.empty()) return;
    // An answer without content, such as an end token alone, was there when it ended.
    if (events_.empty()) events_.push_back({finish_seconds_, record_.output_counted ? record_.output_tokens : -1});
    if (!record_.output_counted) record_.output_tokens = static_cast<int64_t>(events_.size());
    record_.times = token_times(events_, record_.output_tokens);
  }

  RequestRecord& record_;
  Clock::time_point begin_;
  AnswerReader reader_;
  std::function<void(std::shared_ptr<Answer>)> on_done_;
  std::string unread_;
  std::vector<Arrival> arrivals_;
  std::optional<Error> failure_;
  EventStream stream_;
  std::vector<ContentEvent> events_;
  std::string body_;  ///< when it is no stream
  int status_ = 0;
  bool is_stream_ = false;
  bool is_done_ = false;  ///< [DONE] came
  double finish_seconds_ = 0;
};

/// Requests that come, wait for a place, run and end.
class Load {
 public:
  Load(HttpLoop& loop, const Backend& backend, std::span<const Prompt> prompts, const GenerationSettings& settings,
       const LoadOptions& options)
      : loop_(loop), backend_(backend), prompts_(prompts), settings_(settings), options_(options) {
    result_.requests.resize(prompts.size());
    for (RequestRecord& record : result_.requests) record.error = "interrupted before it was sent";
    bodies_.reserve(prompts.size());
    // Made ahead: a large body must not delay the requests that are due behind it.
    for (const Prompt& prompt : prompts) bodies_.push_back(generation_request(backend, prompt, settings));
  }

  LoadResult run() {
    begin_ = Clock::now();
    if (std::isinf(options_.request_rate)) {
      for (size_t i = 0; i < prompts_.size(); ++i) arrive(i);
    } else {
      schedule_arrivals();
    }
    watch_for_interruption();
    loop_.run();
    settle_ended();
    for (const RequestRecord& record : result_.requests) result_.seconds = std::max(result_.seconds, record.end);
    return std::move(result_);
  }

 private:
  static constexpr size_t kMostKept = size_t{256} << 20;

  void schedule_arrivals() {
    double due = 0;
    for (size_t i = 0; i < prompts_.size(); ++i) {
      result_.requests[i].due = due;
      loop_.at(begin_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(due)),
               [this, i] { arrive(i); });
      due += -std::log1p(-random_uniform(options_.seed, i)) / options_.request_rate;
    }
  }

  void arrive(size_t index) {
    if (options_.max_concurrency && running_ >= *options_.max_concurrency) {
      waiting_.push_back(index);
    } else {
      send(index);
    }
  }

  void send(size_t index) {
    RequestRecord& record = result_.requests[index];
    record.error.clear();
    record.sent = seconds_between(begin_, Clock::now());
    // Without a rate there is no time at which it should have come.
    if (std::isinf(options_.request_rate)) record.due = record.sent;
    record.prompt_tokens = prompts_[index].tokens;
    ++running_;
    loop_.start(std::move(bodies_[index]),
                std::make_shared<Answer>(record, begin_, backend_, settings_,
                                         [this](std::shared_ptr<Answer> answer) { end_one(std::move(answer)); }));
  }

  void end_one(std::shared_ptr<Answer> answer) {
    --running_;
    ++done_;
    kept_bytes_ += answer->unread_bytes();
    ended_.push_back(std::move(answer));
    if (kept_bytes_ > kMostKept) settle_ended();
    if (options_.on_done) options_.on_done(done_);
    if (waiting_.empty() || result_.interrupted) return;
    const size_t next = waiting_.front();
    waiting_.pop_front();
    send(next);
  }

  void settle_ended() {
    for (const std::shared_ptr<Answer>& answer : ended_) answer->settle();
    ended_.clear();
    kept_bytes_ = 0;
  }

  void watch_for_interruption() {
    if (!options_.interrupted || done_ == prompts_.size()) return;
    if (options_.interrupted()) {
      result_.interrupted = true;
      loop_.cancel();
      return;
    }
    loop_.at(Clock::now() + std::chrono::milliseconds(100), [this] { watch_for_interruption(); });
  }

  HttpLoop& loop_;
  const Backend& backend_;
  std::span<const Prompt> prompts_;
  const GenerationSettings& settings_;
  const LoadOptions& options_;
  std::vector<HttpRequest> bodies_;
  LoadResult result_;
  Clock::time_point begin_;
  std::deque<size_t> waiting_;
  std::vector<std::shared_ptr<Answer>> ended_;  ///< to be settled
  size_t kept_bytes_ = 0;                       ///< of them
  int32_t running_ = 0;
  size_t done_ = 0;
};

}  // namespace

LoadResult run_load(HttpLoop& loop, const Backend& backend, std::span<const Prompt> prompts,
                    const GenerationSettings& settings, const LoadOptions& options) {
  return Load(loop, backend, prompts, settings, options).run();
}

RequestRecord run_one(HttpLoop& loop, const Backend& backend, const Prompt& prompt,
                      const GenerationSettings& settings) {
  LoadResult result = run_load(loop, backend, {&prompt, 1}, settings, {});
  if (!result.requests[0].succeeded()) throw Error(ErrorCode::kIo, std::string(result.requests[0].error));
  return std::move(result.requests[0]);
}

}  // namespace reprise::client
