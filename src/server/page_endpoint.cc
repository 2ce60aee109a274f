#include "server/endpoints.h"
#include "server/page.h"

namespace reprise::server {
namespace {

/// The page loads nothing, runs its own script and talks to its own server. Nobody may put it into a frame.
constexpr const char* kContentPolicy =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

HttpResponse page_response() {
  HttpResponse response;
  response.body = page_html();
  response.content_type = "text/html; charset=utf-8";
  response.headers = {{"Content-Security-Policy", kContentPolicy},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cache-Control", "no-cache"}};
  return response;
}

}  // namespace

void add_page_endpoint(Router& router, ApiContext& /*context*/) {
  router.add({"GET"}, "/",
             {.handler = [](const HttpRequest&,
                            const std::shared_ptr<Exchange>& exchange) { exchange->respond(page_response()); },
              .kind = RouteKind::kQuick});
}

}  // namespace reprise::server
