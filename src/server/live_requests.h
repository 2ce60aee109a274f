#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"

namespace reprise::server {

/// The requests that run, by the ids that clients gave them or were told. Thread-safe.
class LiveRequests {
 public:
  void add(const std::string& name, engine::RequestId id);
  void remove(const std::string& name, engine::RequestId id);
  /// Ids of all requests whose names begin with `name`, provided that one is called exactly so: SGLang's rule.
  std::vector<engine::RequestId> find_by_prefix(std::string_view name) const;
  std::vector<engine::RequestId> all() const;
  size_t size() const;

 private:
  mutable std::mutex mutex_;
  std::multimap<std::string, engine::RequestId, std::less<>> by_name_;
};

}  // namespace reprise::server
