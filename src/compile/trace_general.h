#pragma once

#include <cstdint>
#include <span>

#include "compile/trace_method.h"

namespace reprise::compile {

/// A trace, with the arguments that it made symbolic.
struct GeneralTrace {
  TracedMethod traced;
  DynamicArguments dynamic;
};

/// trace_method() with as much of `dynamic` as the method allows. Where its operators ask for a number (the weight of a
/// norm that is given as a tensor) or for equal sizes that have symbols of their own, these sizes stay what they are,
/// which is logged. Throws as trace_method(): what is wrong for the sizes as they are is wrong with the call. `runs` is
/// raised by how often the method's code has run, also when this throws.
GeneralTrace trace_general(const ops::Registry& registry, const MethodSpec& spec, std::span<const Argument> arguments,
                           const DynamicArguments& dynamic, bool frozen_parameters, int64_t& runs);

}  // namespace reprise::compile
