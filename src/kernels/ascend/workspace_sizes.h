#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "ops/op_def.h"

namespace reprise::kernels::ascend {

/// Workspaces that were measured, by what they depend on: the operator and the shapes of its arguments. Thread-safe.
class WorkspaceSizes {
 public:
  /// Of a call without host lists: whatever its results' memory is, equal keys want equal workspaces.
  static uint64_t key_of(const ops::OpCall& call);

  std::optional<size_t> find(uint64_t key) const;
  void add(uint64_t key, size_t bytes);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, size_t> sizes_;
};

}  // namespace reprise::kernels::ascend
