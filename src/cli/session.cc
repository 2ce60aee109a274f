#include "cli/session.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "api/devices.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/engine_compile_options.h"
#include "load/mapping_guard.h"
#include "model/factory.h"
#include "ops/attention_support.h"

namespace reprise::cli {
namespace {

std::optional<DType> parse_dtype(const std::string& name) {
  return name == "auto" ? std::nullopt : dtype_from_name(name);
}

std::optional<device::UpdateOrder> parse_update_order(const std::string& name) {
  if (name == "update-then-replay") return device::UpdateOrder::kUpdateThenReplay;
  if (name == "replay-then-update") return device::UpdateOrder::kReplayThenUpdate;
  return std::nullopt;
}

}  // namespace

void SessionOptions::add_model(CommandLine& command, bool required) {
  command_ = &command;
  command.option("-m,--model", model, "Hugging Face directory, or a .safetensors file with its config.json beside it");
  if (required) command.required();
}

void SessionOptions::add_device(CommandLine& command) {
  command.option("--device", device, "where the model runs: auto, cpu, ascend or ascend:N; see `reprise devices`");
  command.option("--threads", threads, "most threads");
  command.unset("0", "as many as CPU quota and affinity allow");
  command.choice("--dtype", dtype, {"auto", "float32", "bfloat16"}, "dtype of the computation; auto: the checkpoint's");
}

void SessionOptions::add_engine(CommandLine& command) {
  command.choice("--kv-dtype", kv_dtype, {"auto", "int8"},
                 "dtype of the KV cache; auto: the computation's, int8: with a scale for each token and KV head");
  command.option("--page-size", page_size, "tokens in a page of the KV cache");
  command.unset("", "16, on Ascend 128");
  command.option("--kv-tokens", kv_tokens, "tokens that the KV cache holds");
  command.unset("0", "by rule");
  command.option("--max-context", max_context, "most tokens of a request, prompt and output");
  command.unset("0", "the model's maximum");
  command.option("--max-prefill-tokens", max_prefill_tokens, "most prompt tokens in one step: the size of a chunk");
  command.option_with_optional_value("--pack-cache", pack_cache,
                                     "save the weights as they are packed, in this directory or (without one) beside "
                                     "the model, and map them on the next start");
  command.flag("--autotune", autotune,
               "measure at load how this machine's products work fastest, or take what was measured before; no result "
               "depends on it");
  command.option("--autotune-cache", autotune_cache, "file that remembers it");
  command.unset("", "$XDG_CACHE_HOME/reprise/autotune.json, or that below ~/.cache");
  experts.add(command);
  command.flag("--discrete", discrete, "debug: host code faults on device addresses");
  command.flag("--poison", poison, "debug: fill with NaN whatever must not be read");
}

void SessionOptions::add_graph(CommandLine& command) {
  command.choice("--mode", mode, {"eager", "aot_eager", "force_eager", "full", "piecewise"},
                 "how steps run: eager, traced, optimised, or replayed from captured graphs (full, piecewise)");
  add_captures(command);
}

void SessionOptions::add_captures(CommandLine& command) {
  command.option("--graph-bs", graph_batch_sizes,
                 "batch sizes to capture, as they are; beyond the smallest that holds all requests that may run, none");
  command.unset("", "by rule");
  command.option("--graph-max-bs", graph_max_batch_size, "largest batch size to capture");
  command.unset("0", "by rule");
  command.option("--prefill-graph-tokens", prefill_graph_tokens,
                 "sizes of prompt steps to capture; prompts are cut into them");
  command.unset("", "none");
  command.flag("--disable-graph-padding", disable_graph_padding, "replay only exact batch sizes");
  command.choice("--update-order", update_order, {"auto", "update-then-replay", "replay-then-update"},
                 "order of task updates and replay; auto: the device's");
  command.option(
      "--compilation-config", compilation_config,
      "JSON object for mode piecewise: {\"splitting_ops\": [\"paged_attention\"]}, the operators that run eagerly "
      "between captured pieces");
  command.option("-O,--option", compile_options,
                 "NAME=VALUE, a compile option of docs/options.md; may be given several times");
  command.option("--disable-pass", disabled_passes, "a pass to leave out, by its name in `reprise compile --explain`");
  command.flag("--inexact-fusions", inexact_fusions, "allow fusions that change a bit now and then");
  command.option("--debug-dir", debug_directory,
                 "write each compiled method's graphs after every pass and its captured programs into this directory; "
                 "REPRISE_DEBUG_DIR does the same");
  command.option("--retrace-every", retrace_every, "debug: trace again after every N-th replay and compare");
  command.unset("0", "never");
}

void SessionOptions::add_profile(CommandLine& command) {
  command.flag("--profile-capture,--enable-profile-cuda-graph", profile_capture,
               "capture ahead and profile it: tables by device and host time, a trace for Perfetto, memory over time");
  command.option("--profile-dir", profile_directory, "where profiles are written");
}

Session::Session(const SessionOptions& options, bool without_weights,
                 const std::function<void(device::Device& device)>& before_load)
    : options_(options), registry_(ops::make_catalogue()) {
  const load::ModelConfig config = options_.check(registry_);
  options_.set_compile_options();
  const std::filesystem::path path(options_.model);
  load::install_sigbus_guard();
  device_ = api::open_device({options_.device, options_.threads, options_.discrete}, registry_);
  // Before the weights are read, whatever the dtype is.
  ops::check_attention_support(registry_, device_->name(),
                               {.int8_cache = options_.kv_dtype == "int8",
                                .page_size = page_size(),
                                .prompts = options_.max_prefill_tokens > 1});
  ProgressBar bar;
  model::ModelOptions model_options;
  model_options.dtype = parse_dtype(options_.dtype);
  model_options.without_weights = without_weights;
  model_options.int8_kv = options_.kv_dtype == "int8";
  if (options_.pack_cache) {
    if (without_weights) throw Error(ErrorCode::kInvalidArgument, "--pack-cache: no weights are loaded here");
    model_options.pack_cache = *options_.pack_cache;
  }
  if (options_.autotune && without_weights) {
    throw Error(ErrorCode::kInvalidArgument, "--autotune: no weights are loaded here");
  }
  model_options.progress = [&](const std::string& name, size_t done, size_t total) {
    bar.update(static_cast<double>(done), static_cast<double>(total), "Loading " + name);
  };
  options_.experts.apply(options_.command_, config, model_options);
  if (without_weights) options_.experts.require_none_of_steps(options_.command_);
  if (!options_.experts.load_dump.empty()) load_file_ = std::make_unique<ExpertLoadFile>(options_.experts.load_dump);
  if (before_load) before_load(*device_);
  const auto start = std::chrono::steady_clock::now();
  model_ = model::load_model(path, registry_, *device_, model_options);
  bar.finish();
  load_milliseconds_ = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  if (options_.autotune) autotune_report_ = autotune(*model_, registry_, *device_, options_.autotune_cache);
  generation_config_ = load::GenerationConfig::load(directory());
  end_token_ids_ = load::end_tokens(config, generation_config_);
}

std::filesystem::path Session::directory() const { return load::model_directory(options_.model); }

int32_t Session::page_size() const { return options_.page_size.value_or(device_->capabilities().default_page_size); }

std::unique_ptr<engine::Engine> Session::make_engine(std::optional<text::Tokenizer> tokenizer, int32_t max_running,
                                                     int64_t kv_tokens, int32_t max_context) {
  return engine::Engine::create(*device_, registry_, model_, std::move(tokenizer),
                                engine_options(max_running, kv_tokens, max_context));
}

engine::EngineOptions Session::engine_options(int32_t max_running, int64_t kv_tokens, int32_t max_context,
                                              std::optional<replay::Mode> mode) {
  engine::EngineOptions options;
  options.mode = mode ? *mode : parse_mode(options_.mode);
  options.buckets.sizes = options_.graph_batch_sizes;
  options.buckets.max_size = options_.graph_max_batch_size;
  options.buckets.padding = !options_.disable_graph_padding;
  options.max_running = max_running;
  options.max_prefill_tokens = options_.max_prefill_tokens;
  options.prefill_graph_tokens = options_.prefill_graph_tokens;
  options_.check_mode(options.mode);
  options.max_context = options_.max_context != 0 ? options_.max_context : max_context;
  options.kv_tokens = options_.kv_tokens != 0 ? options_.kv_tokens : kv_tokens;
  options.page_size = page_size();
  options.poison = options_.poison;
  options.end_token_ids = end_token_ids_;
  options.update_order = parse_update_order(options_.update_order);
  options.retrace_every = options_.retrace_every;
  if (!options_.compilation_config.empty()) {
    options.splitting_ops = parse_splitting_ops(options_.compilation_config, registry_);
  }
  if (options_.profile_capture && captures(options.mode)) {
    // Of several modes each has its own.
    options.capture_profile_directory = std::filesystem::path(options_.profile_directory) /
                                        (mode ? name_of(*mode) : std::string_view()) / "graph_capture_profile";
  }
  apply_compile_options(options_.compile, options_.named_options, mode || options_.given("--mode"), options);
  const char* debug_directory = std::getenv("REPRISE_DEBUG_DIR");
  options.debug_directory = !options_.debug_directory.empty() || debug_directory == nullptr
                                ? options_.debug_directory
                                : std::string(debug_directory);
  options.experts.rebalance_every = options_.experts.rebalance_steps;
  options.experts.ranks = options_.experts.ranks;
  if (load_file_ != nullptr) {
    options.experts.on_load = [file = load_file_.get()](const engine::ExpertLoadWindow& window) {
      file->write(window);
    };
  }
  // A new bar for each series, so that one which takes less than a second stays silent.
  options.progress = [this](int done, int total, const std::string& text) {
    if (done == 0 || capture_bar_ == nullptr) capture_bar_ = std::make_unique<ProgressBar>();
    capture_bar_->update(done, total, text);
    if (done < total) return;
    capture_bar_->finish();
    capture_bar_.reset();
  };
  return options;
}

}  // namespace reprise::cli
