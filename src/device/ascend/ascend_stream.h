#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "device/ascend/acl_library.h"
#include "device/stream.h"

namespace reprise::device::ascend {

/// A launch of which only the stream is missing: an operator's call behind its first phase, or a kernel with its
/// arguments. A task update keeps it until it ends.
class PreparedLaunch {
 public:
  virtual ~PreparedLaunch() = default;
  /// Queues it, once; AscendCL's code.
  virtual int issue(aclrtStream stream) = 0;
  /// "aclnnAdd". What comes before the first '.' is its kind, which a task update must keep.
  virtual const char* name() const = 0;
  /// Of everything but addresses: shapes, element types, host values.
  virtual uint64_t digest() const = 0;
  /// The memory that it uses, in a fixed order.
  virtual std::span<const void* const> addresses() const = 0;
};

/// What Ascend's streams offer beyond the common interface: launching kernels.
class AscendStream : public Stream {
 public:
  virtual const AclLibrary& library() const = 0;

  /// Queues a launch; captures it; or keeps it for the task update that is open.
  virtual void launch(std::unique_ptr<PreparedLaunch> launch) = 0;

  /// The calling thread tiles what it prepares for this stream's core limit, until leave_core_limit(). Use LimitScope.
  virtual void enter_core_limit() = 0;
  virtual void leave_core_limit() noexcept = 0;
};

/// Put one around the first phase of operators that a stream will get: their tiling follows its core limit.
class LimitScope {
 public:
  explicit LimitScope(AscendStream& stream) : stream_(stream) { stream_.enter_core_limit(); }
  ~LimitScope() { stream_.leave_core_limit(); }
  LimitScope(const LimitScope&) = delete;
  LimitScope& operator=(const LimitScope&) = delete;

 private:
  AscendStream& stream_;
};

}  // namespace reprise::device::ascend
