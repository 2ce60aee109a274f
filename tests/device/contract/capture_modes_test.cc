// The table of capture modes: which unsafe synchronous calls they forbid, and to whom.
#include "device/contract/contract.h"

namespace reprise::device::contract {
namespace {

class UnsafeCalls {
 public:
  UnsafeCalls(Device& device, Stream& stream, Storage& data) : device_(device), stream_(stream), data_(data) {}
  /// Whether the calling thread may make them; all four must agree.
  bool allowed() {
    std::vector<int32_t> host(4, 0);
    const bool copy = passes(ErrorCode::kCaptureForbidden,
                             [&] { device_.copy(host.data(), data_.data(), 16, CopyKind::kDeviceToHost); });
    const bool fill = passes(ErrorCode::kCaptureForbidden, [&] { device_.fill(data_.data(), 0, 16); });
    const bool read = passes(ErrorCode::kPageableMemory,
                             [&] { stream_.copy_async(host.data(), data_.data(), 16, CopyKind::kDeviceToHost); });
    const bool write = passes(ErrorCode::kPageableMemory,
                              [&] { stream_.copy_async(data_.data(), host.data(), 16, CopyKind::kHostToDevice); });
    EXPECT_TRUE(copy == fill && copy == read && copy == write);
    return copy;
  }

 private:
  static bool passes(ErrorCode expected, const std::function<void()>& call) {
    try {
      call();
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(error_code_name(error.code()), error_code_name(expected));
      return false;
    }
  }
  Device& device_;
  Stream& stream_;
  Storage& data_;
};

TEST_P(DeviceContract, ExchangeCaptureModeReturnsThePreviousOne) {
  EXPECT_EQ(device_->exchange_capture_mode(CaptureMode::kRelaxed), CaptureMode::kGlobal);
  EXPECT_EQ(device_->exchange_capture_mode(CaptureMode::kThreadLocal), CaptureMode::kRelaxed);
  on_other_thread([&] { EXPECT_EQ(device_->exchange_capture_mode(CaptureMode::kRelaxed), CaptureMode::kGlobal); });
  EXPECT_EQ(device_->exchange_capture_mode(CaptureMode::kGlobal), CaptureMode::kThreadLocal);
}

TEST_P(DeviceContract, WithoutACaptureEveryModeAllowsUnsafeCalls) {
  const auto stream = device_->create_stream();
  const auto data = buffer(0);
  UnsafeCalls calls(*device_, *stream, *data);
  for (const CaptureMode mode : kAllModes) {
    device_->exchange_capture_mode(mode);
    EXPECT_TRUE(calls.allowed()) << name_of(mode);
  }
  device_->exchange_capture_mode(CaptureMode::kGlobal);
}

TEST_P(DeviceContract, CaptureModesForbidUnsafeCallsByTheTable) {
  const auto capturing = device_->create_stream();
  const auto plain = device_->create_stream();
  const auto data = buffer(0);
  UnsafeCalls calls(*device_, *plain, *data);
  struct Row {
    CaptureMode capture;
    CaptureMode thread;
    bool own_thread_allowed;
    bool other_thread_allowed;
  };
  constexpr CaptureMode kG = CaptureMode::kGlobal;
  constexpr CaptureMode kT = CaptureMode::kThreadLocal;
  constexpr CaptureMode kR = CaptureMode::kRelaxed;
  const Row table[] = {{kG, kG, false, false}, {kG, kT, false, true}, {kG, kR, true, true},
                       {kT, kG, false, true},  {kT, kT, false, true}, {kT, kR, true, true},
                       {kR, kG, true, true},   {kR, kT, true, true},  {kR, kR, true, true}};
  for (const Row& row : table) {
    SCOPED_TRACE(std::string("capture ") + std::string(name_of(row.capture)) + ", thread " +
                 std::string(name_of(row.thread)));
    capturing->begin_capture(row.capture);
    const CaptureMode before = device_->exchange_capture_mode(row.thread);
    EXPECT_EQ(calls.allowed(), row.own_thread_allowed);
    on_other_thread([&] {
      device_->exchange_capture_mode(row.thread);
      EXPECT_EQ(calls.allowed(), row.other_thread_allowed);
    });
    device_->exchange_capture_mode(before);
    // A forbidden call does no harm to the capture.
    EXPECT_EQ(capturing->capture_info().status, CaptureStatus::kActive);
    capturing->end_capture();
  }
}

TEST_P(DeviceContract, TheStrictestLiveCaptureDecides) {
  const auto relaxed = device_->create_stream();
  const auto local = device_->create_stream();
  const auto global = device_->create_stream();
  const auto plain = device_->create_stream();
  const auto data = buffer(0);
  UnsafeCalls calls(*device_, *plain, *data);
  relaxed->begin_capture(CaptureMode::kRelaxed);
  EXPECT_TRUE(calls.allowed());
  local->begin_capture(CaptureMode::kThreadLocal);
  EXPECT_FALSE(calls.allowed());
  global->begin_capture(CaptureMode::kGlobal);
  on_other_thread([&] { EXPECT_FALSE(calls.allowed()); });
  global->end_capture();
  on_other_thread([&] { EXPECT_TRUE(calls.allowed()); });
  EXPECT_FALSE(calls.allowed());
  local->end_capture();
  EXPECT_TRUE(calls.allowed());
  relaxed->end_capture();
}

}  // namespace
}  // namespace reprise::device::contract
