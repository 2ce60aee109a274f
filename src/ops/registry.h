#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/op_def.h"

namespace reprise::ops {

/// The operators that a program knows: a value, filled by explicit calls. Definitions stay where they are for the
/// registry's life, so graphs may point at them.
class Registry {
 public:
  Registry() = default;
  Registry(Registry&&) = default;
  Registry& operator=(Registry&&) = default;
  /// An independent copy that a user extends with operators of their own.
  Registry clone() const;

  /// Throws kInvalidArgument when the name is taken.
  OpDef& add(OpDef op);
  /// Throws kNotFound with the nearest known name.
  const OpDef& get(std::string_view name) const;
  OpDef& get(std::string_view name);
  const OpDef* find(std::string_view name) const;
  /// All operators by name.
  std::vector<const OpDef*> list() const;

 private:
  std::map<std::string, std::unique_ptr<OpDef>, std::less<>> ops_;
};

/// The catalogue of this library, without kernels; each family's file adds its own operators.
Registry make_catalogue();

}  // namespace reprise::ops
