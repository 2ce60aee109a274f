#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "api/devices.h"
#include "base/error.h"
#include "cli/engine_compile_options.h"
#include "cli/option_range.h"
#include "cli/session.h"
#include "compile/option_names.h"
#include "compile/pass_manager.h"
#include "load/model_config.h"
#include "model/factory.h"
#include "replay/buckets.h"

namespace reprise::cli {
namespace {

/// What a team of threads holds.
constexpr int32_t kMostThreads = (1 << 16) - 1;

/// Runs a check whose errors do not name the option; "" for one that is not of the command line.
template <typename Check>
void naming(const char* option, const Check& check) {
  try {
    check();
  } catch (Error& error) {
    if (*option != 0) error.add_context(option);
    throw;
  }
}

}  // namespace

replay::Mode parse_mode(const std::string& name) {
  if (const auto mode = replay::mode_from_name(name)) return *mode;
  throw Error(ErrorCode::kUnsupported, "mode '{}' is not built yet", name)
      .remedy("use eager, aot_eager, force_eager, full or piecewise");
}

std::vector<std::string> parse_splitting_ops(const std::string& text, const ops::Registry& registry) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  const auto is_name = [](const nlohmann::json& value) { return value.is_string(); };
  if (!json.is_object() || !json.contains("splitting_ops") || !json["splitting_ops"].is_array() ||
      !std::all_of(json["splitting_ops"].begin(), json["splitting_ops"].end(), is_name)) {
    throw Error(ErrorCode::kInvalidArgument,
                "--compilation-config is '{}', expected {{\"splitting_ops\": [\"NAME\", ...]}}", text);
  }
  for (const auto& [key, _] : json.items()) {
    if (key != "splitting_ops") {
      throw Error(ErrorCode::kInvalidArgument, "--compilation-config has no key '{}'", key).remedy("use splitting_ops");
    }
  }
  const auto names = json["splitting_ops"].get<std::vector<std::string>>();
  for (const std::string& name : names) {
    try {
      registry.get(name);
    } catch (const Error& error) {
      throw Error(ErrorCode::kInvalidArgument, "--compilation-config: {}", error.what());
    }
  }
  return names;
}

void SessionOptions::set_compile_options() {
  for (const std::string& option : compile_options) {
    const size_t equals = option.find('=');
    if (equals == std::string::npos) {
      throw Error(ErrorCode::kInvalidArgument, "'{}' is not of the form NAME=VALUE", option);
    }
    compile::set_option_text(compile, option.substr(0, equals), option.substr(equals + 1));
    named_options.insert(option.substr(0, equals));
  }
  compile.passes.disabled_passes = disabled_passes;
  if (!disabled_passes.empty()) named_options.insert("--disable-pass");
  if (inexact_fusions) {
    compile.passes.inexact_fusions = true;
    named_options.insert("inexact_fusions");
  }
}

void SessionOptions::check_ranges() const {
  require_range("--threads", threads, 0, kMostThreads);
  if (page_size) require_range("--page-size", *page_size, 1, engine::kMostPageSize);
  require_range("--kv-tokens", kv_tokens, 0, std::numeric_limits<int32_t>::max());
  require_range("--max-context", max_context, 0);
  require_range("--max-prefill-tokens", max_prefill_tokens, 1);
  require_range("--graph-max-bs", graph_max_batch_size, 0);
  require_range("--retrace-every", retrace_every, 0);
  for (const int32_t size : graph_batch_sizes) {
    if (size > engine::kMostRunning) require_range("--graph-bs", size, 1, engine::kMostRunning);
  }
  naming("--graph-bs", [&] {
    replay::choose_buckets(
        {.sizes = graph_batch_sizes, .max_size = graph_max_batch_size, .max_running = 1, .padding = true});
  });
  naming("--prefill-graph-tokens", [&] { replay::choose_prefill_sizes(prefill_graph_tokens, max_prefill_tokens); });
  if (given("--autotune-cache") && autotune_cache.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "--autotune-cache names no file");
  }
  if (!autotune && !autotune_cache.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "--autotune-cache is '{}', but nothing is tuned", autotune_cache)
        .remedy("add --autotune");
  }
}

void SessionOptions::check_mode(replay::Mode chosen) const {
  if (!prefill_graph_tokens.empty() && !captures(chosen)) {
    throw Error(ErrorCode::kInvalidArgument, "--prefill-graph-tokens captures prompt steps, which --mode {} does not",
                name_of(chosen));
  }
  if (!compilation_config.empty() && chosen != replay::Mode::kPiecewise) {
    throw Error(ErrorCode::kInvalidArgument, "--compilation-config cuts graphs, which only --mode piecewise does");
  }
}

load::ModelConfig SessionOptions::check(const ops::Registry& registry) const {
  naming("--mode", [&] { parse_mode(mode); });
  naming("--device", [&] { api::check_device({device, threads, discrete}); });
  SessionOptions complete = *this;
  naming("--option", [&] { complete.set_compile_options(); });
  naming("--disable-pass", [&] { compile::PassManager::standard(registry, complete.compile.passes); });
  check_ranges();
  if (command_ != nullptr && !command_->long_name("--mode").empty()) {
    const replay::Mode chosen = parse_mode(mode);
    check_mode(chosen);
    if (profile_capture && !captures(chosen)) {
      throw Error(ErrorCode::kInvalidArgument, "--profile-capture profiles captures, which --mode {} does not make",
                  mode);
    }
    naming(given("--option") ? "--option" : "", [&] { mode_of(complete.compile, chosen, given("--mode")); });
  }
  if (!compilation_config.empty()) parse_splitting_ops(compilation_config, registry);
  if (!std::filesystem::exists(model)) throw Error(ErrorCode::kNotFound, "there is no model at {}", model);
  load::ModelConfig config = load::ModelConfig::load(load::model_directory(model));
  require_range("--max-context", max_context, 0, config.max_position_embeddings);
  model::ModelOptions ignored;
  experts.apply(command_, config, ignored);
  return config;
}

}  // namespace reprise::cli
