#include <fmt/ranges.h>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "api/devices.h"
#include "base/cpu_topology.h"
#include "base/error.h"
#include "base/progress_bar.h"
#include "cli/bench.h"
#include "cli/bench_kernel_cases.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/machine_passes.h"
#include "load/model_shapes.h"

namespace reprise::cli {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<std::string> kKernelNames = {"linear",
                                               "int8_linear",
                                               "grouped_linear",
                                               "int8_grouped_linear",
                                               "moe_experts",
                                               "int8_moe_experts",
                                               "moe_gating_top_k",
                                               "paged_attention",
                                               "rms_norm",
                                               "add_rms_norm",
                                               "add_rms_norm_quantize",
                                               "add_rms_norm_dynamic_quantize",
                                               "embedding_rms_norm",
                                               "quantize",
                                               "dynamic_quantize",
                                               "split_qkv_rms_norm_rope",
                                               "split_qkv_rms_norm_rope_store",
                                               "swiglu",
                                               "swiglu_quantize",
                                               "swiglu_dynamic_quantize"};

struct KernelsOptions {
  std::string model, shape = "qwen3-0.6b", device = "auto";
  int32_t threads = 0;
  int32_t rounds = 7;
  int32_t working_set = 0;  ///< MiB
  std::vector<std::string> kernels = kKernelNames;
  bool are_named = false;  ///< by the user
  bool json = false;
  KernelCaseOptions cases;
};

/// What was measured of one case.
struct Row {
  KernelCase measured;
  double seconds = 0;
  LimitShare of_bandwidth{};  ///< of the machine's in the same rounds, as far as the case reads memory
  LimitShare of_peak{};       ///< of the machine's in the same rounds, as far as the case multiplies

  double bandwidth_share() const { return of_bandwidth.value(); }
  double peak_share() const { return of_peak.value(); }
  bool is_disturbed() const { return of_bandwidth.is_disturbed() || of_peak.is_disturbed(); }
  bool has_limit() const { return measured.bytes > 0 || measured.multiply_adds > 0; }
  bool is_memory_bound() const { return bandwidth_share() >= peak_share(); }
};

load::ModelConfig config_of(const KernelsOptions& options) {
  if (!options.model.empty() && !std::filesystem::exists(options.model)) {
    throw Error(ErrorCode::kNotFound, "there is no model at {}", options.model);
  }
  if (!options.model.empty()) return load::ModelConfig::load(load::model_directory(options.model));
  const std::optional<std::string> text = load::config_of_shape(options.shape);
  if (!text) {
    throw Error(ErrorCode::kInvalidArgument, "--shape '{}' is not known", options.shape)
        .remedy(fmt::format("use one of {}, or -m with a model", fmt::join(load::known_shapes(), ", ")));
  }
  return load::ModelConfig::parse(*text, options.shape);
}

class KernelsBench {
 public:
  explicit KernelsBench(const KernelsOptions& options)
      : options_(options),
        config_(config_of(options)),
        registry_(ops::make_catalogue()),
        device_(api::open_device({options.device, options.threads, false}, registry_)),
        cases_(config_, options_.cases, registry_, *device_),
        machine_(*device_, cases_.stream(), cases_.context(), options_.cases.working_set) {}

  int run() {
    watch_interrupts();
    const auto wanted = [&](const std::string& name) {
      return std::find(options_.kernels.begin(), options_.kernels.end(), name) != options_.kernels.end();
    };
    // Without --kernels the list has those that other models use.
    for (const std::string& name : options_.are_named ? options_.kernels : std::vector<std::string>()) {
      if (cases_.count([&](const std::string& kernel) { return kernel == name; }) == 0) {
        throw Error(ErrorCode::kInvalidArgument, "--kernels: the model does not use {}", name);
      }
    }
    const size_t total = cases_.count(wanted);
    ProgressBar bar;
    cases_.each(wanted, [&](KernelCase&& one) {
      if (interrupted()) throw Error(ErrorCode::kCancelled, "interrupted");
      bar.update(static_cast<double>(rows_.size()), static_cast<double>(total),
                 fmt::format("{} {}, {} rows", one.kernel, one.what, one.rows));
      measure(std::move(one));
    });
    bar.finish();
    write_output(options_.json ? to_json().dump() + "\n" : to_text());
    return 0;
  }

 private:
  /// A call and its end.
  template <typename Function>
  double seconds_until_done(Function&& function) {
    return seconds_of([&] {
      function();
      cases_.stream().synchronize();
    });
  }

  /// In each round the memory, the multipliers and the kernel have their turn.
  void measure(KernelCase&& one) {
    // Long enough for the clock, and not so long that the machine changes meanwhile.
    constexpr double kLeastSeconds = 2e-3;
    const double once = std::min(seconds_until_done(one.call), seconds_until_done(one.call));
    const int calls = std::clamp(static_cast<int>(kLeastSeconds / std::max(once, 1e-7)), 1, 2000);
    const DType dtype = one.product_dtype();
    std::vector<double> seconds, bandwidths, peaks;
    for (int32_t round = 0; round < options_.rounds; ++round) {
      if (one.bytes > 0) {
        bandwidths.push_back(static_cast<double>(machine_.bytes()) / machine_.read());
      }
      if (one.multiply_adds > 0) {
        peaks.push_back(static_cast<double>(machine_.products(dtype)) / machine_.multiply(dtype));
      }
      seconds.push_back(seconds_until_done([&] {
                          for (int i = 0; i < calls; ++i) one.call();
                        }) /
                        calls);
    }
    if (one.bytes > 0) all_bandwidths_.insert(all_bandwidths_.end(), bandwidths.begin(), bandwidths.end());
    std::vector<double>& of_dtype = all_peaks_[std::string(name_of(dtype))];
    of_dtype.insert(of_dtype.end(), peaks.begin(), peaks.end());
    one.call = {};  // its memory goes with it
    const double run = median(seconds);
    // At so much a second.
    const auto share = [run](int64_t amount, const std::vector<double>& rates) {
      const auto seconds_at = [amount](double rate) { return static_cast<double>(amount) / rate; };
      if (amount == 0) return LimitShare();
      return LimitShare(seconds_at(median(rates)), seconds_at(*std::max_element(rates.begin(), rates.end())), run);
    };
    const LimitShare of_bandwidth = share(one.bytes, bandwidths), of_peak = share(one.multiply_adds, peaks);
    rows_.push_back({std::move(one), run, of_bandwidth, of_peak});
  }

  std::string subject() const {
    return fmt::format("shapes of {}; {}", options_.model.empty() ? options_.shape : options_.model,
                       api::describe(*device_));
  }

  std::string to_text() const {
    std::string text =
        fmt::format("kernels, medians of {} rounds; weights, keys and values rotate through {} MiB\n{}\n",
                    options_.rounds, options_.cases.working_set >> 20, subject());
    TextTable table({"kernel", "dtype", "rows", "us", "GB/s", "of bandwidth", "Gmadd/s", "of peak", "limit"});
    for (const Row& row : rows_) {
      const KernelCase& one = row.measured;
      const auto share = [](bool is_there, const LimitShare& value) {
        return is_there ? value.to_text() : std::string("-");
      };
      const auto rate = [&](int64_t amount) {
        return amount > 0 ? fmt::format("{:.1f}", static_cast<double>(amount) / row.seconds / 1e9) : std::string("-");
      };
      table.add({one.kernel + " " + one.what, std::string(name_of(one.dtype)), fmt::format("{}", one.rows),
                 fmt::format("{:.1f}", row.seconds * 1e6), rate(one.bytes), share(one.bytes > 0, row.of_bandwidth),
                 rate(one.multiply_adds), share(one.multiply_adds > 0, row.of_peak),
                 !row.has_limit()        ? "-"
                 : row.is_memory_bound() ? "memory"
                                         : "multiply"});
    }
    const bool disturbed = std::any_of(rows_.begin(), rows_.end(), [](const Row& r) { return r.is_disturbed(); });
    text += table.to_text() + LimitShare::remark(disturbed);
    if (!all_bandwidths_.empty()) text += fmt::format("bandwidth: {:.2f} GB/s", median(all_bandwidths_) / 1e9);
    for (const auto& [dtype, peaks] : all_peaks_) {
      if (!peaks.empty()) text += fmt::format("; {}: {:.1f} Gmadd/s", dtype, median(peaks) / 1e9);
    }
    return text + "\n";
  }

  Json to_json() const {
    Json json{{"bench", "kernels"},
              {"subject", subject()},
              {"rounds", options_.rounds},
              {"working_set_bytes", options_.cases.working_set},
              {"results", Json::array()}};
    if (!all_bandwidths_.empty()) json["bytes_per_second"] = median(all_bandwidths_);
    for (const auto& [dtype, peaks] : all_peaks_) {
      if (!peaks.empty()) json["multiply_adds_per_second"][dtype] = median(peaks);
    }
    for (const Row& row : rows_) {
      const KernelCase& one = row.measured;
      Json result{{"kernel", one.kernel},
                  {"of", one.what},
                  {"dtype", name_of(one.dtype)},
                  {"rows", one.rows},
                  {"seconds", row.seconds}};
      if (one.bytes > 0) {
        result["bytes"] = one.bytes;
        result["share_of_bandwidth"] = row.bandwidth_share();
      }
      if (one.multiply_adds > 0) {
        result["multiply_adds"] = one.multiply_adds;
        result["share_of_peak"] = row.peak_share();
      }
      if (row.has_limit()) {
        result["limit"] = row.is_memory_bound() ? "memory" : "multiply";
        result["share_of_limit"] = std::max(row.bandwidth_share(), row.peak_share());
        result["limit_disturbed"] = row.is_disturbed();
      }
      json["results"].push_back(std::move(result));
    }
    return json;
  }

  const KernelsOptions& options_;
  load::ModelConfig config_;
  ops::Registry registry_;
  std::unique_ptr<device::Device> device_;
  KernelCases cases_;
  MachinePasses machine_;
  std::vector<Row> rows_;
  std::vector<double> all_bandwidths_;
  std::map<std::string, std::vector<double>> all_peaks_;
};

int run_kernels(KernelsOptions& options) {
  require_at_least("--rows", options.cases.rows, 1);
  require_at_least("--context", options.cases.context, 1);
  require_at_least("--rounds", options.rounds, 1);
  require_at_least("--working-set", options.working_set, 0);
  constexpr size_t kUsualCache = size_t{32} << 20;
  options.cases.working_set = options.working_set > 0
                                  ? int64_t{options.working_set} << 20
                                  : static_cast<int64_t>(4 * last_level_cache_bytes().value_or(kUsualCache));
  return KernelsBench(options).run();
}

}  // namespace

void add_bench_kernels(CommandLine& bench) {
  CommandLine& command = bench.command("kernels", "Each kernel of a step against the machine's memory and multipliers");
  const auto options = std::make_shared<KernelsOptions>();
  command.option("-m,--model", options->model, "Hugging Face directory whose shapes to take; its weights are not read");
  command.option("--shape", options->shape,
                 "without a model: " + fmt::format("{}", fmt::join(load::known_shapes(), ", ")));
  command.choices("--kernels", options->kernels, kKernelNames, "which to measure");
  command.option("--rows", options->cases.rows, "rows (tokens) of a call; from 128 on they are those of one prompt");
  command.option("--context", options->cases.context, "tokens that a row of attention reads, below 128 rows");
  command.option("--working-set", options->working_set,
                 "MiB of copies that calls go through in turn; 0: four times the last-level cache");
  command.option("--rounds", options->rounds, "rounds; in each the memory, the multipliers and the kernel have a turn");
  command.flag("--json", options->json, "print one JSON object");
  command.option("--device", options->device, "what is measured: auto, cpu, ascend or ascend:N");
  command.option("--threads", options->threads, "threads; 0: as many as CPU quota and affinity allow");
  command.footer(
      "The limit of a kernel is the memory (weights, keys and values, at the bandwidth that the same threads read "
      "with)\n"
      "or the multipliers (at the rate of the instructions that products of its dtype use, in registers), whichever\n"
      "would take longer; its share is the larger one of the two. Kernels that move nothing but activations have "
      "none.");
  command.on_run([options, &command] {
    if (command.given("--model") && command.given("--shape")) {
      throw Error(ErrorCode::kInvalidArgument, "--shape goes without --model, which has shapes of its own");
    }
    options->are_named = command.given("--kernels");
    return run_kernels(*options);
  });
}

}  // namespace reprise::cli
