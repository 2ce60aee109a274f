#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace reprise::engine {

/// How fast a counter has grown in the last seconds. For one thread.
class RateMeter {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// The counter's value at a time; to be called a few times a second or more often.
  void update(Time now, int64_t total) {
    constexpr std::chrono::milliseconds kInterval{250};
    if (count_ > 0 && now - samples_[(count_ - 1) % samples_.size()].time < kInterval) return;
    samples_[count_ % samples_.size()] = {now, total};
    ++count_;
  }
  /// Per second, over the last four seconds; 0 without two values.
  double per_second() const {
    if (count_ < 2) return 0;
    const Sample& last = samples_[(count_ - 1) % samples_.size()];
    const Sample& first = samples_[count_ > samples_.size() ? count_ % samples_.size() : 0];
    const double seconds = std::chrono::duration<double>(last.time - first.time).count();
    return seconds > 0 ? static_cast<double>(last.total - first.total) / seconds : 0;
  }

 private:
  struct Sample {
    Time time;
    int64_t total = 0;
  };
  std::array<Sample, 17> samples_{};
  size_t count_ = 0;
};

}  // namespace reprise::engine
