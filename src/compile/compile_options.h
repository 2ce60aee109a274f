#pragma once

#include <cstdint>

#include "compile/pass_options.h"
#include "device/capture.h"

namespace reprise::compile {

/// How a method is compiled and its graphs are captured and replayed: npugraph_ex's options under its names and with
/// its defaults. docs/options.md has the table, option_names.h sets them by name.
struct CompileOptions {
  /// remove_noop_ops, pattern_fusion_pass, remove_cat_ops, inplace_pass, input_inplace_pass, the custom passes before
  /// and after the others, replacements.
  PassOptions passes = {};

  /// Runs the passes and then the optimised graph node by node on every call: nothing is captured.
  bool force_eager = false;
  /// Graphs that are captured of one compiled method overlay each other in one pool; what an earlier call returned is
  /// overwritten by the next. False: each captured graph keeps memory and outputs of its own.
  bool reuse_graph_pool_in_same_fx = true;
  /// Most captured graphs of one compiled method, at least 1. What would exceed it runs eagerly.
  int64_t capture_limit = 64;
  /// Graphs are captured with buffers of their own, into which inputs are copied before each replay. False: with the
  /// addresses of the first call's inputs; later inputs are copied there when they lie elsewhere.
  bool clone_input = true;
  /// Every output that is no alias of an input is copied after a replay, so that the next one cannot overwrite it.
  bool clone_output = false;
  /// The caller promises that parameters never move: their addresses are no part of a captured graph's key.
  bool frozen_parameter = false;
  /// Captures again on every call: tells a wrong capture from wrong memory at replay.
  bool force_recapture = false;
  /// Which unsafe calls are refused during a capture: any thread's, the capturing thread's, none.
  device::CaptureMode capture_error_mode = device::CaptureMode::kGlobal;
};

}  // namespace reprise::compile
