#include "server/gateway.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "server/error_response.h"

namespace reprise::server {
namespace {

constexpr std::string_view kBearer = "bearer ";

bool needs_no_key(const HttpRequest& head) {
  // The page holds nothing of the server's, and asks for the key.
  return head.method == "OPTIONS" || head.path.starts_with("/health") || head.path == "/metrics" || head.path == "/";
}

/// The answer to a browser that asks whether a page of another origin may send a request.
HttpResponse preflight_response(const Router::Match& match) {
  HttpResponse response;
  response.status = 204;
  response.headers.emplace_back("Allow", fmt::format("{}", fmt::join(match.methods, ", ")));
  return response;
}

}  // namespace

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    const char other = b.empty() ? '\0' : b[i % b.size()];
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(other);
  }
  return difference == 0;
}

Gateway::Gateway(Router router, AccessOptions options) : router_(std::move(router)), options_(std::move(options)) {}

std::optional<HttpResponse> Gateway::answer_head(const HttpRequest& head) const {
  const Router::Match match = router_.find(head.method, head.path);
  if (head.method == "OPTIONS" && (!match.methods.empty() || head.path == "*")) return preflight_response(match);
  if (!needs_no_key(head) && !authorized(head)) {
    HttpResponse response = error_response(401, "The API key is missing or wrong: send 'Authorization: Bearer KEY'.",
                                           {}, "invalid_api_key");
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
    return response;
  }
  if (match.methods.empty()) {
    return error_response(404, fmt::format("There is nothing at {}.", for_log(head.path, 200)), {}, "unknown_path");
  }
  if (match.route == nullptr) {
    HttpResponse response =
        error_response(405, fmt::format("{} allows {}.", for_log(head.path, 200), fmt::join(match.methods, ", ")));
    response.headers.emplace_back("Allow", fmt::format("{}", fmt::join(match.methods, ", ")));
    return response;
  }
  const std::string_view coding = head.header("content-encoding");
  if (!coding.empty() && !equal_ignoring_case(coding, "identity")) {
    HttpResponse response =
        error_response(415, "The body must not be compressed: Content-Encoding can only be identity.", {},
                       "unsupported_content_encoding");
    response.headers.emplace_back("Accept-Encoding", "identity");
    return response;
  }
  if (match.route->json_body && !is_json_content_type(head.header("content-type"))) {
    return error_response(400, "The Content-Type must be application/json.", {}, "unsupported_content_type");
  }
  return std::nullopt;
}

const Route& Gateway::route(const HttpRequest& head) const { return *router_.find(head.method, head.path).route; }

HttpHeaders Gateway::common_headers(const HttpRequest& head) const {
  HttpHeaders headers;
  headers.emplace_back("x-request-id", head.id);
  if (options_.cors_origin.empty() || head.header("origin").empty()) return headers;
  headers.emplace_back("Access-Control-Allow-Origin", options_.cors_origin);
  headers.emplace_back("Vary", "Origin");
  headers.emplace_back("Access-Control-Expose-Headers", "x-request-id");
  if (head.method == "OPTIONS") {
    headers.emplace_back("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, OPTIONS");
    // Browsers do not take "*" for Authorization.
    headers.emplace_back("Access-Control-Allow-Headers", "Authorization, Content-Type, x-request-id, *");
    headers.emplace_back("Access-Control-Max-Age", "600");
  }
  return headers;
}

bool Gateway::authorized(const HttpRequest& head) const {
  if (options_.api_key.empty()) return true;
  const std::string_view value = head.header("authorization");
  // The scheme's letters may be of any case (RFC 9110, 11.1); the key's may not.
  if (value.size() < kBearer.size() || !equal_ignoring_case(value.substr(0, kBearer.size()), kBearer)) return false;
  return equal_in_constant_time(value.substr(kBearer.size()), options_.api_key);
}

}  // namespace reprise::server
