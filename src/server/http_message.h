#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::server {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

/// A request as handlers see it.
struct HttpRequest {
  std::string method;  ///< "GET"
  std::string path;    ///< as it was sent, without the query
  std::string query;   ///< behind the "?", as it was sent
  HttpHeaders headers;
  std::string body;
  std::string id;         ///< the client's x-request-id if it sent a proper one, else the same as `unique_id`
  std::string unique_id;  ///< what no other request has, whatever clients call theirs
  std::string peer;       ///< address and port of the client, for the log

  /// The value of the first header of that name, in any spelling of its letters; empty when there is none.
  std::string_view header(std::string_view name) const;
};

/// A whole answer.
struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  HttpHeaders headers;
};

/// "Not Found" for 404.
std::string_view reason_phrase(int status);

bool equal_ignoring_case(std::string_view a, std::string_view b);

/// Replaces %XX by the byte; what is no such escape stays.
std::string percent_decode(std::string_view text);

/// The value of a query "after=5&limit=3" at a name; absent when it is not there.
std::optional<std::string_view> query_value(std::string_view query, std::string_view name);

/// Whether the value of a Content-Type header names JSON.
bool is_json_content_type(std::string_view value);

/// At most `limit` bytes of a text from outside, for a log line: what is not printable ASCII becomes "?".
std::string for_log(std::string_view text, size_t limit);

}  // namespace reprise::server
