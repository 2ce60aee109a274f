#include "cli/engine_compile_options.h"

#include "base/error.h"
#include "base/log.h"

namespace reprise::cli {
namespace {

using replay::Mode;

bool optimises(Mode mode) { return mode != Mode::kEager && mode != Mode::kAotEager; }

const std::set<std::string> kOfCaptures = {"capture_limit", "capture_error_mode", "force_recapture"};
const std::set<std::string> kOfPasses = {"remove_noop_ops",    "remove_cat_ops",      "inplace_pass",
                                         "input_inplace_pass", "pattern_fusion_pass", "inexact_fusions",
                                         "--disable-pass"};

void warn_without_effect(const std::set<std::string>& named, Mode mode) {
  std::string names;
  for (const std::string& name : named) {
    const bool idle = (kOfCaptures.contains(name) && !captures(mode)) || (kOfPasses.contains(name) && !optimises(mode));
    if (idle) names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  }
  if (!names.empty()) log_warning("without effect in mode {}: {}", name_of(mode), names);
}

}  // namespace

Mode mode_of(const compile::CompileOptions& compile, Mode mode, bool mode_given) {
  if (!compile.clone_input) {
    throw Error(ErrorCode::kUnsupported, "option clone_input is false, which an engine cannot do")
        .remedy("its steps are copied into static inputs, whose addresses its captured graphs hold; leave it true");
  }
  if (!compile.reuse_graph_pool_in_same_fx) {
    throw Error(ErrorCode::kUnsupported, "option reuse_graph_pool_in_same_fx is false, which an engine cannot do")
        .remedy("the captured graphs of its decode step share one arena; leave it true");
  }
  if (!compile.force_eager || mode == Mode::kForceEager) return mode;
  if (mode_given) {
    throw Error(ErrorCode::kInvalidArgument, "option force_eager contradicts mode {}", name_of(mode))
        .remedy("give one of the two");
  }
  return Mode::kForceEager;
}

void apply_compile_options(const compile::CompileOptions& compile, const std::set<std::string>& named, bool mode_given,
                           engine::EngineOptions& options) {
  options.mode = mode_of(compile, options.mode, mode_given);
  // clone_output, frozen_parameter: an engine copies the logits of every step to the host, and its weights stay where
  // they are for as long as it lives, so both values ask for what it does.
  options.passes = compile.passes;
  options.capture_limit = compile.capture_limit;
  options.force_recapture = compile.force_recapture;
  // The runner's own default is laxer than the option's: other threads may go on while an engine captures.
  if (named.contains("capture_error_mode")) options.capture_error_mode = compile.capture_error_mode;
  warn_without_effect(named, options.mode);
}

}  // namespace reprise::cli
