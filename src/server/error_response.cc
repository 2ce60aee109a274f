#include "server/error_response.h"

#include <new>

#include "base/log.h"
#include "server/json.h"
#include "server/request_error.h"

namespace reprise::server {
namespace {

std::string_view type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 503:
      return "service_unavailable_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

}  // namespace

int http_status(const Error& error) {
  const auto* fault = dynamic_cast<const RequestError*>(&error);
  if (fault != nullptr && fault->status() != 0) return fault->status();
  switch (error.code()) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsupported:
    case ErrorCode::kCorruptData:
      return 400;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kResourceExhausted:
    case ErrorCode::kFailedPrecondition:
    case ErrorCode::kOutOfMemory:
    case ErrorCode::kCancelled:
      return 503;
    default:
      return 500;
  }
}

std::string error_json(int status, std::string_view message, std::string_view parameter, std::string_view kind) {
  std::string text = R"({"error":{"message":)";
  append_json_string(text, message);
  text += R"(,"type":)";
  append_json_string(text, kind == "model_not_found" ? "invalid_request_error" : type_of(status));
  text += R"(,"param":)";
  if (parameter.empty()) {
    text += "null";
  } else {
    append_json_string(text, parameter);
  }
  text += R"(,"code":)";
  if (kind.empty()) {
    text += fmt::format("{}", status);
  } else {
    append_json_string(text, kind);
  }
  text += "}}";
  return text;
}

std::string error_json(const Error& error) {
  const auto* fault = dynamic_cast<const RequestError*>(&error);
  return error_json(http_status(error), error.what(), fault ? fault->parameter() : std::string_view(),
                    fault ? fault->kind() : std::string_view());
}

HttpResponse error_response(int status, std::string_view message, std::string_view parameter, std::string_view kind) {
  HttpResponse response;
  response.status = status;
  response.body = error_json(status, message, parameter, kind);
  if (status == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

HttpResponse error_response(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    const int status = http_status(error);
    if (status == 500) log_error("a request failed: {}", error.what());
    HttpResponse response = error_response(status, "");
    response.body = error_json(error);
    return response;
  } catch (const std::bad_alloc&) {
    log_error("a request failed: out of memory");
    return error_response(503, "The server is out of memory.");
  } catch (const std::exception& error) {
    log_error("a request failed: {}", error.what());
    return error_response(500, "Internal server error.");
  }
}

void end_with_error(Exchange& exchange, bool stream, const Error& error) {
  if (!stream) {
    exchange.respond(error_response(std::make_exception_ptr(error)));
    return;
  }
  exchange.write("data: " + error_json(error) + "\n\n");
  exchange.write(kDoneEvent);
  exchange.end_stream();
}

}  // namespace reprise::server
