#include "server/live_requests.h"

#include <algorithm>

namespace reprise::server {

void LiveRequests::add(const std::vector<std::string>& names, engine::RequestId id) {
  const std::lock_guard lock(mutex_);
  for (const std::string& name : names) by_name_.emplace(name, id);
}

void LiveRequests::remove(const std::vector<std::string>& names, engine::RequestId id) {
  const std::lock_guard lock(mutex_);
  for (const std::string& name : names) {
    const auto [begin, end] = by_name_.equal_range(name);
    const auto entry = std::find_if(begin, end, [id](const auto& one) { return one.second == id; });
    if (entry != end) by_name_.erase(entry);
  }
}

std::vector<engine::RequestId> LiveRequests::find_by_prefix(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  std::vector<engine::RequestId> ids;
  if (name.empty() || by_name_.find(name) == by_name_.end()) return ids;
  for (auto entry = by_name_.lower_bound(name); entry != by_name_.end() && entry->first.starts_with(name); ++entry) {
    ids.push_back(entry->second);
  }
  return ids;
}

std::vector<engine::RequestId> LiveRequests::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<engine::RequestId> ids;
  for (const auto& [_, id] : by_name_) ids.push_back(id);
  return ids;
}

}  // namespace reprise::server
