#include "cli/sglang_flags.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"

namespace reprise::cli {
namespace {

using Json = nlohmann::ordered_json;
using enum SglangTreatment;

constexpr std::string_view kOneDevice = "a model runs on one device";
constexpr std::string_view kNoSpeculation = "speculative decoding is not built";
constexpr std::string_view kNoDisaggregation = "prefill and decode run in one server";
constexpr std::string_view kNoDeepEp = "experts run on one device";
constexpr std::string_view kNoAdapters = "adapters are not built: merge them into the checkpoint";
constexpr std::string_view kPrefillGraphs = "use --prefill-graph-tokens: sizes of prompt steps that are captured";
constexpr std::string_view kOwnKernels = "each operator has the kernels of the device";
constexpr std::string_view kTokenizerOfModel = "the model's directory holds the tokenizer";

constexpr SglangFlag kFlags[] = {
    // Model and tokenizer.
    {"--model-path", kRenamed, true, "--model"},
    {"--tokenizer-path", kRefused, true, kTokenizerOfModel},
    {"--tokenizer-mode", kAlways, true, "auto"},
    {"--tokenizer-worker-num", kRefused, true, "use --http-threads"},
    {"--skip-tokenizer-init", kRefused, false, "requests may bring input_ids all the same"},
    {"--load-format", kAlways, true, "auto,safetensors"},
    {"--model-loader-extra-config", kRefused, true, "there is one loader"},
    {"--trust-remote-code", kRefused, false, "leave it out: no code of a model is ever run"},
    {"--revision", kRefused, true, "nothing is downloaded: give the directory"},
    {"--download-dir", kRefused, true, "nothing is downloaded: give the directory"},
    {"--context-length", kRenamed, true, "--max-context"},
    {"--is-embedding", kRefused, false, "models generate text"},
    {"--enable-multimodal", kRefused, false, "models read text"},
    {"--json-model-override-args", kRefused, true, "change the checkpoint's config.json"},
    {"--preferred-sampling-params", kRefused, true, "change the model's generation_config.json"},
    {"--chat-template", kSame, true, ""},
    {"--served-model-name", kSame, true, ""},
    {"--sampling-defaults", kSame, true, ""},
    {"--quantization", kSame, true, ""},
    {"--quantization-param-path", kRefused, true, "scales are read from the checkpoint"},
    {"--dtype", kTranslated, true, "--dtype; float is float32"},
    {"--kv-cache-dtype", kRenamed, true, "--kv-dtype"},
    // The listener.
    {"--host", kSame, true, ""},
    {"--port", kSame, true, ""},
    {"--api-key", kSame, true, ""},
    {"--admin-api-key", kRefused, true, "there is one key: --api-key"},
    {"--skip-server-warmup", kAlways, false, ""},
    {"--warmups", kRefused, true, "use --capture-before-ready"},
    {"--nccl-port", kRefused, true, kOneDevice},
    {"--file-storage-path", kRefused, true, "no files are stored"},
    // Memory and scheduling.
    {"--mem-fraction-static", kRefused, true, "use --max-total-tokens: the tokens that the KV cache holds"},
    {"--max-running-requests", kSame, true, ""},
    {"--max-queued-requests", kSame, true, ""},
    {"--max-total-tokens", kRenamed, true, "--kv-tokens"},
    {"--chunked-prefill-size", kTranslated, true, "--max-prefill-tokens; -1 is refused"},
    {"--max-prefill-tokens", kTranslated, true,
     "--max-prefill-tokens; beside --chunked-prefill-size the smaller counts"},
    {"--schedule-policy", kAlways, true, "fcfs"},
    {"--enable-priority-scheduling", kAlways, false, ""},
    {"--schedule-low-priority-values-first", kRefused, false, "the higher priority comes first"},
    {"--schedule-conservativeness", kRefused, true, "requests are preempted and read again when pages run out"},
    {"--page-size", kSame, true, ""},
    {"--cpu-offload-gb", kRefused, true, "weights stay where they are"},
    {"--disable-radix-cache", kSame, false, ""},
    {"--radix-eviction-policy", kAlways, true, "lru"},
    {"--enable-hierarchical-cache", kRefused, false, "the prefix cache lies in the KV cache alone: --max-total-tokens"},
    {"--enable-mixed-chunk", kRefused, false,
     "prompts are read in steps of their own, so that decode steps are replayed"},
    {"--disable-overlap-schedule", kSame, false, ""},
    {"--num-continuous-decode-steps", kAlways, true, "1"},
    {"--allow-auto-truncate", kRefused, false, "prompts that are too long are refused"},
    {"--stream-interval", kAlways, true, "1"},
    {"--stream-output", kSame, false, ""},
    {"--incremental-streaming-output", kRenamed, false, "--stream-output"},
    // Graphs.
    {"--disable-cuda-graph", kTranslated, false, "--mode eager; with --enable-torch-compile: --mode force_eager"},
    {"--disable-cuda-graph-padding", kRenamed, false, "--disable-graph-padding"},
    {"--cuda-graph-bs", kRenamed, true, "--graph-bs"},
    {"--cuda-graph-max-bs", kRenamed, true, "--graph-max-bs"},
    {"--enable-profile-cuda-graph", kRenamed, false, "--profile-capture"},
    {"--enable-cudagraph-gc", kRefused, false, "no garbage is collected"},
    {"--enable-torch-compile", kTranslated, false, "--mode full; with --disable-cuda-graph: --mode force_eager"},
    {"--torch-compile-max-bs", kRefused, true, "every captured size is optimised: use --graph-max-bs, --disable-pass"},
    {"--compilation-config", kTranslated, true,
     "--compilation-config; compiler npugraph and piecewise: --mode full and piecewise; atb._npu_paged_attention: "
     "paged_attention"},
    {"--enable-piecewise-npu-graph-decode", kTranslated, false, "--mode piecewise"},
    {"--enable-piecewise-cuda-graph", kRefused, false, kPrefillGraphs},
    {"--disable-piecewise-cuda-graph", kAlways, false, ""},
    {"--piecewise-cuda-graph-tokens", kRefused, true, kPrefillGraphs},
    {"--piecewise-cuda-graph-max-tokens", kRefused, true, kPrefillGraphs},
    {"--piecewise-cuda-graph-compiler", kRefused, true, kPrefillGraphs},
    {"--enable-torchair", kRefused, false, "use --mode; static graphs are not built"},
    {"--torchao-config", kRefused, true, "use `reprise quantize`"},
    // The device and its kernels.
    {"--device", kSame, true, ""},
    {"--base-gpu-id", kAlways, true, "0"},
    {"--gpu-id-step", kAlways, true, "1"},
    {"--attention-backend", kRefused, true, kOwnKernels},
    {"--decode-attention-backend", kRefused, true, kOwnKernels},
    {"--prefill-attention-backend", kRefused, true, kOwnKernels},
    {"--sampling-backend", kRefused, true, kOwnKernels},
    {"--grammar-backend", kRefused, true, "constrained output is not built"},
    {"--enable-deterministic-inference", kAlways, false, ""},
    {"--enable-nan-detection", kRefused, false, "use --poison: what must not be read is NaN"},
    {"--enable-memory-saver", kRefused, false, "memory is given back by ending the server"},
    {"--random-seed", kSame, true, ""},
    {"--watchdog-timeout", kRefused, true, "use --health-timeout: /health answers 503 then"},
    // Logs and metrics.
    {"--log-level", kSame, true, ""},
    {"--log-level-http", kRefused, true, "use --access-log"},
    {"--log-requests", kRefused, false, "use --access-log; contents of requests are never logged"},
    {"--log-requests-level", kRefused, true, "use --access-log; contents of requests are never logged"},
    {"--crash-dump-folder", kRefused, true, "contents of requests are never written"},
    {"--show-time-cost", kRefused, false, "use /metrics"},
    {"--enable-metrics", kAlways, false, ""},
    {"--enable-cache-report", kAlways, false, ""},
    {"--decode-log-interval", kSame, true, ""},
    {"--tool-call-parser", kAlways, true, "qwen,qwen25,qwen3,hermes"},
    {"--reasoning-parser", kAlways, true, "qwen3,qwen3-thinking"},
    {"--weight-version", kRefused, true, "weights do not change while the server runs"},
    {"--custom-weight-loader", kRefused, true, "there is one loader"},
    {"--enable-custom-logit-processor", kRefused, false, "no code of requests is run; use logit_bias"},
    // Several devices.
    {"--tensor-parallel-size", kAlways, true, "1"},
    {"--tp-size", kAlways, true, "1"},
    {"--tp", kAlways, true, "1"},
    {"--data-parallel-size", kAlways, true, "1"},
    {"--dp-size", kAlways, true, "1"},
    {"--dp", kAlways, true, "1"},
    {"--pipeline-parallel-size", kAlways, true, "1"},
    {"--pp-size", kAlways, true, "1"},
    {"--expert-parallel-size", kAlways, true, "1"},
    {"--ep-size", kAlways, true, "1"},
    {"--ep", kAlways, true, "1"},
    {"--nnodes", kAlways, true, "1"},
    {"--node-rank", kAlways, true, "0"},
    {"--dist-init-addr", kRefused, true, kOneDevice},
    {"--dist-timeout", kRefused, true, kOneDevice},
    {"--load-balance-method", kRefused, true, kOneDevice},
    {"--enable-dp-attention", kRefused, false, kOneDevice},
    {"--enable-dp-lm-head", kRefused, false, kOneDevice},
    {"--enable-p2p-check", kRefused, false, kOneDevice},
    {"--disable-custom-all-reduce", kRefused, false, kOneDevice},
    {"--enable-two-batch-overlap", kRefused, false, kOneDevice},
    // Experts.
    {"--moe-a2a-backend", kAlways, true, "none"},
    {"--moe-runner-backend", kAlways, true, "auto"},
    {"--deepep-mode", kRefused, true, kNoDeepEp},
    {"--deepep-config", kRefused, true, kNoDeepEp},
    {"--fuseep-mode", kRefused, true, kNoDeepEp},
    {"--moe-dense-tp-size", kAlways, true, "1"},
    {"--enable-eplb", kTranslated, false, "--eplb-rebalance-num-iterations 1000, unless that is given"},
    {"--eplb-algorithm", kAlways, true, "auto"},
    {"--eplb-rebalance-num-iterations", kSame, true, ""},
    {"--ep-num-redundant-experts", kSame, true, ""},
    {"--init-expert-location", kSame, true, ""},
    {"--ep-dispatch-algorithm", kSame, true, ""},
    {"--expert-distribution-recorder-mode", kRefused, true, "use --expert-load, --expert-load-dump"},
    {"--enable-expert-distribution-metrics", kRefused, false, "use --expert-load, --expert-load-dump"},
    // Not built.
    {"--speculative-algorithm", kRefused, true, kNoSpeculation},
    {"--speculative-draft-model-path", kRefused, true, kNoSpeculation},
    {"--speculative-num-steps", kRefused, true, kNoSpeculation},
    {"--speculative-eagle-topk", kRefused, true, kNoSpeculation},
    {"--speculative-num-draft-tokens", kRefused, true, kNoSpeculation},
    {"--speculative-accept-threshold-single", kRefused, true, kNoSpeculation},
    {"--speculative-accept-threshold-acc", kRefused, true, kNoSpeculation},
    {"--speculative-attention-mode", kRefused, true, kNoSpeculation},
    {"--speculative-token-map", kRefused, true, kNoSpeculation},
    {"--disaggregation-mode", kAlways, true, "null"},
    {"--disaggregation-transfer-backend", kRefused, true, kNoDisaggregation},
    {"--disaggregation-bootstrap-port", kRefused, true, kNoDisaggregation},
    {"--disaggregation-decode-tp", kRefused, true, kNoDisaggregation},
    {"--disaggregation-decode-dp", kRefused, true, kNoDisaggregation},
    {"--disaggregation-ib-device", kRefused, true, kNoDisaggregation},
    {"--num-reserved-decode-tokens", kRefused, true, kNoDisaggregation},
    {"--enable-lora", kRefused, false, kNoAdapters},
    {"--lora-paths", kRefused, true, kNoAdapters},
    {"--max-loras-per-batch", kRefused, true, kNoAdapters},
};

std::string place_of(const Argument& argument) {
  return argument.place.empty() ? argument.name : fmt::format("{}: {}", argument.place, argument.name);
}

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> all;
  for (size_t begin = 0; begin <= text.size() && !text.empty();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    all.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return all;
}

/// The one value of a flag that takes one.
const std::string& value_of(const Argument& argument) {
  if (argument.values.size() != 1) {
    throw Error(ErrorCode::kInvalidArgument, "{} needs one value, not {}", place_of(argument), argument.values.size());
  }
  return argument.values[0];
}

/// Translates the flags that do not stand for themselves alone.
class Translation {
 public:
  std::vector<Argument> run(const std::vector<Argument>& arguments) {
    for (const Argument& argument : arguments) take(argument);
    add_mode();
    add_prefill();
    return std::move(result_);
  }

 private:
  void take(const Argument& argument) {
    const SglangFlag* flag = find_sglang_flag(argument.name);
    if (argument.name == "--mode") mode_ = argument;
    if (flag == nullptr || flag->treatment == kSame) {
      result_.push_back(argument);
      return;
    }
    if (!flag->takes_value && !argument.values.empty()) {
      throw Error(ErrorCode::kInvalidArgument, "{} takes no value, '{}' was given", place_of(argument),
                  fmt::join(argument.values, " "));
    }
    switch (flag->treatment) {
      case kRenamed:
        result_.push_back(argument);
        result_.back().name = flag->target;
        break;
      case kAlways:
        check_always(argument, *flag);
        break;
      case kRefused:
        throw Error(ErrorCode::kUnsupported, "{} of SGLang has no meaning here", place_of(argument))
            .remedy(std::string(flag->target));
      default:
        translate(argument);
    }
  }

  static void check_always(const Argument& argument, const SglangFlag& flag) {
    if (!flag.takes_value) return;
    const std::vector<std::string> allowed = words(flag.target);
    if (std::ranges::find(allowed, value_of(argument)) != allowed.end()) return;
    throw Error(ErrorCode::kUnsupported, "{} {} is not built", place_of(argument), value_of(argument))
        .remedy(fmt::format("there is {}", fmt::join(allowed, ", ")));
  }

  void translate(const Argument& argument) {
    const std::string& name = argument.name;
    if (name == "--disable-cuda-graph") {
      uncaptured_ = argument;
    } else if (name == "--enable-torch-compile") {
      compiled_ = argument;
    } else if (name == "--enable-piecewise-npu-graph-decode") {
      piecewise_ = argument;
    } else if (name == "--compilation-config") {
      translate_compilation_config(argument);
    } else if (name == "--dtype") {
      result_.push_back(argument);
      if (argument.values == std::vector<std::string>{"float"}) result_.back().values = {"float32"};
    } else if (name == "--enable-eplb") {
      result_.push_back({"--eplb-rebalance-num-iterations", {"1000"}, argument.place, true});
    } else if (name == "--chunked-prefill-size" || name == "--max-prefill-tokens") {
      limit_prefill(argument);
    } else {
      throw Error(ErrorCode::kInternal, "{} is not translated", name);
    }
  }

  void limit_prefill(const Argument& argument) {
    const std::string& text = value_of(argument);
    int64_t tokens = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), tokens);
    if (fault != std::errc() || end != text.data() + text.size()) {
      throw Error(ErrorCode::kInvalidArgument, "{} is '{}', must be an integer", place_of(argument), text);
    }
    if (argument.name == "--chunked-prefill-size" && tokens < 1) {
      throw Error(ErrorCode::kUnsupported, "{} {}: prompts are always read in chunks", place_of(argument), text)
          .remedy("give the size of the largest");
    }
    if (prefill_ && prefill_->second <= tokens) return;
    Argument limit = argument;
    limit.name = "--max-prefill-tokens";
    prefill_ = {std::move(limit), tokens};
  }

  /// Reprise has {"splitting_ops": [...]} alone, of its own operators' names.
  void translate_compilation_config(const Argument& argument) {
    const std::string& text = value_of(argument);
    Json config = Json::parse(text, nullptr, false);
    if (config.is_null()) return;
    if (!config.is_object()) {
      throw Error(ErrorCode::kInvalidArgument, "{} is '{}', expected a JSON object", place_of(argument), text);
    }
    if (const auto compiler = config.find("compiler"); compiler != config.end()) {
      if (*compiler == "piecewise") {
        piecewise_ = argument;
      } else if (*compiler == "npugraph") {
        compiled_ = argument;
      } else {
        throw Error(ErrorCode::kUnsupported, "{}: there is no compiler {}", place_of(argument), compiler->dump())
            .remedy("there are \"npugraph\" and \"piecewise\"");
      }
      config.erase(compiler);
    }
    if (const auto names = config.find("splitting_ops"); names != config.end() && names->is_array()) {
      for (Json& name : *names) {
        if (name == "atb._npu_paged_attention") name = "paged_attention";
      }
    }
    if (config.empty()) return;
    result_.push_back(argument);
    result_.back().values = {config.dump()};
  }

  void add_mode() {
    if (piecewise_ && uncaptured_) {
      throw Error(ErrorCode::kInvalidArgument, "{} and {} contradict each other", place_of(*piecewise_),
                  place_of(*uncaptured_));
    }
    const std::optional<Argument>& source = piecewise_ ? piecewise_ : uncaptured_ ? uncaptured_ : compiled_;
    if (!source) return;
    const char* mode = piecewise_ ? "piecewise" : !uncaptured_ ? "full" : compiled_ ? "force_eager" : "eager";
    if (mode_) {
      if (mode_->values == std::vector<std::string>{mode}) return;
      throw Error(ErrorCode::kInvalidArgument, "{} stands for --mode {}, and --mode {} is given as well",
                  place_of(*source), mode, fmt::join(mode_->values, " "));
    }
    result_.push_back({"--mode", {mode}, source->place});
  }

  void add_prefill() {
    if (prefill_) result_.push_back(prefill_->first);
  }

  std::vector<Argument> result_;
  std::optional<Argument> mode_, uncaptured_, compiled_, piecewise_;
  std::optional<std::pair<Argument, int64_t>> prefill_;
};

}  // namespace

std::span<const SglangFlag> sglang_flags() { return kFlags; }

const SglangFlag* find_sglang_flag(std::string_view name) {
  const auto* const found = std::ranges::find(kFlags, name, &SglangFlag::name);
  return found == std::end(kFlags) ? nullptr : found;
}

std::vector<Argument> translate_sglang_flags(const std::vector<Argument>& arguments) {
  return Translation().run(arguments);
}

}  // namespace reprise::cli
