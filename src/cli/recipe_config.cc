#include "cli/recipe_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "base/mapped_file.h"
#include "cli/yaml_section.h"
#include "compile/option_names.h"

namespace reprise::cli {
namespace {

constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

/// Reads one file. Whatever is not built is remembered and reported last, so that a file which breaks the recipes' own
/// rules hears of that first.
class RecipeReader {
 public:
  explicit RecipeReader(const std::string& name) : name_(name) { config_.name = name; }

  RecipeConfig read(const YamlNode& document) {
    YamlSection file(name_, "", document);
    YamlSection data = file.section("data_config");
    YamlSection model = file.section("model_config");
    YamlSection parallel = file.section("parallel_config");
    YamlSection scheduler = file.section("scheduler_config");
    YamlSection disaggregation = file.section("disagg_config");
    YamlSection options = file.section("compile_options");
    read_data(data);
    read_model(model);
    read_parallel(parallel, file);
    read_scheduler(scheduler);
    read_disaggregation(disaggregation);
    read_options(options);
    file.text("model_name", "");  // repeats that of model_config
    file.finish();
    if (unbuilt_) throw std::move(*unbuilt_);
    return std::move(config_);
  }

 private:
  /// The key asks for what is not built.
  void refuse(const YamlSection& section, const char* key, std::string_view what, std::string remedy) {
    if (unbuilt_) return;
    unbuilt_ = section.error(ErrorCode::kUnsupported, key, what).remedy(std::move(remedy));
  }

  /// A bool of which only one value is built.
  void only(YamlSection& section, const char* key, bool built, const char* what = "which is not built") {
    if (section.flag(key, built) != built) refuse(section, key, what, fmt::format("leave it {}", built));
  }

  /// Whether a key is there; if so, its effect is up to the command.
  void give(YamlSection& section, const char* path, const char* key) {
    if (section.has(key)) config_.given.insert(fmt::format("{}.{}", path, key));
  }

  void read_data(YamlSection& section) {
    if (section.choice("dataset", {"default", "LongBench", "InfiniteBench"}) != "default") {
      refuse(section, "dataset", "which is not built", "use default, with dataset_path or --prompts");
    }
    config_.dataset_path = section.text("dataset_path", "");
    config_.input_truncated_len = static_cast<int32_t>(section.integer("input_truncated_len", 256, 1, kMost));
    config_.temperature = section.number("temperature", 0, 0, std::numeric_limits<double>::infinity());
    config_.top_p = section.number("top_p", 1, 0, 1);
    config_.top_k = static_cast<int32_t>(section.integer("top_k", 0, 0, kMost));
    config_.seed = section.optional_unsigned("seed");
    for (const char* key : {"dataset_path", "input_truncated_len", "temperature", "top_p", "top_k", "seed"}) {
      give(section, "data_config", key);
    }
    section.finish();
  }

  void read_model(YamlSection& section) {
    section.text("model_name", "model");
    config_.model_path = section.text("model_path", "");
    config_.output_path = section.text("output_path", "");
    give(section, "model_config", "output_path");
    config_.dtype = section.choice("dtype", {"bfloat16", "float32", "float16"});
    if (config_.dtype == "float16") refuse(section, "dtype", "which is not built", "use bfloat16 or float32");
    only(section, "with_ckpt", true, "and random weights in its place are not built");
    if (section.integer("next_n", 0, 0, kMost) != 0) {
      refuse(section, "next_n", "and speculative steps are not built", "leave it 0");
    }
    if (section.choice("platform_version", {"auto", "A2", "A3", "950"}) != "auto") {
      refuse(section, "platform_version", "and devices of Ascend are not built", "use auto");
    }
    read_exe_mode(section);
    config_.enable_dynamic_graph = section.flag("enable_dynamic_graph", true);
    give(section, "model_config", "enable_dynamic_graph");
    only(section, "force_eplb", false);
    only(section, "enable_profiler", false);
    only(section, "enable_weight_nz", true, "but weights are always packed for the device");
    only(section, "enable_hadamard", false);
    if (!section.text("hadamard_weight_path", "").empty()) {
      refuse(section, "hadamard_weight_path", "and the Hadamard transform is not built", "leave it empty");
    }
    YamlSection custom = section.section("custom_params");
    read_custom(custom);
    section.finish();
  }

  void read_exe_mode(YamlSection& section) {
    exe_mode_ = section.choice("exe_mode", {"eager", "ge_graph", "npugraph_ex"});
    config_.mode = exe_mode_ == "eager" ? "eager" : "full";
    if (section.flag("enable_static_kernel", false)) {
      if (exe_mode_ != "npugraph_ex") {
        throw section
            .error(ErrorCode::kInvalidArgument, "enable_static_kernel",
                   fmt::format("which needs exe_mode npugraph_ex, not {}", exe_mode_))
            .remedy("set it to false");
      }
      refuse(section, "enable_static_kernel", "and static kernels are not built", "leave it false");
    }
    if (section.flag("enable_cache_compile", false)) {
      not_eager(section, "enable_cache_compile");
      refuse(section, "enable_cache_compile", "and a cache of compiled code is not built", "leave it false");
    }
    if (exe_mode_ == "ge_graph") refuse(section, "exe_mode", "and static graphs are not built", "use npugraph_ex");
  }

  void not_eager(YamlSection& section, const char* key) const {
    if (exe_mode_ != "eager") return;
    throw section.error(ErrorCode::kInvalidArgument, key, "which needs a graph, but exe_mode is eager")
        .remedy("set exe_mode to npugraph_ex, or this to false");
  }

  void read_custom(YamlSection& section) {
    const bool streams = section.flag("enable_multi_streams", false);
    const auto contradicts = [&](const char* key, const char* what, const char* remedy) {
      throw section.error(ErrorCode::kInvalidArgument, key, what).remedy(remedy);
    };
    if (section.flag("enable_superkernel", false)) not_eager(section, "enable_superkernel");
    if (streams) not_eager(section, "enable_multi_streams");
    for (const char* key : {"enable_limit_core", "enable_prefetch"}) {
      if (section.flag(key, false) && !streams) contradicts(key, "which needs enable_multi_streams", "set that too");
    }
    if (section.flag("enable_limit_core", false) && section.flag("enable_pypto", false)) {
      contradicts("enable_limit_core", "which enable_pypto excludes", "set one of the two to false");
    }
    for (const char* key : {"enable_multi_streams", "enable_superkernel", "enable_prefetch", "enable_mla_prolog",
                            "enable_offload", "enable_afd", "enable_pypto", "enable_limit_core",
                            "enable_mm_all_reduce_base", "enable_sp", "enable_moe_stream_overlap", "enable_mega_moe",
                            "enable_o_proj_alltoall", "enable_gdn_solve_triangular", "enable_online_split_weight"}) {
      only(section, key, false);
    }
    if (section.integer("micro_batch_mode", 0, 0, 2) != 0) {
      refuse(section, "micro_batch_mode", "which is not built", "leave it 0");
    }
    section.integer("moe_chunk_max_len", 65536, 1, kMost);
    give(section, "model_config.custom_params", "moe_chunk_max_len");
    if (section.integer("ngram_embed_tp_size", 1, 1, kMost) != 1) {
      refuse(section, "ngram_embed_tp_size", "and more than one device is not built", "leave it 1");
    }
    for (const char* key : {"kernel_config", "num_hidden_layers"}) {
      if (section.has(key)) refuse(section, key, "which is not built", "leave it out");
    }
    section.finish();
  }

  void read_parallel(YamlSection& section, YamlSection& file) {
    const int64_t world = section.integer("world_size", 1, 1, kMost);
    if (file.integer("world_size", world, 1, kMost) != world) {
      throw file.error(ErrorCode::kInvalidArgument, "world_size",
                       fmt::format("but parallel_config.world_size is {}", world));
    }
    constexpr std::array kSizes = {"attn_tp_size",   "offline_prefill_dp_group_size",
                                   "moe_tp_size",    "embed_tp_size",
                                   "lmhead_tp_size", "dense_tp_size",
                                   "shared_tp_size", "o_proj_tp_size",
                                   "cp_size"};
    for (const char* key : kSizes) {
      if (world % section.integer(key, 1, 1, kMost) == 0) continue;
      throw section.error(ErrorCode::kInvalidArgument, key, fmt::format("which does not divide world_size {}", world))
          .remedy("use a divisor");
    }
    const int64_t context = section.integer("cp_size", 1, 1, kMost);
    if (context > 1 && context != world) {
      throw section.error(ErrorCode::kInvalidArgument, "cp_size", fmt::format("must be 1 or world_size {}", world));
    }
    if (context > 1 && section.integer("attn_tp_size", 1, 1, kMost) != 1) {
      throw section.error(ErrorCode::kInvalidArgument, "cp_size", "which needs attn_tp_size 1")
          .remedy("set one of the two to 1");
    }
    if (world != 1) {
      refuse(section, "world_size", "and more than one device is not built", "set it to 1");
    }
    section.finish();
  }

  void read_scheduler(YamlSection& section) {
    config_.batch_size = static_cast<int32_t>(section.integer("batch_size", 1, 1, kMost));
    config_.max_new_tokens = static_cast<int32_t>(section.integer("max_new_tokens", 32, 1, kMost));
    const int64_t prefill = section.integer("max_prefill_tokens", 0, 0, kMost);
    const int64_t whole = std::min(int64_t{config_.input_truncated_len} * config_.batch_size, kMost);
    config_.max_prefill_tokens = static_cast<int32_t>(prefill != 0 ? prefill : whole);
    config_.block_size = static_cast<int32_t>(section.integer("block_size", 128, 1, kMost));
    section.number("mem_fraction_static", 0.85, 0, 1, false);
    section.integer("num_reserved_decode_tokens", 64, 0, kMost);
    if (section.integer("cp_mini_batch", -1, -1, kMost) != -1) {
      refuse(section, "cp_mini_batch", "and context parallelism is not built", "leave it -1");
    }
    for (const char* key : {"batch_size", "max_new_tokens", "mem_fraction_static", "num_reserved_decode_tokens"}) {
      give(section, "scheduler_config", key);
    }
    section.finish();
  }

  void read_disaggregation(YamlSection& section) {
    if (section.choice("disaggregation_mode", {"NONE", "PREFILL", "DECODE"}) != "NONE") {
      refuse(section, "disaggregation_mode", "which is not built", "use NONE");
    }
    section.text("bootstrap_host", "");
    section.integer("bootstrap_port", 18800, 0, 65535);
    section.choice("engine_backend", {"memfabric", "mooncake"});
    section.text("store_url", "");
    section.flag("is_store_creator_node", false);
    section.text("local_ip", "");
    for (const char* key :
         {"bootstrap_host", "bootstrap_port", "engine_backend", "store_url", "is_store_creator_node", "local_ip"}) {
      give(section, "disagg_config", key);
    }
    section.finish();
  }

  void read_options(const YamlSection& section) {
    if (exe_mode_ != "eager") {
      config_.compile.frozen_parameter = true;  // as the recipes do
      config_.named_options.insert("frozen_parameter");
    }
    for (const YamlEntry& entry : section.entries()) {
      try {
        compile::set_option(config_.compile, entry.key, option_value(entry));
      } catch (Error& error) {
        if (error.code() == ErrorCode::kUnsupported && unbuilt_) continue;
        error.add_context(fmt::format("{}, line {}: compile_options", name_, entry.line));
        if (error.code() != ErrorCode::kUnsupported) throw;
        unbuilt_ = error;
      }
      config_.named_options.insert(entry.key);
    }
    if (config_.compile.force_eager && config_.mode == "eager") {
      throw section.error(ErrorCode::kInvalidArgument, "force_eager", "but exe_mode is eager, which compiles nothing")
          .remedy("set exe_mode to npugraph_ex, or this to false");
    }
  }

  /// A plain true or false is a bool, plain digits are an integer, the rest is text.
  static compile::OptionValue option_value(const YamlEntry& entry) {
    const YamlNode& node = entry.value;
    if (node.kind == YamlNode::Kind::kList) {
      std::vector<int64_t> list;
      for (const YamlNode& item : node.items) {
        const std::optional<int64_t> number = item.plain ? integer(item.text) : std::nullopt;
        if (!number)
          throw Error(ErrorCode::kInvalidArgument, "{} holds {}, must hold integers", entry.key, item.describe());
        list.push_back(*number);
      }
      return list;
    }
    if (node.kind != YamlNode::Kind::kScalar) {
      // The option's own rule is better known to set_option(), which sees a text that no option takes.
      return std::string(node.kind == YamlNode::Kind::kNull ? "null" : "a map");
    }
    if (!node.plain) return node.text;
    if (node.text == "true" || node.text == "True" || node.text == "TRUE") return true;
    if (node.text == "false" || node.text == "False" || node.text == "FALSE") return false;
    if (const std::optional<int64_t> number = integer(node.text)) return *number;
    return node.text;
  }

  static std::optional<int64_t> integer(const std::string& text) {
    int64_t value = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
  }

  const std::string& name_;
  RecipeConfig config_;
  std::string exe_mode_;
  std::optional<Error> unbuilt_;
};

}  // namespace

RecipeConfig parse_recipe(const std::string& text, const std::string& name) {
  return RecipeReader(name).read(parse_yaml(text, name));
}

RecipeConfig read_recipe(const std::string& path) { return parse_recipe(read_file(path, size_t{1} << 20), path); }

}  // namespace reprise::cli
