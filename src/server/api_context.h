#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "engine/engine_service.h"
#include "load/generation_config.h"
#include "server/generation.h"
#include "server/http_server.h"
#include "text/chat_template.h"

namespace reprise::server {

/// The model as clients see it.
struct ServedModel {
  std::string name;  ///< in /v1/models and in answers
  std::string path;
  std::optional<text::ChatTemplate> chat_template;  ///< absent: no chats
  /// What requests of OpenAI's form that say nothing are sampled with.
  load::GenerationConfig generation_config;
};

struct ApiOptions {
  HttpServerOptions http;
  AccessOptions access;
  /// Text of messages may be read as control tokens.
  bool allow_special_in_content = false;
  /// Streams of /generate carry what is new in each event, not all text so far.
  bool incremental_streams = false;
  /// Tokens of streams that come within this time behind others go out together; the first and the last one of an
  /// answer at once.
  std::chrono::milliseconds gather_time{10};
  /// The engine's thread counts as wedged, and /health says 503, when it was not seen for so long.
  std::chrono::milliseconds health_timeout{20'000};
  /// Profiles are written into directories of their own below this one.
  std::filesystem::path profile_directory = "profile";
  /// That of the program.
  std::string version;
  /// What /get_server_info tells besides: the options of the program as a JSON object.
  std::string server_info = "{}";
};

/// What all endpoints share.
struct ApiContext {
  ApiContext(engine::EngineService& engine_service, ServedModel served, ApiOptions api_options)
      : service(engine_service), model(std::move(served)), options(std::move(api_options)) {}

  engine::EngineService& service;
  const ServedModel model;
  const ApiOptions options;
  const int64_t created =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::shared_ptr<ServerMetrics> metrics = std::make_shared<ServerMetrics>();
  std::shared_ptr<LiveRequests> live = std::make_shared<LiveRequests>();
  std::shared_ptr<EventRelay> relay;
  HttpServer* http = nullptr;

  GenerationHost generation_host() const { return {service, relay, live, metrics}; }
  /// Throws 503 unless requests are taken.
  void require_ready() const;
  /// Once ready.
  const text::Tokenizer& tokenizer() const;
  int32_t vocabulary() const;
  /// Most tokens of a request, prompt and output.
  int64_t max_context() const;
};

/// Seconds since 1970.
int64_t unix_time();

}  // namespace reprise::server
