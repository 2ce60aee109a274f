#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "device/device.h"

namespace reprise::device::contract {

inline constexpr CaptureMode kAllModes[] = {CaptureMode::kGlobal, CaptureMode::kThreadLocal, CaptureMode::kRelaxed};

/// The kernels that a device lends to the contract's tests. All work on int32 elements in device memory.
class TestKernels {
 public:
  virtual ~TestKernels() = default;
  /// data[i] += value
  virtual void add(Stream& stream, void* data, int64_t count, int32_t value) = 0;
  /// data[i] *= value. Another kind of kernel than add, as far as task updates are concerned.
  virtual void multiply(Stream& stream, void* data, int64_t count, int32_t value) = 0;
  /// data[i] = list[i] for a list in host memory, read at the call: a host-tiled operator.
  virtual void store_list(Stream& stream, void* data, std::span<const int32_t> list) = 0;
};

/// How a device takes part in the contract: INSTANTIATE_TEST_SUITE_P(Name, DeviceContract, testing::Values(...)).
struct Subject {
  std::string name;
  std::function<std::unique_ptr<Device>()> make_device;
  std::function<std::unique_ptr<TestKernels>()> make_kernels;
  friend void PrintTo(const Subject& subject, std::ostream* stream) { *stream << subject.name; }
};

/// What AscendCL's model capture and CUDA graphs agree on, in Reprise's terms: every device must pass.
class DeviceContract : public testing::TestWithParam<Subject> {
 protected:
  DeviceContract() : device_(GetParam().make_device()), kernels_(GetParam().make_kernels()) {}

  static constexpr int64_t kCount = 100;

  /// A buffer of kCount elements (or more) that all have this value.
  std::shared_ptr<Storage> buffer(int32_t value, int64_t count = kCount) {
    std::shared_ptr<Storage> storage = device_->allocate(static_cast<size_t>(count) * sizeof(int32_t));
    write(*storage, std::vector<int32_t>(static_cast<size_t>(count), value));
    return storage;
  }
  void write(Storage& storage, const std::vector<int32_t>& values) {
    const CaptureMode before = device_->exchange_capture_mode(CaptureMode::kRelaxed);
    device_->copy(storage.data(), values.data(), values.size() * sizeof(int32_t), CopyKind::kHostToDevice);
    device_->exchange_capture_mode(before);
  }
  std::vector<int32_t> read(const Storage& storage) {
    std::vector<int32_t> values(storage.bytes() / sizeof(int32_t));
    const CaptureMode before = device_->exchange_capture_mode(CaptureMode::kRelaxed);
    device_->copy(values.data(), storage.data(), storage.bytes(), CopyKind::kDeviceToHost);
    device_->exchange_capture_mode(before);
    return values;
  }
  void expect_all(const Storage& storage, int32_t value) {
    EXPECT_EQ(read(storage), std::vector<int32_t>(storage.bytes() / sizeof(int32_t), value));
  }
  void add(Stream& stream, Storage& storage, int32_t value) {
    kernels_->add(stream, storage.data(), static_cast<int64_t>(storage.bytes() / sizeof(int32_t)), value);
  }
  void multiply(Stream& stream, Storage& storage, int32_t value) {
    kernels_->multiply(stream, storage.data(), static_cast<int64_t>(storage.bytes() / sizeof(int32_t)), value);
  }
  /// A graph that adds `value` to the buffer.
  std::unique_ptr<CapturedGraph> capture_add(Stream& stream, Storage& storage, int32_t value) {
    stream.begin_capture(CaptureMode::kThreadLocal);
    add(stream, storage, value);
    return stream.end_capture();
  }
  /// After a failure: an eager launch, and a capture with its replay, work on the stream.
  void expect_usable(Stream& stream) {
    const std::shared_ptr<Storage> data = buffer(1);
    add(stream, *data, 2);
    stream.synchronize();
    expect_all(*data, 3);
    capture_add(stream, *data, 4)->replay(stream);
    stream.synchronize();
    expect_all(*data, 7);
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<TestKernels> kernels_;
};

/// Runs a function on another thread and waits for it.
inline void on_other_thread(const std::function<void()>& function) { std::thread(function).join(); }

/// The code of the Error that the function throws; nothing (and a test failure) when it throws none.
inline ErrorCode error_of(const std::function<void()>& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return ErrorCode::kInternal;
}

#define EXPECT_ERROR(code, statement)                                                              \
  EXPECT_EQ(::reprise::error_code_name(::reprise::device::contract::error_of([&] { statement; })), \
            ::reprise::error_code_name(code))

}  // namespace reprise::device::contract
