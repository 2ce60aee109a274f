#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/attribute.h"

namespace reprise::ops {

struct TensorSpec {
  std::string name;
  bool optional = false;
  bool mutated = false;  ///< written in place: the operator's effect is on this argument
};

struct HostListSpec {
  std::string name;
  /// True where new values may be given to a captured launch by a task update.
  bool updatable = false;
};

struct AttributeSpec {
  std::string name;
  AttributeKind kind = AttributeKind::kInt;
  std::optional<Attribute> default_value;
};

/// What an operator takes and gives. Written as one line:
///
///   paged_attention(Tensor q, Tensor k_cache, int[]^ kv_lengths, *, float scale) -> Tensor out
///
/// `Tensor?` is optional, `Tensor!` is mutated, `int[]` is a host list (`^`: updatable). Tensors come first, then host
/// lists, then after `*` the attributes: int, float, bool, dtype, shape, str, each with an optional `= default`. An
/// operator without a result has `-> ()`.
struct Schema {
  std::string name;
  std::vector<TensorSpec> tensors;
  std::vector<HostListSpec> lists;
  std::vector<AttributeSpec> attributes;
  std::vector<std::string> outputs;

  /// Throws kInvalidArgument with the place of the fault.
  static Schema parse(std::string_view text);
  std::string to_string() const;
};

}  // namespace reprise::ops
