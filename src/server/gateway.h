#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/http_message.h"
#include "server/router.h"

namespace reprise::server {

struct AccessOptions {
  /// Requests must bring "Authorization: Bearer KEY"; empty: no key is needed. Never needed by OPTIONS, /health...,
  /// /metrics and the page at /.
  std::string api_key;
  /// What Access-Control-Allow-Origin says; empty: pages of other origins are not let in.
  std::string cors_origin = "*";
};

/// What stands before all handlers: it knows routes, the key and other origins' pages. Immutable.
class Gateway {
 public:
  Gateway(Router router, AccessOptions options);

  /// Decides by the head of a request, before its body is read: the answer to one that goes no further.
  std::optional<HttpResponse> answer_head(const HttpRequest& head) const;
  /// Of a request that answer_head() let pass.
  const Route& route(const HttpRequest& head) const;
  /// What every answer carries.
  HttpHeaders common_headers(const HttpRequest& head) const;

 private:
  bool authorized(const HttpRequest& head) const;

  Router router_;
  AccessOptions options_;
};

/// Takes as long for every text of the same length, whatever they have in common.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace reprise::server
