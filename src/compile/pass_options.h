#pragma once

#include <string>
#include <vector>

#include "compile/pass.h"
#include "compile/replacement.h"

namespace reprise::compile {

/// What the standard pipeline does. The switches have npugraph_ex's names and defaults; each turns off exactly the
/// passes that it names.
struct PassOptions {
  bool remove_noop_ops = true;
  /// Fusions: those of the catalogue, and `replacements`.
  bool pattern_fusion_pass = true;
  bool remove_cat_ops = true;
  /// Operators that overwrite an intermediate which nobody needs any more.
  bool inplace_pass = true;
  /// The same for inputs and parameters that the method overwrites in the end.
  bool input_inplace_pass = true;
  /// Fusions that change a bit now and then.
  bool inexact_fusions = false;

  /// The device whose kernels a fusion needs; "": any. Packed weights can only be merged for a device.
  std::string device = {};
  /// The user's fusions, which come before the catalogue's.
  std::vector<ReplacementSet> replacements = {};
  std::vector<Pass> pre_passes = {};
  std::vector<Pass> post_passes = {};
  /// Passes to leave out, by name: to find the one that holds a fault. Unknown names are refused.
  std::vector<std::string> disabled_passes = {};

  /// Every switch off: only dead code goes.
  static PassOptions none() {
    PassOptions options;
    for (bool PassOptions::* pass :
         {&PassOptions::remove_noop_ops, &PassOptions::pattern_fusion_pass, &PassOptions::remove_cat_ops,
          &PassOptions::inplace_pass, &PassOptions::input_inplace_pass}) {
      options.*pass = false;
    }
    return options;
  }
};

}  // namespace reprise::compile
