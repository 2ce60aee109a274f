#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::text {

/// Where bytes of a rendered prompt come from.
enum class Origin : uint8_t {
  kTemplate,  ///< written by the model's author (or spelled by the renderer: numbers, JSON punctuation)
  kInput,     ///< came in with a request: never read as control tokens
};

/// A UTF-8 text that knows the origin of each of its bytes. Joining, cutting and replacing keep the marks.
class MarkedText {
 public:
  /// Bytes up to `end` (from the end of the run before) have one origin. Neighbours differ; no run is empty.
  struct Run {
    size_t end;
    Origin origin;
    bool operator==(const Run&) const = default;
  };

  MarkedText() = default;
  MarkedText(std::string bytes, Origin origin) : bytes_(std::move(bytes)) {
    if (!bytes_.empty()) runs_.push_back({bytes_.size(), origin});
  }

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  std::span<const Run> runs() const { return runs_; }
  /// Of the byte at `offset` (< size()).
  Origin origin_at(size_t offset) const;

  void append(std::string_view bytes, Origin origin);
  void append(const MarkedText& other) { append(other, 0, other.size()); }
  /// The bytes from `begin` up to `end` of `other`, which is another object.
  void append(const MarkedText& other, size_t begin, size_t end);
  MarkedText substring(size_t begin, size_t end) const;
  /// The text with `change` applied to each run by itself.
  MarkedText map_runs(const std::function<std::string(std::string_view)>& change) const;

 private:
  std::string bytes_;
  std::vector<Run> runs_;
};

}  // namespace reprise::text
