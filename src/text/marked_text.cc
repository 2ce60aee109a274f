#include "text/marked_text.h"

#include <algorithm>

#include "base/error.h"

namespace reprise::text {

Origin MarkedText::origin_at(size_t offset) const {
  REPRISE_CHECK(offset < bytes_.size());
  return std::upper_bound(runs_.begin(), runs_.end(), offset, [](size_t at, const Run& run) { return at < run.end; })
      ->origin;
}

void MarkedText::append(std::string_view bytes, Origin origin) {
  if (bytes.empty()) return;
  bytes_.append(bytes);
  if (!runs_.empty() && runs_.back().origin == origin) {
    runs_.back().end = bytes_.size();
  } else {
    runs_.push_back({bytes_.size(), origin});
  }
}

void MarkedText::append(const MarkedText& other, size_t begin, size_t end) {
  auto run = std::upper_bound(other.runs_.begin(), other.runs_.end(), begin,
                              [](size_t at, const Run& candidate) { return at < candidate.end; });
  for (; begin < end; ++run) {
    const size_t stop = std::min(end, run->end);
    append(std::string_view(other.bytes_).substr(begin, stop - begin), run->origin);
    begin = stop;
  }
}

MarkedText MarkedText::substring(size_t begin, size_t end) const {
  MarkedText part;
  part.append(*this, begin, end);
  return part;
}

MarkedText MarkedText::map_runs(const std::function<std::string(std::string_view)>& change) const {
  MarkedText changed;
  size_t begin = 0;
  for (const Run& run : runs_) {
    changed.append(change(std::string_view(bytes_).substr(begin, run.end - begin)), run.origin);
    begin = run.end;
  }
  return changed;
}

}  // namespace reprise::text
