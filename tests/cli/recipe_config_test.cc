#include "cli/recipe_config.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"

namespace reprise::cli {
namespace {

std::string refusal(const std::string& text, ErrorCode code = ErrorCode::kInvalidArgument) {
  try {
    parse_recipe(text, "a.yaml");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "accepted";
}

/// One key of one section.
std::string entry(const std::string& section, const std::string& text) { return section + ":\n  " + text + "\n"; }

std::string model(const std::string& text) { return entry("model_config", text); }

/// What stands in front of the message about a key in the second line.
std::string place(const std::string& key) { return "a.yaml, line 2: " + key + " is "; }

}  // namespace

TEST(RecipeConfig, AnEmptyFileHasTheRecipesDefaults) {
  for (const char* text : {"", "data_config:\nmodel_config: {}\n"}) {
    const RecipeConfig config = parse_recipe(text, "a.yaml");
    EXPECT_EQ(config.mode, "eager");
    EXPECT_EQ(config.dtype, "bfloat16");
    EXPECT_EQ(config.temperature, 0);
    EXPECT_EQ(config.top_p, 1);
    EXPECT_EQ(config.top_k, 0);
    EXPECT_FALSE(config.seed);
    EXPECT_EQ(config.input_truncated_len, 256);
    EXPECT_EQ(config.batch_size, 1);
    EXPECT_EQ(config.max_new_tokens, 32);
    EXPECT_EQ(config.max_prefill_tokens, 256);
    EXPECT_EQ(config.block_size, 128);
    EXPECT_TRUE(config.enable_dynamic_graph);
    EXPECT_FALSE(config.compile.frozen_parameter);
    EXPECT_TRUE(config.given.empty());
    EXPECT_TRUE(config.named_options.empty());
  }
}

TEST(RecipeConfig, EveryKeyIsRead) {
  const RecipeConfig config = parse_recipe(
      "model_name: \"x\"\nworld_size: 1\n"
      "data_config: {dataset: default, dataset_path: prompts, input_truncated_len: 100, temperature: 0.5, top_p: 0.9,\n"
      "  top_k: 20, seed: 18446744073709551615}\n"
      "model_config: {model_name: x, model_path: 'm p', output_path: out, dtype: float32, exe_mode: npugraph_ex,\n"
      "  with_ckpt: True, next_n: 0, platform_version: auto, enable_cache_compile: FALSE, enable_static_kernel: "
      "false,\n"
      "  enable_dynamic_graph: False, custom_params: {enable_multi_streams: False, micro_batch_mode: 0}}\n"
      "parallel_config: {world_size: 1, attn_tp_size: 1, cp_size: 1}\n"
      "scheduler_config: {batch_size: 7, max_new_tokens: 9, block_size: 16, mem_fraction_static: 0.5}\n"
      "disagg_config: {disaggregation_mode: NONE}\n"
      "compile_options: {inplace_pass: false, capture_limit: 5, capture_error_mode: relaxed}\n",
      "a.yaml");
  EXPECT_EQ(config.dataset_path, "prompts");
  EXPECT_EQ(config.input_truncated_len, 100);
  EXPECT_EQ(config.temperature, 0.5);
  EXPECT_EQ(config.top_p, 0.9);
  EXPECT_EQ(config.top_k, 20);
  EXPECT_EQ(config.seed, UINT64_MAX);
  EXPECT_EQ(config.model_path, "m p");
  EXPECT_EQ(config.output_path, "out");
  EXPECT_EQ(config.dtype, "float32");
  EXPECT_EQ(config.mode, "full");
  EXPECT_FALSE(config.enable_dynamic_graph);
  EXPECT_EQ(config.batch_size, 7);
  EXPECT_EQ(config.max_new_tokens, 9);
  EXPECT_EQ(config.max_prefill_tokens, 700) << "the prompts of a batch";
  EXPECT_EQ(config.block_size, 16);
  EXPECT_FALSE(config.compile.passes.inplace_pass);
  EXPECT_EQ(config.compile.capture_limit, 5);
  EXPECT_EQ(config.compile.capture_error_mode, device::CaptureMode::kRelaxed);
  EXPECT_TRUE(config.compile.frozen_parameter) << "as the recipes set it for npugraph_ex";
  EXPECT_EQ(config.named_options,
            (std::set<std::string>{"frozen_parameter", "inplace_pass", "capture_limit", "capture_error_mode"}));
  EXPECT_EQ(config.given, (std::set<std::string>{
                              "data_config.dataset_path", "data_config.input_truncated_len", "data_config.temperature",
                              "data_config.top_p", "data_config.top_k", "data_config.seed", "model_config.output_path",
                              "model_config.enable_dynamic_graph", "scheduler_config.batch_size",
                              "scheduler_config.max_new_tokens", "scheduler_config.mem_fraction_static"}));
}

TEST(RecipeConfig, TheSampleIsOne) {
  const RecipeConfig config = read_recipe(std::string(REPRISE_SOURCE_DIR) + "/models/mini/recipe.yaml");
  EXPECT_EQ(config.mode, "full");
  EXPECT_EQ(config.model_path, "models/mini");
  EXPECT_EQ(config.compile.capture_limit, 8);
}

TEST(RecipeConfig, PrefillTokensAreBoundedAndTheFilesOwnWin) {
  EXPECT_EQ(parse_recipe("data_config: {input_truncated_len: 2000000000}\nscheduler_config: {batch_size: 100}", "a")
                .max_prefill_tokens,
            INT32_MAX);
  EXPECT_EQ(parse_recipe("scheduler_config: {batch_size: 100, max_prefill_tokens: 64}", "a").max_prefill_tokens, 64);
}

TEST(RecipeConfig, TypesAreStrict) {
  EXPECT_EQ(refusal(model("with_ckpt: 1")), place("model_config.with_ckpt") + "1, must be true or false");
  EXPECT_EQ(refusal(model("with_ckpt: yes")), place("model_config.with_ckpt") + "yes, must be true or false");
  EXPECT_EQ(refusal(model("enable_profiler: 'False'")),
            place("model_config.enable_profiler") + "'False' (a text), must be true or false");
  EXPECT_EQ(refusal(model("with_ckpt: [true]")), place("model_config.with_ckpt") + "a list, must be true or false");
  EXPECT_EQ(refusal(model("with_ckpt:")), place("model_config.with_ckpt") + "empty, must be true or false");
  EXPECT_EQ(refusal(model("model_path: {a: b}")), place("model_config.model_path") + "a map, must be a text");
  EXPECT_EQ(refusal("model_config: 3\n"), "a.yaml, line 1: model_config is 3, must be a map");
  EXPECT_EQ(refusal("- a\n"), "a.yaml, line 1: the file is a list, must be a map");
  EXPECT_EQ(refusal("text"), "a.yaml, line 1: the file is text, must be a map");
  for (const char* value : {"1.5", "0x10", "010", "+1", "1e3", "true", "2147483648", "0", "-1"}) {
    EXPECT_EQ(refusal(entry("scheduler_config", fmt::format("batch_size: {}", value))),
              place("scheduler_config.batch_size") + value + ", must be an integer in [1, 2147483647]");
  }
  EXPECT_EQ(refusal(entry("scheduler_config", "batch_size: '8'")),
            place("scheduler_config.batch_size") + "'8' (a text), must be an integer in [1, 2147483647]");
}

TEST(RecipeConfig, RangesAreThoseOfTheRecipes) {
  const auto data = [](const std::string& key, const std::string& value) {
    return refusal(entry("data_config", key + ": " + value));
  };
  for (const char* value : {"-0.1", "nan", "inf", ".nan", "hot"}) {
    EXPECT_EQ(data("temperature", value),
              place("data_config.temperature") + value + ", must be a number of at least 0");
  }
  EXPECT_EQ(data("top_p", "1.1"), place("data_config.top_p") + "1.1, must be a number in [0, 1]");
  EXPECT_EQ(data("top_p", "0"), "accepted");
  EXPECT_EQ(data("top_k", "-1"), place("data_config.top_k") + "-1, must be an integer in [0, 2147483647]");
  EXPECT_EQ(data("seed", "-1"),
            place("data_config.seed") + "-1, must be an integer in [0, 18446744073709551615], or null");
  EXPECT_EQ(data("seed", "null"), "accepted");
  EXPECT_EQ(refusal(entry("scheduler_config", "mem_fraction_static: 0")),
            place("scheduler_config.mem_fraction_static") + "0, must be a number in (0, 1]");
  EXPECT_EQ(refusal(model("exe_mode: graph")),
            place("model_config.exe_mode") + "graph, must be one of eager, ge_graph, npugraph_ex");
  EXPECT_EQ(refusal(model("platform_version: A5")),
            place("model_config.platform_version") + "A5, must be one of auto, A2, A3, 950");
  EXPECT_EQ(refusal(model("custom_params: {micro_batch_mode: 3}")),
            place("model_config.custom_params.micro_batch_mode") + "3, must be an integer in [0, 2]");
}

TEST(RecipeConfig, UnknownKeysAreAnsweredWithTheNearest) {
  EXPECT_EQ(refusal(model("exe_mod: eager")),
            "a.yaml, line 2: there is no key 'exe_mod' in model_config (did you mean 'exe_mode'?)");
  EXPECT_EQ(refusal("modle_config: {}\n"),
            "a.yaml, line 1: there is no key 'modle_config' in the file (did you mean 'model_config'?)");
  EXPECT_EQ(refusal(model("custom_params: {enable_multi_stream: True}")),
            "a.yaml, line 2: there is no key 'enable_multi_stream' in model_config.custom_params (did you mean "
            "'enable_multi_streams'?)");
  EXPECT_EQ(refusal(entry("data_config", "xyzzy: 1")),
            "a.yaml, line 2: there is no key 'xyzzy' in data_config (known are dataset, dataset_path, "
            "input_truncated_len, temperature, top_p, top_k, seed)");
  EXPECT_EQ(refusal("parallel_config: {<<: {world_size: 1}}\n").find("a.yaml, line 1: there is no key '<<'"), 0U);
}

TEST(RecipeConfig, WhatIsNotBuiltIsRefusedByNameUnlessOff) {
  const auto unbuilt = [](const std::string& text) { return refusal(text, ErrorCode::kUnsupported); };
  EXPECT_EQ(unbuilt(model("exe_mode: ge_graph")),
            place("model_config.exe_mode") + "ge_graph, and static graphs are not built (use npugraph_ex)");
  EXPECT_EQ(unbuilt(model("{exe_mode: npugraph_ex, enable_static_kernel: True}")),
            place("model_config.enable_static_kernel") + "True, and static kernels are not built (leave it false)");
  EXPECT_EQ(
      unbuilt(model("{exe_mode: npugraph_ex, enable_cache_compile: True}")),
      place("model_config.enable_cache_compile") + "True, and a cache of compiled code is not built (leave it false)");
  EXPECT_EQ(unbuilt(entry("parallel_config", "world_size: 8")),
            place("parallel_config.world_size") + "8, and more than one device is not built (set it to 1)");
  for (const char* key : {"enable_mla_prolog", "enable_offload", "enable_afd", "enable_pypto", "enable_sp",
                          "enable_mm_all_reduce_base", "enable_moe_stream_overlap", "enable_mega_moe",
                          "enable_o_proj_alltoall", "enable_gdn_solve_triangular", "enable_online_split_weight"}) {
    EXPECT_EQ(unbuilt(model(fmt::format("custom_params: {{{}: True}}", key))),
              place(fmt::format("model_config.custom_params.{}", key)) + "True, which is not built (leave it false)");
    EXPECT_EQ(refusal(model(fmt::format("custom_params: {{{}: False}}", key))), "accepted");
  }
  for (const char* text :
       {"next_n: 1", "with_ckpt: false", "dtype: float16", "platform_version: A3", "force_eplb: true",
        "platform_version: 950", "enable_profiler: true", "enable_weight_nz: false", "enable_hadamard: true",
        "hadamard_weight_path: x", "custom_params: {micro_batch_mode: 1}", "custom_params: {num_hidden_layers: 2}",
        "custom_params: {kernel_config: {}}", "custom_params: {ngram_embed_tp_size: 2}"}) {
    EXPECT_EQ(unbuilt(model(text)).find("a.yaml, line 2: model_config."), 0U) << text << ": " << unbuilt(model(text));
  }
  for (const char* text : {"data_config: {dataset: LongBench}", "disagg_config: {disaggregation_mode: PREFILL}",
                           "scheduler_config: {cp_mini_batch: 4}", "compile_options: {static_kernel_compile: true}"}) {
    EXPECT_EQ(unbuilt(text).find("a.yaml, line 1: "), 0U) << text;
  }
}

TEST(RecipeConfig, TheRecipesOwnRulesComeBeforeWhatIsNotBuilt) {
  EXPECT_EQ(refusal(model("{exe_mode: ge_graph, enable_static_kernel: True}")),
            place("model_config.enable_static_kernel") +
                "True, which needs exe_mode npugraph_ex, not ge_graph (set it to false)");
  EXPECT_EQ(refusal(model("enable_cache_compile: True")),
            place("model_config.enable_cache_compile") +
                "True, which needs a graph, but exe_mode is eager (set exe_mode to npugraph_ex, or this to false)");
  EXPECT_EQ(refusal(entry("parallel_config", "{world_size: 8, attn_tp_size: 3}")),
            place("parallel_config.attn_tp_size") + "3, which does not divide world_size 8 (use a divisor)");
  EXPECT_EQ(refusal(entry("parallel_config", "{world_size: 8, cp_size: 4}")),
            place("parallel_config.cp_size") + "4, must be 1 or world_size 8");
  EXPECT_EQ(refusal(entry("parallel_config", "{world_size: 8, cp_size: 8, attn_tp_size: 2}")),
            place("parallel_config.cp_size") + "8, which needs attn_tp_size 1 (set one of the two to 1)");
  EXPECT_EQ(refusal("world_size: 2\nparallel_config: {world_size: 4}\n"),
            "a.yaml, line 1: world_size is 2, but parallel_config.world_size is 4");
  const auto custom = [](const std::string& text) {
    return refusal(model("{exe_mode: npugraph_ex, custom_params: {" + text + "}}"));
  };
  EXPECT_NE(custom("enable_limit_core: True").find("which needs enable_multi_streams"), std::string::npos);
  EXPECT_NE(custom("enable_prefetch: True").find("which needs enable_multi_streams"), std::string::npos);
  EXPECT_NE(custom("enable_multi_streams: True, enable_limit_core: True, enable_pypto: True").find("excludes"),
            std::string::npos);
  for (const char* key : {"enable_superkernel", "enable_multi_streams"}) {
    EXPECT_NE(refusal(model(fmt::format("custom_params: {{{}: True}}", key))).find("needs a graph"), std::string::npos);
  }
  // A fault anywhere, in front of what is not built in front of it.
  EXPECT_EQ(refusal("parallel_config: {world_size: 8}\nscheduler_config: {batch_size: 0}\n").find("a.yaml, line 2: "),
            0U);
}

TEST(RecipeConfig, CompileOptionsAreStrictlyTyped) {
  const auto options = [](const std::string& text, ErrorCode code = ErrorCode::kInvalidArgument) {
    return refusal(entry("compile_options", text), code);
  };
  EXPECT_EQ(options("inplace_pass: 'true'"),
            "a.yaml, line 2: compile_options: option inplace_pass is 'true' (a text), must be true or false");
  EXPECT_EQ(options("inplace_pass: 1"),
            "a.yaml, line 2: compile_options: option inplace_pass is 1 (an integer), must be true or false");
  EXPECT_EQ(options("capture_limit: '8'"),
            "a.yaml, line 2: compile_options: option capture_limit is '8' (a text), must be an integer in [1, "
            "9223372036854775807]");
  EXPECT_EQ(options("capture_limit: [1, 2]"),
            "a.yaml, line 2: compile_options: option capture_limit is [1, 2] (a list of integers), must be an integer "
            "in [1, 9223372036854775807]");
  EXPECT_EQ(options("capture_limit: [1, x]"),
            "a.yaml, line 2: compile_options: capture_limit holds x, must hold integers");
  EXPECT_EQ(options("capture_limits: 3"),
            "a.yaml, line 2: compile_options: there is no option 'capture_limits' (did you mean 'capture_limit'?)");
  EXPECT_NE(options("inplace_pass:").find("must be true or false"), std::string::npos);
  EXPECT_NE(options("inplace_pass: {a: 1}").find("must be true or false"), std::string::npos);
  EXPECT_EQ(options("use_graph_pool: 1", ErrorCode::kUnsupported),
            "a.yaml, line 2: compile_options: option use_graph_pool is a graph pool, which only a C++ program can set");
  EXPECT_EQ(options("force_eager: true"),
            place("compile_options.force_eager") +
                "true, but exe_mode is eager, which compiles nothing (set exe_mode to npugraph_ex, or this to false)");
}

TEST(RecipeConfig, AFileThatIsNotThereIsNamed) {
  try {
    read_recipe("/there/is/no/such.yaml");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_NE(std::string(error.what()).find("such.yaml"), std::string::npos);
  }
  EXPECT_THROW(read_recipe(std::filesystem::temp_directory_path().string()), Error);
}

}  // namespace reprise::cli
