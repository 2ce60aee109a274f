#pragma once

#include <memory>

#include "device/ascend/acl_library.h"
#include "device/ascend/ascend_device.h"

namespace reprise::device::ascend {

/// The library of tests/fake_acl: an AscendCL without graphs whose failures a test sets. Back to normal when it ends.
class FakeAcl {
 public:
  FakeAcl() : library_(AclLibrary::open(options())) { reset(); }
  ~FakeAcl() { reset(); }
  FakeAcl(const FakeAcl&) = delete;
  FakeAcl& operator=(const FakeAcl&) = delete;

  static LibraryOptions options() { return {.folder = REPRISE_FAKE_ACL_DIR, .hide = nullptr}; }
  static AscendOptions device_options(int wait_limit_ms = 10000) {
    return {.device_id = 0, .library = options(), .wait_limit_ms = wait_limit_ms};
  }
  const AclLibrary& library() const { return *library_; }
  void set(const char* name, long value) const {
    reinterpret_cast<void (*)(const char*, long)>(library_->find("fakeAclSet"))(name, value);
  }

 private:
  void reset() const { reinterpret_cast<void (*)()>(library_->find("fakeAclReset"))(); }
  std::shared_ptr<const AclLibrary> library_;
};

}  // namespace reprise::device::ascend
