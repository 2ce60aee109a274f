#include "server/router.h"

namespace reprise::server {

void Router::add(const std::vector<std::string>& methods, const std::string& path, Route route) {
  Entry& entry = path.ends_with("/*") ? prefixes_[path.substr(0, path.size() - 1)] : exact_[path];
  for (const std::string& method : methods) entry.by_method[method] = route;
}

Router::Match Router::find(std::string_view method, std::string_view path) const {
  const Entry* entry = nullptr;
  if (const auto found = exact_.find(path); found != exact_.end()) {
    entry = &found->second;
  } else {
    for (const auto& [prefix, candidate] : prefixes_) {
      if (path.size() > prefix.size() && path.starts_with(prefix)) entry = &candidate;
    }
  }
  Match match;
  if (entry == nullptr) return match;
  for (const auto& [name, route] : entry->by_method) {
    match.methods.push_back(name);
    if (name == method || (name == "GET" && method == "HEAD")) match.route = &route;
  }
  if (entry->by_method.contains("GET")) match.methods.emplace_back("HEAD");
  match.methods.emplace_back("OPTIONS");
  return match;
}

}  // namespace reprise::server
