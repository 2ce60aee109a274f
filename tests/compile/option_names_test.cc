#include "compile/option_names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "compile/passes/fusions.h"
#include "ops/registry.h"

namespace reprise::compile {
namespace {

template <typename Set>
std::string refusal(ErrorCode code, Set set) {
  try {
    set();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "accepted";
}

std::string refusal(std::string_view name, const OptionValue& value, ErrorCode code = ErrorCode::kInvalidArgument) {
  CompileOptions options;
  return refusal(code, [&] { set_option(options, name, value); });
}

std::string text_refusal(std::string_view name, std::string_view text, ErrorCode code = ErrorCode::kInvalidArgument) {
  CompileOptions options;
  return refusal(code, [&] { set_option_text(options, name, text); });
}

bool is_bool(const OptionInfo& option) { return option.rule == "true or false"; }

/// A value that is not the default.
OptionValue other_value(const OptionInfo& option) {
  if (is_bool(option)) return option.default_text == "false";
  if (option.name == "capture_limit") return int64_t{3};
  if (option.name == "capture_error_mode") return std::string("relaxed");
  ADD_FAILURE() << "no other value is known for " << option.name;
  return false;
}

std::vector<OptionInfo> options_of(OptionState state) {
  std::vector<OptionInfo> found;
  for (const OptionInfo& option : option_table()) {
    if (option.state == state && option.name != "mode") found.push_back(option);
  }
  return found;
}

/// All values that options by name reach.
std::vector<std::string> values(const CompileOptions& options) {
  std::vector<std::string> values;
  for (const OptionInfo& option : options_of(OptionState::kBuilt)) values.push_back(option_text(options, option.name));
  return values;
}

}  // namespace

TEST(OptionNames, DefaultsAreThoseOfTheTable) {
  for (const OptionInfo& option : options_of(OptionState::kBuilt)) {
    EXPECT_EQ(option_text({}, option.name), option.default_text) << option.name;
  }
  EXPECT_EQ(option_text({}, "mode"), "npugraph_ex");
}

TEST(OptionNames, TheTableHasEveryOptionOfNpugraphExOnce) {
  // The attributes of npugraph_ex's configuration, and Reprise's own at the end.
  const std::set<std::string_view> expected = {"force_eager",
                                               "use_graph_pool",
                                               "reuse_graph_pool_in_same_fx",
                                               "capture_limit",
                                               "clone_input",
                                               "clone_output",
                                               "static_kernel_compile",
                                               "disable_static_kernel_compile_cache",
                                               "frozen_parameter",
                                               "remove_noop_ops",
                                               "remove_cat_ops",
                                               "inplace_pass",
                                               "input_inplace_pass",
                                               "pattern_fusion_pass",
                                               "post_grad_custom_pre_pass",
                                               "post_grad_custom_post_pass",
                                               "dump_tensor_data",
                                               "data_dump_stage",
                                               "data_dump_dir",
                                               "super_kernel_optimize",
                                               "super_kernel_optimize_options",
                                               "super_kernel_debug_options",
                                               "deadlock_check",
                                               "capture_error_mode",
                                               "force_recapture",
                                               "mode",
                                               "_vllm_aclnn_static_kernel_sym_index",
                                               "_vllm_aclnn_static_kernel_sym_range",
                                               "inexact_fusions"};
  std::multiset<std::string_view> names;
  for (const OptionInfo& option : option_table()) names.insert(option.name);
  EXPECT_EQ(std::vector(names.begin(), names.end()), std::vector(expected.begin(), expected.end()));
}

TEST(OptionNames, EachOptionChangesItsOwnValueAndNoOther) {
  const std::vector<OptionInfo> built = options_of(OptionState::kBuilt);
  for (size_t i = 0; i < built.size(); ++i) {
    CompileOptions options;
    set_option(options, built[i].name, other_value(built[i]));
    std::vector<std::string> expected = values({});
    const std::string changed = values(options)[i];
    EXPECT_NE(changed, expected[i]) << built[i].name;
    expected[i] = changed;
    EXPECT_EQ(values(options), expected) << built[i].name;
    // As text the same, there and back.
    CompileOptions typed;
    set_option_text(typed, built[i].name, changed);
    EXPECT_EQ(values(typed), expected) << built[i].name;
    set_option_text(typed, built[i].name, built[i].default_text);
    EXPECT_EQ(values(typed), values({})) << built[i].name;
  }
}

TEST(OptionNames, ABoolIsNothingElse) {
  for (const OptionInfo& option : options_of(OptionState::kBuilt)) {
    if (!is_bool(option)) continue;
    EXPECT_EQ(refusal(option.name, int64_t{0}),
              fmt::format("option {} is 0 (an integer), must be true or false", option.name));
    EXPECT_EQ(refusal(option.name, std::string("true")),
              fmt::format("option {} is 'true' (a text), must be true or false", option.name));
    EXPECT_EQ(refusal(option.name, std::vector<int64_t>{1, 2}),
              fmt::format("option {} is [1, 2] (a list of integers), must be true or false", option.name));
    for (const char* text : {"0", "1", "False", "yes", "", " true"}) {
      EXPECT_EQ(text_refusal(option.name, text),
                fmt::format("option {} is '{}', must be true or false", option.name, text));
    }
  }
}

TEST(OptionNames, AnIntegerHasARange) {
  const std::string allowed = "must be an integer in [1, 9223372036854775807]";
  CompileOptions options;
  for (const int64_t limit : {int64_t{1}, INT64_MAX}) {
    set_option(options, "capture_limit", limit);
    EXPECT_EQ(options.capture_limit, limit);
  }
  set_option_text(options, "capture_limit", "9223372036854775807");
  EXPECT_EQ(options.capture_limit, INT64_MAX);
  for (const int64_t limit : {int64_t{0}, int64_t{-1}, INT64_MIN}) {
    EXPECT_EQ(refusal("capture_limit", limit),
              fmt::format("option capture_limit is {} (an integer), {}", limit, allowed));
  }
  EXPECT_EQ(refusal("capture_limit", true), "option capture_limit is true (a bool), " + allowed);
  EXPECT_EQ(refusal("capture_limit", std::string("64")), "option capture_limit is '64' (a text), " + allowed);
  for (const char* text : {"0", "-1", "+1", "1.5", "0x10", "", "64 ", "9223372036854775808"}) {
    EXPECT_EQ(text_refusal("capture_limit", text), fmt::format("option capture_limit is '{}', {}", text, allowed));
  }
}

TEST(OptionNames, AChoiceNamesWhatIsAllowed) {
  CompileOptions options;
  for (const auto& [name, mode] : {std::pair("thread_local", device::CaptureMode::kThreadLocal),
                                   {"relaxed", device::CaptureMode::kRelaxed},
                                   {"global", device::CaptureMode::kGlobal}}) {
    set_option(options, "capture_error_mode", std::string(name));
    EXPECT_EQ(options.capture_error_mode, mode);
  }
  EXPECT_EQ(refusal("capture_error_mode", std::string("Global")),
            "option capture_error_mode is 'Global' (a text), must be \"global\", \"thread_local\" or \"relaxed\"");
  EXPECT_EQ(text_refusal("capture_error_mode", "local"),
            "option capture_error_mode is 'local', must be \"global\", \"thread_local\" or \"relaxed\"");
  EXPECT_EQ(refusal("capture_error_mode", true),
            "option capture_error_mode is true (a bool), must be \"global\", \"thread_local\" or \"relaxed\"");
  EXPECT_EQ(refusal("mode", std::string("npugraph_ex")), "accepted");
  EXPECT_EQ(refusal("mode", std::string("max-autotune")),
            "option mode is 'max-autotune' (a text), must be \"npugraph_ex\"");
}

TEST(OptionNames, AnUnknownNameIsAnsweredWithTheNearest) {
  EXPECT_EQ(refusal("inplace_pas", true), "there is no option 'inplace_pas' (did you mean 'inplace_pass'?)");
  EXPECT_EQ(refusal("capture-limit", int64_t{4}), "there is no option 'capture-limit' (did you mean 'capture_limit'?)");
  EXPECT_EQ(text_refusal("Force_eager", "true"), "there is no option 'Force_eager' (did you mean 'force_eager'?)");
  EXPECT_EQ(refusal("zzzzzzzzzzzz", true), "there is no option 'zzzzzzzzzzzz'");
}

TEST(OptionNames, WhatIsNotBuiltIsRefusedByName) {
  EXPECT_GE(options_of(OptionState::kUnbuilt).size(), 11U);
  for (const OptionInfo& option : options_of(OptionState::kUnbuilt)) {
    EXPECT_EQ(refusal(option.name, true, ErrorCode::kUnsupported),
              fmt::format("option {} is not built yet", option.name));
    EXPECT_EQ(text_refusal(option.name, "true", ErrorCode::kUnsupported),
              fmt::format("option {} is not built yet", option.name));
  }
  for (const OptionInfo& option : options_of(OptionState::kOnlyCpp)) {
    EXPECT_EQ(text_refusal(option.name, "x", ErrorCode::kUnsupported),
              fmt::format("option {} is {}, which only a C++ program can set", option.name, option.rule));
  }
}

TEST(CodeKey, EachOptionThatChangesTheCodeChangesTheKeyAndNoOtherDoes) {
  std::set<std::string> keys = {code_key({})};
  int changing = 0;
  for (const OptionInfo& option : options_of(OptionState::kBuilt)) {
    CompileOptions options;
    set_option(options, option.name, other_value(option));
    if (option.changes_code) {
      ++changing;
      EXPECT_TRUE(keys.insert(code_key(options)).second) << option.name;
    } else {
      EXPECT_EQ(code_key(options), code_key({})) << option.name;
    }
  }
  EXPECT_EQ(changing, 11);
}

TEST(CodeKey, PassesAndReplacementsOfTheUserChangeTheKey) {
  std::set<std::string> keys;
  const auto add = [&](const char* what, const auto& change) {
    CompileOptions options;
    change(options.passes);
    EXPECT_TRUE(keys.insert(code_key(options)).second) << what;
  };
  add("defaults", [](PassOptions&) {});
  add("device", [](PassOptions& passes) { passes.device = "cpu"; });
  add("one disabled", [](PassOptions& passes) { passes.disabled_passes = {"swiglu"}; });
  add("two disabled", [](PassOptions& passes) { passes.disabled_passes = {"swiglu", "in_place"}; });
  add("a name with a line end",
      [](PassOptions& passes) { passes.disabled_passes = {"swiglu\ndisabled_pass 8:in_place"}; });
  add("pre pass", [](PassOptions& passes) { passes.pre_passes.push_back({"mine", nullptr}); });
  add("post pass", [](PassOptions& passes) { passes.post_passes.push_back({"mine", nullptr}); });
  const ops::Registry registry = ops::make_catalogue();
  const ReplacementSet empty(registry), one = fuse_swiglu(registry), other = gather_early(registry);
  add("an empty set", [&](PassOptions& passes) { passes.replacements = {empty}; });
  add("one replacement", [&](PassOptions& passes) { passes.replacements = {one}; });
  add("another", [&](PassOptions& passes) { passes.replacements = {other}; });
  add("both", [&](PassOptions& passes) { passes.replacements = {one, other}; });
  add("both, in another order", [&](PassOptions& passes) { passes.replacements = {other, one}; });
}

}  // namespace reprise::compile
