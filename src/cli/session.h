#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/progress_bar.h"
#include "cli/autotune.h"
#include "cli/command_line.h"
#include "cli/expert_options.h"
#include "compile/compile_options.h"
#include "device/device.h"
#include "engine/engine.h"
#include "load/generation_config.h"
#include "load/model_config.h"
#include "model/model.h"
#include "ops/registry.h"
#include "text/tokenizer.h"

namespace reprise::cli {

/// Options that every command with a model on a device shares.
struct SessionOptions {
  std::string model;
  std::string device = "auto";
  std::string dtype = "auto";
  std::string kv_dtype = "auto";
  std::string mode = "full";
  int32_t threads = 0;
  std::optional<int32_t> page_size;  ///< absent: the device's
  int64_t kv_tokens = 0;             ///< 0: what the command needs
  int32_t max_context = 0;
  int32_t max_prefill_tokens = 512;
  std::vector<int32_t> graph_batch_sizes;
  int32_t graph_max_batch_size = 0;
  std::vector<int32_t> prefill_graph_tokens;
  bool disable_graph_padding = false;
  bool discrete = false;
  bool poison = false;
  ExpertOptions experts;
  std::optional<std::string> pack_cache;  ///< a directory, "" for the model's
  bool autotune = false;
  std::string autotune_cache;
  std::string update_order = "auto";
  int32_t retrace_every = 0;
  std::vector<std::string> compile_options;
  std::vector<std::string> disabled_passes;
  bool inexact_fusions = false;
  std::string debug_directory;
  bool profile_capture = false;
  std::string profile_directory = "profile";
  std::string compilation_config;
  /// What `compile_options` are set upon, and the names of the options that are set.
  compile::CompileOptions compile;
  std::set<std::string> named_options;

  /// `required`: the command line must name the model. Otherwise a file may do so, see RecipeOption.
  void add_model(CommandLine& command, bool required = true);
  void add_device(CommandLine& command);
  void add_engine(CommandLine& command);
  void add_graph(CommandLine& command);
  /// For commands that capture ahead when they are told to profile captures.
  void add_profile(CommandLine& command);
  /// The same as add_graph() without --mode.
  void add_captures(CommandLine& command);
  /// Finds what the options alone, or with the model's config.json, cannot mean, so that it costs no loading. Errors
  /// begin with the option's name; kNotFound when there is no model. Gives its configuration. `registry`: the
  /// catalogue.
  load::ModelConfig check(const ops::Registry& registry) const;

 private:
  friend class Session;
  /// Whether the user named the option; false for a command that has no such option.
  bool given(const std::string& name) const { return command_ != nullptr && command_->given(name); }
  /// Puts what the command line says upon `compile`.
  void set_compile_options();
  void check_ranges() const;
  /// What only some modes can do.
  void check_mode(replay::Mode chosen) const;

  const CommandLine* command_ = nullptr;
};

/// What a command works with: the operators, a device, and a model on it.
class Session {
 public:
  /// `before_load` is called when the device is there, and the model is about to be read.
  explicit Session(const SessionOptions& options, bool without_weights = false,
                   const std::function<void(device::Device& device)>& before_load = {});

  device::Device& device() { return *device_; }
  const ops::Registry& registry() const { return registry_; }
  const std::shared_ptr<const model::Model>& model() const { return model_; }
  const load::GenerationConfig& generation_config() const { return generation_config_; }
  const std::vector<int32_t>& end_token_ids() const { return end_token_ids_; }
  std::filesystem::path directory() const;

  /// An engine for up to `max_running` requests at a time with room for `kv_tokens` tokens (0: by rule), or for as many
  /// as --kv-tokens says.
  std::unique_ptr<engine::Engine> make_engine(std::optional<text::Tokenizer> tokenizer, int32_t max_running,
                                              int64_t kv_tokens, int32_t max_context);
  /// What make_engine() gives to the engine, to be changed. `mode`: instead of that of --mode.
  engine::EngineOptions engine_options(int32_t max_running, int64_t kv_tokens, int32_t max_context,
                                       std::optional<replay::Mode> mode = std::nullopt);
  /// Tokens in a page of the KV cache.
  int32_t page_size() const;
  /// What --autotune has chosen; null without it.
  const AutotuneReport* autotune_report() const { return autotune_report_ ? &*autotune_report_ : nullptr; }
  /// Milliseconds that loading took.
  double load_milliseconds() const { return load_milliseconds_; }

 private:
  SessionOptions options_;
  ops::Registry registry_;
  std::unique_ptr<device::Device> device_;
  std::shared_ptr<const model::Model> model_;
  load::GenerationConfig generation_config_;
  std::vector<int32_t> end_token_ids_;
  std::unique_ptr<ProgressBar> capture_bar_;
  std::unique_ptr<ExpertLoadFile> load_file_;
  std::optional<AutotuneReport> autotune_report_;
  double load_milliseconds_ = 0;
};

/// Reads {"splitting_ops": ["name", ...]} of --compilation-config; every name must be an operator.
std::vector<std::string> parse_splitting_ops(const std::string& text, const ops::Registry& registry);

/// Parses --mode; the names are checked by the command line already, except that modes which are not built are refused
/// by name.
replay::Mode parse_mode(const std::string& name);

}  // namespace reprise::cli
