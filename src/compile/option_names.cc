#include "compile/option_names.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/nearest_name.h"

namespace reprise::compile {
namespace {

constexpr std::string_view kBool = "true or false";
constexpr std::string_view kPositive = "an integer in [1, 9223372036854775807]";
constexpr std::string_view kNatural = "an integer in [0, 9223372036854775807]";
constexpr std::string_view kCaptureModes = R"("global", "thread_local" or "relaxed")";
constexpr std::string_view kFunction = "a function on a graph";
constexpr std::string_view kMap = "a map";

// Ordered as in the table of docs/options.md.
constexpr std::array kOptions = {
    OptionInfo{"force_eager", "false", kBool, "the optimised graph runs node by node, nothing is captured",
               OptionState::kBuilt, true},
    OptionInfo{"use_graph_pool", "none", "a graph pool", "captured graphs of several methods share the given memory",
               OptionState::kOnlyCpp, false},
    OptionInfo{"reuse_graph_pool_in_same_fx", "true", kBool,
               "captured graphs of one method overlay each other in one pool", OptionState::kBuilt, true},
    OptionInfo{"capture_limit", "64", kPositive, "most captured graphs of one trace of a method", OptionState::kBuilt,
               false},
    OptionInfo{"clone_input", "true", kBool, "inputs are copied into buffers of the captured graph before a replay",
               OptionState::kBuilt, true},
    OptionInfo{"clone_output", "false", kBool, "outputs are copied after a replay, so that the next leaves them",
               OptionState::kBuilt, true},
    OptionInfo{"static_kernel_compile", "false", kBool, "kernels compiled for each shape", OptionState::kUnbuilt, true},
    OptionInfo{"disable_static_kernel_compile_cache", "false", kBool, "no cache of kernels compiled for a shape",
               OptionState::kUnbuilt, false},
    OptionInfo{"frozen_parameter", "false", kBool, "parameters never move: their addresses leave the key",
               OptionState::kBuilt, true},
    OptionInfo{"remove_noop_ops", "true", kBool, "operators that give their input unchanged are removed",
               OptionState::kBuilt, true},
    OptionInfo{"remove_cat_ops", "true", kBool, "parts of a concatenation are made where they lie in its result",
               OptionState::kBuilt, true},
    OptionInfo{"inplace_pass", "true", kBool, "an operator overwrites an intermediate that nobody needs any more",
               OptionState::kBuilt, true},
    OptionInfo{"input_inplace_pass", "true", kBool,
               "the same for inputs and parameters that the method overwrites in the end", OptionState::kBuilt, true},
    OptionInfo{"pattern_fusion_pass", "true", kBool, "fusions: the catalogue's, merged weights, a user's replacements",
               OptionState::kBuilt, true},
    OptionInfo{"post_grad_custom_pre_pass", "none", kFunction, "runs before all other passes", OptionState::kOnlyCpp,
               true},
    OptionInfo{"post_grad_custom_post_pass", "none", kFunction, "runs behind the fusions", OptionState::kOnlyCpp, true},
    OptionInfo{"dump_tensor_data", "false", kBool, "writes the tensors of each step", OptionState::kUnbuilt, true},
    OptionInfo{"data_dump_stage", "optimized", R"("original" or "optimized")", "which graph's tensors are written",
               OptionState::kUnbuilt, true},
    OptionInfo{"data_dump_dir", "./", "a directory that exists", "where tensors are written", OptionState::kUnbuilt,
               false},
    OptionInfo{"super_kernel_optimize", "false", kBool, "kernels of a scope joined into one", OptionState::kUnbuilt,
               true},
    OptionInfo{"super_kernel_optimize_options", "none", kMap, "options of joined kernels", OptionState::kUnbuilt, true},
    OptionInfo{"super_kernel_debug_options", "none", kMap, "debug options of joined kernels", OptionState::kUnbuilt,
               true},
    OptionInfo{"deadlock_check", "false", kBool, "looks for communication that waits for itself", OptionState::kUnbuilt,
               false},
    OptionInfo{"capture_error_mode", "global", kCaptureModes, "whose unsafe calls are refused during a capture",
               OptionState::kBuilt, false},
    OptionInfo{"force_recapture", "false", kBool, "debug: captures again on every call", OptionState::kBuilt, false},
    OptionInfo{"mode", "npugraph_ex", R"("npugraph_ex")", "the kind of compiler; there is one", OptionState::kBuilt,
               false},
    OptionInfo{"_vllm_aclnn_static_kernel_sym_index", "0", kNatural, "which size selects a kernel compiled for it",
               OptionState::kUnbuilt, false},
    OptionInfo{"_vllm_aclnn_static_kernel_sym_range", "none", "a list of integers", "sizes with kernels of their own",
               OptionState::kUnbuilt, false},
    OptionInfo{"inexact_fusions", "false", kBool, "Reprise's own: fusions that change a bit now and then",
               OptionState::kBuilt, true},
};

/// Where the value of a built option lies; null pointers elsewhere.
bool* bool_field(CompileOptions& options, std::string_view name) {
  if (name == "force_eager") return &options.force_eager;
  if (name == "reuse_graph_pool_in_same_fx") return &options.reuse_graph_pool_in_same_fx;
  if (name == "clone_input") return &options.clone_input;
  if (name == "clone_output") return &options.clone_output;
  if (name == "frozen_parameter") return &options.frozen_parameter;
  if (name == "force_recapture") return &options.force_recapture;
  if (name == "remove_noop_ops") return &options.passes.remove_noop_ops;
  if (name == "remove_cat_ops") return &options.passes.remove_cat_ops;
  if (name == "inplace_pass") return &options.passes.inplace_pass;
  if (name == "input_inplace_pass") return &options.passes.input_inplace_pass;
  if (name == "pattern_fusion_pass") return &options.passes.pattern_fusion_pass;
  if (name == "inexact_fusions") return &options.passes.inexact_fusions;
  return nullptr;
}

const OptionInfo& find_option(std::string_view name) {
  const auto* option =
      std::find_if(kOptions.begin(), kOptions.end(), [&](const auto& one) { return one.name == name; });
  if (option != kOptions.end()) return *option;
  std::vector<std::string> known;
  for (const OptionInfo& one : kOptions) known.emplace_back(one.name);
  const std::string nearest = nearest_name(name, known);
  Error error(ErrorCode::kInvalidArgument, "there is no option '{}'", name);
  if (nearest.empty()) throw error;
  throw std::move(error).remedy(fmt::format("did you mean '{}'?", nearest));
}

const OptionInfo& settable_option(std::string_view name) {
  const OptionInfo& option = find_option(name);
  if (option.state == OptionState::kUnbuilt) {
    throw Error(ErrorCode::kUnsupported, "option {} is not built yet", name);
  }
  if (option.state == OptionState::kOnlyCpp) {
    throw Error(ErrorCode::kUnsupported, "option {} is {}, which only a C++ program can set", name, option.rule);
  }
  return option;
}

/// "1 (an integer)".
std::string describe(const OptionValue& value) {
  struct Visitor {
    std::string operator()(bool flag) const { return flag ? "true (a bool)" : "false (a bool)"; }
    std::string operator()(int64_t number) const { return fmt::format("{} (an integer)", number); }
    std::string operator()(const std::string& text) const { return fmt::format("'{}' (a text)", text); }
    std::string operator()(const std::vector<int64_t>& list) const {
      return fmt::format("[{}] (a list of integers)", fmt::join(list, ", "));
    }
  };
  return std::visit(Visitor(), value);
}

std::optional<device::CaptureMode> capture_mode(std::string_view name) {
  using device::CaptureMode;
  for (const CaptureMode mode : {CaptureMode::kGlobal, CaptureMode::kThreadLocal, CaptureMode::kRelaxed}) {
    if (name_of(mode) == name) return mode;
  }
  return std::nullopt;
}

[[noreturn]] void refuse(const OptionInfo& option, std::string_view value) {
  throw Error(ErrorCode::kInvalidArgument, "option {} is {}, must be {}", option.name, value, option.rule);
}

/// Returns false when the value is none that the option takes.
bool assign(CompileOptions& options, std::string_view name, const OptionValue& value) {
  if (bool* field = bool_field(options, name)) {
    const bool* flag = std::get_if<bool>(&value);
    if (flag != nullptr) *field = *flag;
    return flag != nullptr;
  }
  if (name == "capture_limit") {
    const int64_t* number = std::get_if<int64_t>(&value);
    if (number == nullptr || *number < 1) return false;
    options.capture_limit = *number;
    return true;
  }
  const std::string* text = std::get_if<std::string>(&value);
  if (text == nullptr) return false;
  if (name == "mode") return *text == "npugraph_ex";
  REPRISE_CHECK(name == "capture_error_mode");
  const auto mode = capture_mode(*text);
  if (mode) options.capture_error_mode = *mode;
  return mode.has_value();
}

/// The typed value that a text stands for; the text itself when it stands for none.
OptionValue parse(std::string_view name, std::string_view text) {
  CompileOptions any;
  if (bool_field(any, name) != nullptr && (text == "true" || text == "false")) return text == "true";
  if (name == "capture_limit") {
    int64_t number = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (fault == std::errc() && end == text.data() + text.size()) return number;
  }
  return std::string(text);
}

}  // namespace

std::string_view name_of(OptionState state) {
  switch (state) {
    case OptionState::kBuilt:
      return "built";
    case OptionState::kOnlyCpp:
      return "C++ only";
    case OptionState::kUnbuilt:
      return "not built";
  }
  return "unknown";
}

std::span<const OptionInfo> option_table() { return kOptions; }

void set_option(CompileOptions& options, std::string_view name, const OptionValue& value) {
  const OptionInfo& option = settable_option(name);
  if (!assign(options, name, value)) refuse(option, describe(value));
}

void set_option_text(CompileOptions& options, std::string_view name, std::string_view text) {
  const OptionInfo& option = settable_option(name);
  if (!assign(options, name, parse(name, text))) refuse(option, fmt::format("'{}'", text));
}

std::string option_text(const CompileOptions& options, std::string_view name) {
  settable_option(name);
  CompileOptions copy = options;
  if (const bool* field = bool_field(copy, name)) return *field ? "true" : "false";
  if (name == "capture_limit") return fmt::format("{}", options.capture_limit);
  if (name == "mode") return "npugraph_ex";
  REPRISE_CHECK(name == "capture_error_mode");
  return std::string(name_of(options.capture_error_mode));
}

std::string code_key(const CompileOptions& options) {
  std::string key;
  for (const OptionInfo& option : kOptions) {
    if (option.state != OptionState::kBuilt || !option.changes_code) continue;
    key += fmt::format("{}={}\n", option.name, option_text(options, option.name));
  }
  const PassOptions& passes = options.passes;
  // Names may hold anything, so each comes with its length: no two lists give the same text.
  const auto add = [&key](std::string_view what, std::string_view name) {
    key += fmt::format("{} {}:{}\n", what, name.size(), name);
  };
  add("device", passes.device);
  for (const std::string& name : passes.disabled_passes) add("disabled_pass", name);
  for (const Pass& pass : passes.pre_passes) add("pre_pass", pass.name);
  for (const Pass& pass : passes.post_passes) add("post_pass", pass.name);
  for (const ReplacementSet& set : passes.replacements) {
    add("replacement_set", fmt::format("{}", set.size()));
    for (const std::string& name : set.names()) add("replacement", name);
  }
  return key;
}

}  // namespace reprise::compile
