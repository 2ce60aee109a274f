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
  /// A request may have several names: its own, and that of those it was sent with.
  void add(const std::vector<std::string>& names, engine::RequestId id);
  void remove(const std::vector<std::string>& names, engine::RequestId id);
  /// Ids of all requests whose names begin with `name`, provided that one is called exactly so: SGLang's rule. An id
  /// may come more than once.
  std::vector<engine::RequestId> find_by_prefix(std::string_view name) const;
  std::vector<engine::RequestId> all() const;

 private:
  mutable std::mutex mutex_;
  std::multimap<std::string, engine::RequestId, std::less<>> by_name_;
};

}  // namespace reprise::server
