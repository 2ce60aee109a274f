#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "kernels/ascend/aclnn_arguments.h"

namespace reprise::kernels::ascend {

/// An operator's call behind its first phase.
struct PreparedExecutor {
  std::unique_ptr<AclnnArguments> arguments;
  aclOpExecutor* executor = nullptr;
  uint64_t workspace_bytes = 0;
};

/// Executors that AscendCL has made repeatable, kept between calls that differ in nothing but addresses: those do
/// without a first phase. One that is in use is not here. Thread-safe.
class ExecutorCache {
 public:
  /// What calls must have in common.
  struct Key {
    const char* name = nullptr;  ///< the operator's, by its address
    uint64_t digest = 0;         ///< of all arguments but addresses
    int cube_cores = 0;          ///< the limit that the first phase tiled for
    int vector_cores = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  explicit ExecutorCache(const device::ascend::AclLibrary& library);
  ~ExecutorCache();
  ExecutorCache(const ExecutorCache&) = delete;
  ExecutorCache& operator=(const ExecutorCache&) = delete;

  /// Whether executors of this operator may be kept: its tensors are known by their places in the signature, none of
  /// them is both read and written, and AscendCL has not refused it before.
  bool may_keep(const char* name, const AclnnSignature& signature);
  /// One with these addresses set; nothing where there is none.
  std::optional<PreparedExecutor> take(const Key& key, std::span<void* const> addresses);
  /// Right behind a first phase: whether AscendCL lets the executor be called more than once.
  bool make_repeatable(const char* name, aclOpExecutor* executor);
  /// Behind a second phase.
  void give_back(const Key& key, PreparedExecutor prepared);
  /// Of one that take() or make_repeatable() has had, and that no one will call.
  void destroy(aclOpExecutor* executor);

 private:
  void destroy_kept();

  const device::ascend::AclLibrary& library_;
  std::mutex mutex_;
  std::map<Key, std::vector<PreparedExecutor>> kept_;
  size_t kept_count_ = 0;
  std::vector<const char*> refused_;  ///< operators
};

}  // namespace reprise::kernels::ascend
