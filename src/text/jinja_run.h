#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace reprise::text {

class JinjaObject;

/// A place in a template: lines and columns (in characters) count from 1.
struct JinjaPosition {
  int32_t line = 1;
  int32_t column = 1;
};

/// What one rendering may use.
struct JinjaLimits {
  int64_t steps = 10'000'000;        ///< statements, operations, and elements of lists that were made or looked at
  size_t bytes = size_t{512} << 20;  ///< of text and lists, everything made on the way counted
  size_t output = size_t{64} << 20;  ///< bytes of the prompt, and of any one text
  int depth = 500;                   ///< statements, expressions and macro calls inside each other
};

/// Budget and place of one rendering: whatever a template can repeat takes from it.
class JinjaRun {
 public:
  /// `now` is what strftime_now spells: by default the local time of the call.
  JinjaRun(std::string_view name, const JinjaLimits& limits, std::optional<std::tm> time = std::nullopt)
      : now(time), name_(name), limits_(limits) {}
  ~JinjaRun();
  JinjaRun(const JinjaRun&) = delete;

  JinjaPosition position;  ///< of what is being done now
  const std::optional<std::tm> now;

  /// Objects that can hold each other in a circle: they let go of what they hold when the run ends.
  void keep(std::shared_ptr<JinjaObject> object) { objects_.push_back(std::move(object)); }

  /// Both throw kResourceExhausted when the limit is passed.
  void step(size_t count = 1) {
    if (count > static_cast<size_t>(limits_.steps - steps_)) exhausted("steps", limits_.steps);
    steps_ += static_cast<int64_t>(count);
  }
  /// For a text that is looked through: long ones must not be free.
  void step_through(size_t bytes) { step(bytes / 32); }
  void charge_bytes(size_t count) {
    if (count > limits_.bytes - bytes_) exhausted("bytes of intermediate text", static_cast<int64_t>(limits_.bytes));
    bytes_ += count;
  }
  void check_size(size_t size) const {
    if (size > limits_.output) exhausted("bytes of text", static_cast<int64_t>(limits_.output));
  }

  /// Throws kInvalidArgument with the template's name and the place.
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    raise(ErrorCode::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void raise(ErrorCode code, std::string_view message) const {
    throw Error(code, "{}:{}:{}: {}", name_, position.line, position.column, message);
  }

  /// Counts a level of recursion while it lives.
  class Level {
   public:
    explicit Level(JinjaRun& run) : run_(run) {
      if (++run_.depth_ > run_.limits_.depth) {
        --run_.depth_;
        run_.exhausted("levels of nesting", run_.limits_.depth);
      }
    }
    ~Level() { --run_.depth_; }
    Level(const Level&) = delete;

   private:
    JinjaRun& run_;
  };

 private:
  [[noreturn]] void exhausted(std::string_view what, int64_t limit) const {
    raise(ErrorCode::kResourceExhausted, fmt::format("the template uses more than {} {}", limit, what));
  }

  std::string name_;
  JinjaLimits limits_;
  int64_t steps_ = 0;
  size_t bytes_ = 0;
  int depth_ = 0;
  std::vector<std::shared_ptr<JinjaObject>> objects_;
};

}  // namespace reprise::text
