#pragma once

#include <array>
#include <initializer_list>
#include <source_location>
#include <string_view>
#include <utility>

#include "ops/forward_context.h"

namespace reprise::ops {

/// The one body of typed functions: dispatches an operator with one result.
inline Tensor dispatch_call(ForwardContext& context, std::string_view op, std::initializer_list<Tensor> inputs,
                            std::initializer_list<HostList> lists, std::initializer_list<Attribute> attributes,
                            std::source_location where) {
  Tensor output;
  context.dispatcher.dispatch(op, {inputs.begin(), inputs.size()}, {lists.begin(), lists.size()},
                              {attributes.begin(), attributes.size()}, {&output, 1}, where);
  return output;
}

/// The same for operators of several results, or of none.
template <size_t kOutputs>
std::array<Tensor, kOutputs> dispatch_call_of(ForwardContext& context, std::string_view op,
                                              std::initializer_list<Tensor> inputs,
                                              std::initializer_list<Attribute> attributes, std::source_location where) {
  std::array<Tensor, kOutputs> outputs;
  context.dispatcher.dispatch(op, {inputs.begin(), inputs.size()}, {}, {attributes.begin(), attributes.size()}, outputs,
                              where);
  return outputs;
}

}  // namespace reprise::ops
