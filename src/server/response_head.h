#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/http_message.h"

namespace reprise::server {

/// How an answer is framed.
struct ResponseForm {
  bool keep_alive = true;
  // Where the length is not known:
  bool chunked = false;      ///< the body comes in chunks
  bool until_close = false;  ///< the body ends with the connection
};

/// The bytes of a response: its head, and its body unless `with_body` is false or comes later.
std::string compose_response(const HttpResponse& response, const HttpHeaders& common, const ResponseForm& form,
                             bool with_body);
/// Appends bytes of a chunked body, if there are any, and its end.
void append_chunk(std::string& wire, std::string_view bytes, bool end);

/// What the client sent if it is a proper id ([A-Za-z0-9._-], at most 128).
std::optional<std::string> proper_request_id(std::string_view from_client);
/// Unlike any other.
std::string new_request_id();

}  // namespace reprise::server
