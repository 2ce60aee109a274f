// Every call of the interface as a line of JSON (REPRISE_ACL_TRACE=FILE).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>

#include "emulator/runtime/record_file.h"
#include "emulator/runtime/status.h"

namespace reprise::emulator {

// An argument of a call as the trace shows it: numbers, texts, and addresses as "0x...".
class Argument {
 public:
  template <typename T>
  Argument(const T& value) {  // NOLINT(google-explicit-constructor): braces around arguments make a list of these
    if constexpr (std::is_enum_v<T> || std::is_integral_v<T>) {
      type_ = std::is_signed_v<T> || std::is_enum_v<T> ? Type::kSigned : Type::kUnsigned;
      number_ = static_cast<uint64_t>(value);
    } else if constexpr (std::is_floating_point_v<T>) {
      type_ = Type::kReal;
      real_ = value;
    } else if constexpr (std::is_convertible_v<T, const char*>) {
      type_ = Type::kText;
      text_ = value;
    } else if constexpr (std::is_pointer_v<T>) {
      type_ = Type::kAddress;
      number_ = reinterpret_cast<uint64_t>(value);
    }
  }
  // Appends it as JSON.
  void append_to(std::string& json) const;

 private:
  enum class Type { kSigned, kUnsigned, kReal, kText, kAddress, kOpaque };
  Type type_ = Type::kOpaque;
  union {
    uint64_t number_ = 0;
    double real_;
    const char* text_;
  };
};

// Thread-safe. A line: {"time": microseconds, "thread": n, "call": name, "arguments": {...}, "result": code, "text":
// ..., "inside": name}; the last two where there are any.
class Trace {
 public:
  static Trace& instance();

  // (Re)opens what REPRISE_ACL_TRACE names; without it tracing is off.
  Status open_environment();
  void close();
  // Whether everything could be written so far.
  Status status() const;
  bool on() const { return on_.load(std::memory_order_relaxed); }
  // `names` is "a, b, c" for the arguments that follow.
  void write(std::string_view call, std::string_view names, std::initializer_list<Argument> arguments, aclError result,
             std::string_view text);
  // As above, with the arguments as a JSON object.
  // `inside` is the call of the program that made this one for itself; empty for the program's own.
  void write(std::string_view call, std::string_view arguments, aclError result, std::string_view text,
             std::string_view inside = {});
  // The object {"a": 1, ...}.
  static std::string render(std::string_view names, std::initializer_list<Argument> arguments);

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> on_ = false;
  RecordFile file_{"REPRISE_ACL_TRACE"};
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// A small number for the calling thread, counted from 1 in the order in which threads first called.
uint32_t thread_number();
// Appends a text in quotes.
void append_json_text(std::string& json, std::string_view text);

}  // namespace reprise::emulator
