#include "cli/server_options.h"

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/mapped_file.h"
#include "cli/option_range.h"
#include "engine/engine.h"
#include "load/generation_config.h"
#include "load/model_config.h"

namespace reprise::cli {
namespace {

constexpr size_t kMostTemplateBytes = size_t{16} << 20;

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

void require(bool allowed, const char* option, const std::string& value, const char* range) {
  if (!allowed) throw Error(ErrorCode::kInvalidArgument, "{} is {}, must be {}", option, value, range);
}

/// What --cors-origin may be: nothing, any, or what a browser sends: scheme, host and port.
bool is_origin(std::string_view text) {
  if (text.empty() || text == "*" || text == "null") return true;
  const size_t scheme = text.find("://");
  if (scheme == 0 || scheme == std::string_view::npos || text.find_first_of("\r\n \t") != text.npos) return false;
  const std::string_view host = text.substr(scheme + 3);
  return !host.empty() && host.find('/') == std::string_view::npos;
}

}  // namespace

void ServerOptions::add(CommandLine& command) {
  session.add_model(command);
  command.option("--host", host, "address to listen on; 0.0.0.0 or :: for all");
  command.option("--port", port, "port to listen on; 0: any free one");
  command.option("--served-model-name", served_model_name, "name of the model in answers");
  command.unset("", "the path");
  command.option("--chat-template", chat_template, "file with the chat template");
  command.unset("", "the model's own");
  command.option("--api-key", api_key,
                 "what requests must bring as 'Authorization: Bearer KEY'; the environment's REPRISE_API_KEY does the "
                 "same and is not seen in lists of processes");
  command.option("--cors-origin", cors_origin, "origin whose pages may send requests; *: any, '': none");
  command.option("--max-running-requests", max_running_requests, "most requests that run at a time");
  command.option("--max-queued-requests", max_queued_requests,
                 "most requests that wait; further ones are answered with 503");
  command.unset("0", "no limit");
  command.flag("--capture-before-ready", capture_before_ready, "capture every batch size before requests are taken");
  command.flag("--allow-special-in-content", allow_special_in_content,
               "text of messages may be read as control tokens");
  command.flag("--stream-output", stream_output, "streams of /generate carry what is new, not all text so far");
  command.option(
      "--stream-gather-ms", stream_gather_milliseconds,
      "events of a stream that come within so many milliseconds behind others go out together; 0: each at once");
  command.flag("--access-log", access_log, "a line for each request: who, what, status, bytes, time; no contents");
  command.option("--drain-seconds", drain_seconds, "time that requests have to end after SIGTERM");
  command.option("--health-timeout", health_timeout_seconds,
                 "seconds, at least 0.5, after which /health reports an engine that was not seen");
  command.option("--max-body-bytes", max_body_bytes, "largest body of a request");
  command.option("--max-connections", max_connections, "most open connections");
  command.option("--http-threads", http_threads, "threads that read and write; as many parse and tokenize");
  command.choice("--sampling-defaults", sampling_defaults, {"model", "openai"},
                 "where requests of OpenAI's form get what they do not say: the model's generation_config.json, or "
                 "OpenAI's constants");
  command.choice("--quantization", quantization, {"", "w8a8_int8", "modelslim", "compressed-tensors"},
                 "refuse a model that is not quantised like this; without: how it is quantised is read from it");
  command.flag("--disable-overlap-schedule", disable_overlap_schedule,
               "tell the tokens of each decode step, and take new requests, before the next one begins instead of "
               "while it runs; "
               "always so on the CPU");
  command.flag("--disable-radix-cache", disable_radix_cache,
               "read every prompt as a whole, also where an earlier one began in the same way");
  command.option("--random-seed", random_seed, "what seeds of requests that bring none are made from");
  command.option("--decode-log-interval", decode_log_interval,
                 "decode steps between two log lines about them, which come a few times a second at most; 0: no lines "
                 "about steps");
  command.choice("--log-level", log_level, {"", "debug", "info", "warning", "error", "off"}, "what is logged");
  command.unset("", "as REPRISE_LOG says");
  command.option("--config", config,
                 "YAML file with options of this command, see docs/options.md; the command line wins");
  command.flag("--print-config", print_config, "print all options as a file for --config, and end");
}

void ServerOptions::check() const {
  require_range("--port", port, 0, 65535);
  require_range("--max-running-requests", max_running_requests, 1, engine::kMostRunning);
  require_range("--max-queued-requests", max_queued_requests, 0);
  require(drain_seconds >= 0 && drain_seconds <= 1e6, "--drain-seconds", fmt::format("{}", drain_seconds),
          "between 0 and 1000000");
  // An idle engine shows itself ten times a second.
  require(health_timeout_seconds >= 0.5 && health_timeout_seconds <= 1e6, "--health-timeout",
          fmt::format("{}", health_timeout_seconds), "between 0.5 and 1000000");
  require_range("--stream-gather-ms", stream_gather_milliseconds, 0, 1000);
  require_range("--max-body-bytes", max_body_bytes, 1024, int64_t{1} << 30);
  require_range("--max-connections", max_connections, 1);
  require_range("--http-threads", http_threads, 1, 64);
  require_range("--decode-log-interval", decode_log_interval, 0);
  require(is_origin(cors_origin), "--cors-origin", fmt::format("'{}'", cors_origin),
          "an origin such as https://example.org, without a path, or *");
}

std::string ServerOptions::effective_api_key() const {
  if (!api_key.empty()) return api_key;
  const char* from_environment = std::getenv("REPRISE_API_KEY");
  return from_environment == nullptr ? "" : from_environment;
}

server::ApiOptions ServerOptions::api_options() const {
  server::ApiOptions options;
  options.http.host = host;
  options.http.port = port;
  options.http.threads = http_threads;
  options.http.workers = http_threads;
  options.http.max_connections = static_cast<size_t>(max_connections);
  options.http.max_body_bytes = static_cast<size_t>(max_body_bytes);
  options.gather_time = std::chrono::milliseconds(stream_gather_milliseconds);
  options.http.access_log = access_log;
  options.access.api_key = effective_api_key();
  options.access.cors_origin = cors_origin;
  options.allow_special_in_content = allow_special_in_content;
  options.incremental_streams = stream_output;
  options.profile_directory = session.profile_directory;
  options.health_timeout = milliseconds_of(health_timeout_seconds);
  options.version = REPRISE_VERSION;
  // What clients of SGLang look for there; the key is not among it.
  options.server_info = nlohmann::ordered_json{{"host", host},
                                               {"port", port},
                                               {"device", session.device},
                                               {"dtype", session.dtype},
                                               {"kv_cache_dtype", session.kv_dtype},
                                               {"mode", session.mode},
                                               {"chunked_prefill_size", session.max_prefill_tokens},
                                               {"max_running_requests", max_running_requests},
                                               {"max_queued_requests", max_queued_requests},
                                               {"stream_output", stream_output},
                                               {"capture_before_ready", capture_before_ready}}
                            .dump();
  return options;
}

void ServerOptions::check_quantization() const {
  if (quantization.empty()) return;
  using Convention = load::Quantization::Convention;
  const load::ModelConfig model = load::ModelConfig::load(load::model_directory(session.model));
  const Convention convention = model.quantization.convention();
  const bool fits = quantization == "w8a8_int8"   ? model.quantization.quantizes_anything()
                    : quantization == "modelslim" ? convention == Convention::kModelSlim
                                                  : convention == Convention::kCompressedTensors;
  if (fits) return;
  throw Error(ErrorCode::kInvalidArgument, "--quantization is '{}', but the model is {}", quantization,
              !model.quantization.quantizes_anything() ? "not quantised"
              : convention == Convention::kModelSlim   ? "one of modelslim"
                                                       : "one of compressed-tensors")
      .remedy("leave it out: how a model is quantised is read from it; `reprise quantize` makes quantised ones");
}

server::ServedModel ServerOptions::served_model() const {
  const std::filesystem::path path(session.model);
  if (!std::filesystem::exists(path)) {
    throw Error(ErrorCode::kNotFound, "there is no model at {}", path.string());
  }
  const std::filesystem::path directory = load::model_directory(path);
  server::ServedModel model;
  model.path = session.model;
  model.name = served_model_name.empty() ? session.model : served_model_name;
  check_quantization();
  if (sampling_defaults == "model") model.generation_config = load::GenerationConfig::load(directory);
  if (chat_template.empty()) {
    model.chat_template = text::ChatTemplate::load(directory);
  } else {
    model.chat_template = text::ChatTemplate::from_source(read_file(chat_template, kMostTemplateBytes), chat_template);
  }
  return model;
}

}  // namespace reprise::cli
