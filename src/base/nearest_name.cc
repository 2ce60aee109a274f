#include "base/nearest_name.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace reprise {
namespace {

/// Levenshtein distance.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

/// The one is the other's plural.
bool differ_in_number(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  return b.size() == a.size() + 1 && b.back() == 's' && b.starts_with(a);
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  const std::string* best = nullptr;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    // So many edits it takes at least; a name may be as long as who sends it likes.
    if (std::max(name.size(), candidate.size()) - std::min(name.size(), candidate.size()) > best_distance) continue;
    const size_t distance = edit_distance(name, candidate);
    const bool nearer = distance < best_distance;
    if (nearer || (distance == best_distance && differ_in_number(name, candidate))) {
      best_distance = distance;
      best = &candidate;
    }
  }
  if (best != nullptr) return *best;
  // Somebody left out the last words.
  const auto goes_on = [name](const std::string& candidate) {
    return candidate.size() > name.size() && candidate.starts_with(name) &&
           (candidate[name.size()] == '_' || candidate[name.size()] == '-');
  };
  const auto first = std::find_if(candidates.begin(), candidates.end(), goes_on);
  const bool is_only = first != candidates.end() && std::none_of(first + 1, candidates.end(), goes_on);
  return is_only && name.find_first_not_of('-') != std::string_view::npos ? *first : "";
}

}  // namespace reprise
