#pragma once

#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "compile/argument.h"
#include "compile/guard.h"
#include "compile/method.h"
#include "graph/graph.h"
#include "ops/registry.h"

namespace reprise::compile {

/// A method as it is given to be compiled.
struct MethodSpec {
  std::string name;  ///< letters, digits, '_' and '.'
  std::vector<ArgumentKind> kinds;
  std::vector<std::string> names;  ///< of the arguments, for guards and graphs
  Method method;
  std::source_location where;  ///< the call that compiles it
};

/// What may differ from call to call, by argument: the first axis of a tensor, the length of a list, the value of a
/// dimension. Sizes of 0 and 1 are never symbolic.
struct DynamicArguments {
  std::vector<bool> dynamic;
  /// Does not share its symbol with others of the same size.
  std::vector<bool> own_symbol;
  /// To repeat a trace: its TracedMethod::argument_symbols. Empty: symbols are chosen.
  std::vector<int32_t> symbols = {};
};

/// A parameter that must stay where it is.
struct FrozenArgument {
  int32_t argument = 0;
  const void* address = nullptr;
};

/// A traced method, with all that the trace assumed.
struct TracedMethod {
  graph::Graph graph{"empty"};
  std::vector<Guard> guards;
  std::vector<Quantity> symbols;          ///< what gives each symbol its value
  std::vector<int32_t> inputs;            ///< the argument of each input of the graph
  std::vector<int32_t> lists;             ///< the argument of each host list
  std::vector<FrozenArgument> frozen;     ///< arguments that became parameters of the graph
  std::vector<int32_t> argument_symbols;  ///< the symbol of each argument, -1 where it has none
};

/// The largest value of a symbol; larger arguments are traced for themselves.
inline constexpr int64_t kMaxDynamicSize = int64_t{1} << 20;

/// Traces a method for these arguments. With `frozen_parameters`, parameters become parameters of the graph, whose
/// weights passes may merge; otherwise they are inputs. Throws kGraphBreak for what a graph cannot hold, naming the
/// line of the method and the remedy; and what the method throws.
TracedMethod trace_method(const ops::Registry& registry, const MethodSpec& spec, std::span<const Argument> arguments,
                          const DynamicArguments& dynamic, bool frozen_parameters);

/// The method's own arguments for a run without a graph.
std::vector<MethodValue> eager_values(std::span<const Argument> arguments);

}  // namespace reprise::compile
