#pragma once

#include <set>
#include <string>

#include "compile/compile_options.h"
#include "engine/engine.h"

namespace reprise::cli {

/// The mode that compile options and `mode` come to; errors as of apply_compile_options().
replay::Mode mode_of(const compile::CompileOptions& compile, replay::Mode mode, bool mode_given);

/// Makes an engine's options of compile options. `named`: those that the user has set, whose values count even where
/// they are the default; they are logged if they have no effect in the mode. `mode_given`: options.mode is what the
/// user asked for, and another one would contradict it. kInvalidArgument for such a contradiction, kUnsupported, by
/// name, for what an engine cannot do.
void apply_compile_options(const compile::CompileOptions& compile, const std::set<std::string>& named, bool mode_given,
                           engine::EngineOptions& options);

}  // namespace reprise::cli
