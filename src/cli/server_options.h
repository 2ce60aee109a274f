#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/command_line.h"
#include "cli/session.h"
#include "server/api_context.h"

namespace reprise::cli {

/// Options of `reprise serve`.
struct ServerOptions {
  SessionOptions session;
  std::string host = "127.0.0.1";
  int32_t port = 30000;
  std::string served_model_name;
  std::string chat_template;  ///< a file; "": the model's
  std::string api_key;
  std::string cors_origin = "*";
  int32_t max_running_requests = 64;
  int32_t max_queued_requests = 0;
  bool capture_before_ready = false;
  bool allow_special_in_content = false;
  bool stream_output = false;
  bool access_log = false;
  double drain_seconds = 30;
  double health_timeout_seconds = 20;
  int32_t stream_gather_milliseconds = 10;
  int64_t max_body_bytes = int64_t{16} << 20;
  int32_t max_connections = 8192;
  int32_t http_threads = 2;
  std::string sampling_defaults = "model";
  std::string quantization;  ///< what the checkpoint must be; "": anything
  std::optional<uint64_t> random_seed;
  bool disable_radix_cache = false;
  bool disable_overlap_schedule = false;
  int32_t decode_log_interval = 40;
  std::string log_level;  ///< "": as REPRISE_LOG says
  std::string config;     ///< read before the options are, see resolve_serve_arguments()
  bool print_config = false;

  void add(CommandLine& command);
  /// Throws kInvalidArgument for values out of range.
  void check() const;
  /// Throws kInvalidArgument when the model is not quantised as --quantization says.
  void check_quantization() const;
  server::ApiOptions api_options() const;
  /// The name, the template and the defaults of the model, whose weights are not touched.
  server::ServedModel served_model() const;
  std::string effective_api_key() const;  ///< of the option, else of REPRISE_API_KEY
};

}  // namespace reprise::cli
