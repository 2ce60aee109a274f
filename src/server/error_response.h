#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "base/error.h"
#include "server/exchange.h"
#include "server/http_message.h"

namespace reprise::server {

/// The HTTP status of an error: the one place where codes become statuses.
int http_status(const Error& error);

/// {"error": {"message": ..., "type": ..., "param": ..., "code": ...}}, as OpenAI's API has it.
std::string error_json(int status, std::string_view message, std::string_view parameter = {},
                       std::string_view kind = {});
std::string error_json(const Error& error);

HttpResponse error_response(int status, std::string_view message, std::string_view parameter = {},
                            std::string_view kind = {});
/// Of an exception that a handler threw. What is no Error of a request says only that something went wrong, and the
/// log says what.
HttpResponse error_response(const std::exception_ptr& exception);

/// Ends an answer that cannot be completed: with the error as its response, or as the last event of its stream.
void end_with_error(Exchange& exchange, bool stream, const Error& error);

}  // namespace reprise::server
