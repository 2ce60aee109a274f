#include "kernels/ascend/executor_cache.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "device/ascend/acl_error.h"

namespace reprise::kernels::ascend {
namespace {

/// Far more than the calls of a step that differ in more than addresses, for some batch sizes. Beyond it all are made
/// anew: shapes that never come again must not stay.
constexpr size_t kMostKept = 512;

}  // namespace

ExecutorCache::ExecutorCache(const device::ascend::AclLibrary& library) : library_(library) {}

ExecutorCache::~ExecutorCache() { destroy_kept(); }

void ExecutorCache::destroy_kept() {
  for (auto& [key, executors] : kept_) {
    for (PreparedExecutor& one : executors) destroy(one.executor);
  }
  kept_.clear();
  kept_count_ = 0;
}

bool ExecutorCache::may_keep(const char* name, const AclnnSignature& signature) {
  if (!signature.is_plain() || std::string_view(name).starts_with("aclnnInplace")) return false;
  if (!library_.features().has(device::ascend::Feature::kRepeatableExecutor)) return false;
  const std::lock_guard lock(mutex_);
  return std::ranges::find(refused_, name) == refused_.end();
}

std::optional<PreparedExecutor> ExecutorCache::take(const Key& key, std::span<void* const> addresses) {
  PreparedExecutor taken;
  {
    const std::lock_guard lock(mutex_);
    const auto place = kept_.find(key);
    if (place == kept_.end()) return std::nullopt;
    taken = std::move(place->second.back());
    place->second.pop_back();
    if (place->second.empty()) kept_.erase(place);
    --kept_count_;
  }
  const std::span<aclTensor* const> tensors = taken.arguments->tensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const aclnnStatus status = library_.aclSetTensorAddr(taken.executor, i, tensors[i], addresses[i]);
    if (status == ACLNN_SUCCESS) continue;
    device::ascend::log_acl(library_, status, "aclSetTensorAddr", "using an executor again");
    destroy(taken.executor);
    return std::nullopt;
  }
  return taken;
}

bool ExecutorCache::make_repeatable(const char* name, aclOpExecutor* executor) {
  const aclnnStatus status = library_.aclSetAclOpExecutorRepeatable(executor);
  if (status == ACLNN_SUCCESS) return true;
  log_debug("{}: no repeatable executor: {}", name, status);
  const std::lock_guard lock(mutex_);
  refused_.push_back(name);
  return false;
}

void ExecutorCache::give_back(const Key& key, PreparedExecutor prepared) {
  const std::lock_guard lock(mutex_);
  if (kept_count_ == kMostKept) destroy_kept();
  kept_[key].push_back(std::move(prepared));
  ++kept_count_;
}

void ExecutorCache::destroy(aclOpExecutor* executor) {
  if (executor == nullptr) return;
  device::ascend::log_acl(library_, library_.aclDestroyAclOpExecutor(executor), "aclDestroyAclOpExecutor",
                          "giving an executor up");
}

}  // namespace reprise::kernels::ascend
