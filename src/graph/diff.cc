#include "graph/diff.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "graph/text_writer.h"

namespace reprise::graph {
namespace {

using Lines = std::vector<std::string_view>;

/// Half-open ranges of the lines of both texts.
struct Ranges {
  size_t a_begin, a_end, b_begin, b_end;
};

struct Match {
  size_t a, b;
};

/// The patience algorithm (Cohen): lines that occur once in both texts hold the alignment, as far as they are in the
/// same order; between them the search goes on. Lines of a graph's text are unique but for few, so this finds what a
/// reader would, in O(n log n).
class Aligner {
 public:
  Aligner(const Lines& a, const Lines& b) : a_(a), b_(b) {}

  /// Equal lines of both, in order.
  std::vector<Match> run() {
    std::vector<Ranges> todo = {{0, a_.size(), 0, b_.size()}};
    while (!todo.empty()) {
      Ranges ranges = todo.back();
      todo.pop_back();
      trim(ranges);
      if (ranges.a_begin == ranges.a_end || ranges.b_begin == ranges.b_end) continue;
      const std::vector<Match> anchors = longest_ascending(unique_matches(ranges));
      if (anchors.empty()) continue;
      size_t a = ranges.a_begin;
      size_t b = ranges.b_begin;
      for (const Match& anchor : anchors) {
        matches_.push_back(anchor);
        todo.push_back({a, anchor.a, b, anchor.b});
        a = anchor.a + 1;
        b = anchor.b + 1;
      }
      todo.push_back({a, ranges.a_end, b, ranges.b_end});
    }
    std::sort(matches_.begin(), matches_.end(), [](const Match& x, const Match& y) { return x.a < y.a; });
    return std::move(matches_);
  }

 private:
  /// Matches equal lines at both ends.
  void trim(Ranges& ranges) {
    while (ranges.a_begin < ranges.a_end && ranges.b_begin < ranges.b_end && a_[ranges.a_begin] == b_[ranges.b_begin]) {
      matches_.push_back({ranges.a_begin++, ranges.b_begin++});
    }
    while (ranges.a_begin < ranges.a_end && ranges.b_begin < ranges.b_end &&
           a_[ranges.a_end - 1] == b_[ranges.b_end - 1]) {
      matches_.push_back({--ranges.a_end, --ranges.b_end});
    }
  }

  /// Lines that occur once in each range, by their place in the first.
  std::vector<Match> unique_matches(const Ranges& ranges) const {
    struct Count {
      size_t in_a = 0, in_b = 0, b = 0;
    };
    std::unordered_map<std::string_view, Count> counts;
    for (size_t i = ranges.a_begin; i < ranges.a_end; ++i) ++counts[a_[i]].in_a;
    for (size_t i = ranges.b_begin; i < ranges.b_end; ++i) {
      Count& count = counts[b_[i]];
      ++count.in_b;
      count.b = i;
    }
    std::vector<Match> result;
    for (size_t i = ranges.a_begin; i < ranges.a_end; ++i) {
      const Count& count = counts[a_[i]];
      if (count.in_a == 1 && count.in_b == 1) result.push_back({i, count.b});
    }
    return result;
  }

  /// The longest subsequence whose places in the second text ascend.
  static std::vector<Match> longest_ascending(const std::vector<Match>& matches) {
    std::vector<size_t> tails;  // tails[n]: the match with the smallest b that ends a subsequence of length n + 1
    std::vector<size_t> previous(matches.size());
    for (size_t i = 0; i < matches.size(); ++i) {
      const auto place = std::lower_bound(tails.begin(), tails.end(), matches[i].b,
                                          [&](size_t tail, size_t b) { return matches[tail].b < b; });
      previous[i] = place == tails.begin() ? i : *(place - 1);
      if (place == tails.end()) {
        tails.push_back(i);
      } else {
        *place = i;
      }
    }
    std::vector<Match> result(tails.size());
    for (size_t n = tails.size(), i = tails.empty() ? 0 : tails.back(); n-- > 0; i = previous[i])
      result[n] = matches[i];
    return result;
  }

  const Lines& a_;
  const Lines& b_;
  std::vector<Match> matches_;
};

Lines split_lines(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

struct DiffLine {
  char mark;
  std::string_view text;
};

std::string with_context(const std::vector<DiffLine>& lines) {
  constexpr size_t kContext = 2;
  std::vector<bool> shown(lines.size(), false);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].mark == ' ') continue;
    const size_t first = i - std::min(i, kContext);
    const size_t last = std::min(i + kContext, lines.size() - 1);
    for (size_t j = first; j <= last; ++j) shown[j] = true;
  }
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (shown[i]) {
      text += lines[i].mark;
      text += ' ';
      text += lines[i].text;
      text += '\n';
    } else if (i == 0 || shown[i - 1]) {
      text += "  ...\n";
    }
  }
  return text;
}

}  // namespace

std::string diff_lines(std::string_view before, std::string_view after) {
  if (before == after) return "";
  const Lines a = split_lines(before);
  const Lines b = split_lines(after);
  std::vector<Match> matches = Aligner(a, b).run();
  matches.push_back({a.size(), b.size()});
  std::vector<DiffLine> lines;
  size_t i = 0;
  size_t j = 0;
  for (const Match& match : matches) {
    while (i < match.a) lines.push_back({'-', a[i++]});
    while (j < match.b) lines.push_back({'+', b[j++]});
    if (i < a.size() && j < b.size()) {
      lines.push_back({' ', a[i++]});
      ++j;
    }
  }
  return with_context(lines);
}

std::string diff(const Graph& before, const Graph& after) { return diff_lines(to_text(before), to_text(after)); }

}  // namespace reprise::graph
