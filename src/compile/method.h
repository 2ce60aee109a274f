#pragma once

#include <functional>
#include <source_location>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "compile/guard.h"
#include "ops/forward_context.h"
#include "tensor/tensor.h"

namespace reprise::compile {

/// What a running method may ask beyond operators. While it is traced, a branch on a symbolic dimension becomes a
/// guard, and reading a tensor's element breaks the graph.
class MethodHost {
 public:
  virtual ~MethodHost() = default;
  virtual bool branch(const Dim& left, Relation relation, const Dim& right, std::source_location where) = 0;
  virtual double item(const Tensor& tensor, std::source_location where) = 0;
};

/// What a compiled method works with: its operator calls, and questions about dimensions. The fields of ForwardContext
/// that belong to a model's step are absent unless the method sets them from its arguments.
class MethodContext : public ops::ForwardContext {
 public:
  MethodContext(ops::Dispatcher& target, MethodHost& host) : ops::ForwardContext(target), host_(host) {}

  /// Branches on dimensions that may be symbolic: the answer for this call, which a guard keeps true for later ones.
  bool is_equal(Dim left, Dim right, std::source_location where = std::source_location::current()) {
    return host_.branch(left, Relation::kEqual, right, where);
  }
  bool is_less(Dim left, Dim right, std::source_location where = std::source_location::current()) {
    return host_.branch(left, Relation::kLess, right, where);
  }
  bool is_at_most(Dim left, Dim right, std::source_location where = std::source_location::current()) {
    return host_.branch(left, Relation::kLessOrEqual, right, where);
  }
  /// The value of a tensor of one element, read back to the host. Throws kGraphBreak while the method is traced: a
  /// graph cannot depend on it.
  double item(const Tensor& tensor, std::source_location where = std::source_location::current()) {
    return host_.item(tensor, where);
  }

 private:
  MethodHost& host_;
};

/// An argument as the method sees it: integers are dimensions, constant or symbolic.
using MethodValue = std::variant<Tensor, ops::HostList, Dim, double, bool, std::string>;

/// A method in operator calls.
using Method = std::function<std::vector<Tensor>(MethodContext& context, std::span<const MethodValue> arguments)>;

}  // namespace reprise::compile
