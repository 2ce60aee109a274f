#pragma once

#include <cstddef>

namespace reprise {

/// Owner of a piece of device memory: an allocation, a mapped file, a part of an arena. Tensors share it.
class Storage {
 public:
  Storage(void* data, size_t bytes) : data_(data), bytes_(bytes) {}
  virtual ~Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  /// A device address: only device copies and kernels may dereference it.
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void* data_;
  size_t bytes_;
};

}  // namespace reprise
