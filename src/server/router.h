#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "server/exchange.h"

namespace reprise::server {

/// Where a handler may run.
enum class RouteKind {
  kQuick,  ///< on the thread of the connection: it takes microseconds, and must not wait behind other requests
  kWork,   ///< on a worker: it parses, renders or tokenizes what may be megabytes
};

struct Route {
  Handler handler;
  RouteKind kind = RouteKind::kWork;
  bool json_body = false;  ///< a Content-Type other than JSON is refused
};

/// Which handler answers a method and path. Filled before the server starts, then only read.
class Router {
 public:
  /// `path`: "/v1/models", or "/v1/models/*" for everything that begins with "/v1/models/" and goes on.
  void add(const std::vector<std::string>& methods, const std::string& path, Route route);

  struct Match {
    const Route* route = nullptr;      ///< null when there is none
    std::vector<std::string> methods;  ///< what the path allows; empty for an unknown path
  };
  /// HEAD is answered where GET is.
  Match find(std::string_view method, std::string_view path) const;

 private:
  struct Entry {
    std::map<std::string, Route, std::less<>> by_method;
  };
  std::map<std::string, Entry, std::less<>> exact_;
  std::map<std::string, Entry, std::less<>> prefixes_;
};

}  // namespace reprise::server
