#pragma once

#include <string>
#include <utility>

#include "base/error.h"

namespace reprise::server {

/// A fault of a request, with what the answer names besides the message.
class RequestError : public Error {
 public:
  RequestError(ErrorCode code, std::string message, std::string parameter = {}, std::string kind = {}, int status = 0)
      : Error(code, std::move(message)), parameter_(std::move(parameter)), kind_(std::move(kind)), status_(status) {}
  /// 400 for a parameter.
  static RequestError parameter_error(std::string parameter, std::string message) {
    return RequestError(ErrorCode::kInvalidArgument, std::move(message), std::move(parameter));
  }

  const std::string& parameter() const { return parameter_; }  ///< the field that is wrong; may be empty
  const std::string& kind() const { return kind_; }            ///< the `code` of the answer; may be empty
  int status() const { return status_; }                       ///< 0: as the error's code says

 private:
  std::string parameter_;
  std::string kind_;
  int status_;
};

}  // namespace reprise::server
