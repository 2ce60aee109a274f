#include "compile/option_names.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/nearest_name.h"

namespace reprise::compile {
namespace {

constexpr std::array<std::pair<const char*, bool PassOptions::*>, 5> kSwitches = {
    {{"remove_noop_ops", &PassOptions::remove_noop_ops},
     {"pattern_fusion_pass", &PassOptions::pattern_fusion_pass},
     {"remove_cat_ops", &PassOptions::remove_cat_ops},
     {"inplace_pass", &PassOptions::inplace_pass},
     {"input_inplace_pass", &PassOptions::input_inplace_pass}}};

constexpr std::array kUnbuilt = {"force_eager",
                                 "use_graph_pool",
                                 "reuse_graph_pool_in_same_fx",
                                 "capture_limit",
                                 "clone_input",
                                 "clone_output",
                                 "static_kernel_compile",
                                 "disable_static_kernel_compile_cache",
                                 "frozen_parameter",
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
                                 "force_recapture"};

}  // namespace

std::vector<std::string> option_names() {
  std::vector<std::string> names;
  for (const auto& [name, _] : kSwitches) names.emplace_back(name);
  return names;
}

std::vector<std::string> unbuilt_option_names() { return {kUnbuilt.begin(), kUnbuilt.end()}; }

void set_option(PassOptions& options, std::string_view name, std::string_view value) {
  const auto* option =
      std::find_if(kSwitches.begin(), kSwitches.end(), [&](const auto& known) { return name == known.first; });
  if (option != kSwitches.end()) {
    if (value != "true" && value != "false") {
      throw Error(ErrorCode::kInvalidArgument, "option {} is '{}', must be true or false", name, value);
    }
    options.*(option->second) = value == "true";
    return;
  }
  if (std::find(kUnbuilt.begin(), kUnbuilt.end(), name) != kUnbuilt.end()) {
    throw Error(ErrorCode::kUnsupported, "option {} is not built yet", name);
  }
  std::vector<std::string> known = option_names();
  for (std::string& unbuilt : unbuilt_option_names()) known.push_back(std::move(unbuilt));
  const std::string nearest = nearest_name(name, known);
  Error error(ErrorCode::kInvalidArgument, "there is no option '{}'", name);
  if (nearest.empty()) throw error;
  throw std::move(error).remedy(fmt::format("did you mean '{}'?", nearest));
}

}  // namespace reprise::compile
