// What the device does with an AscendCL that lacks something, or in which something fails.
#include "device/ascend/acl_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "device/ascend/acl_error.h"
#include "device/ascend/fake_acl.h"
#include "device/contract/contract.h"

namespace reprise::device::ascend {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// What the error that a function throws says; nothing (and a test failure) when it throws none.
template <typename Function>
std::string message_of(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(AclLibrary, WithoutLibrariesTheErrorSaysWhatWasTriedAndWhatToDo) {
  const auto open = [] { AclLibrary::open({.folder = "/nowhere", .hide = nullptr}); };
  EXPECT_ERROR(ErrorCode::kNotFound, open());
  EXPECT_THAT(message_of(open), AllOf(HasSubstr("/nowhere/libacl_rt.so"), HasSubstr("/nowhere/libascendcl.so"),
                                      HasSubstr("set_env.sh"), HasSubstr("--device cpu")));
}

TEST(AclLibrary, MissingSymbolsTurnOffTheFeaturesThatNeedThem) {
  const FakeAcl fake;
  const FeatureSet& features = fake.library().features();
  for (const Feature feature : {Feature::kRuntime, Feature::kVersion, Feature::kErrorText})
    EXPECT_TRUE(features.has(feature)) << features.why_not(feature);
  EXPECT_THAT(features.why_not(Feature::kValueWait),
              AllOf(HasSubstr("aclrtValueWait, aclrtValueWrite are not in"), HasSubstr("libascendcl.so")));
  EXPECT_THAT(features.why_not(Feature::kGraph), HasSubstr("aclmdlRICaptureBegin"));
  EXPECT_THAT(features.why_not(Feature::kHostFunction), HasSubstr("aclrtLaunchHostFunc is not in"));
  EXPECT_EQ(features.why_not(Feature::kTaskUpdate).empty(), false);
  EXPECT_EQ(fake.library().version(), "1.8.2");
  EXPECT_FALSE(fake.library().is_emulator());
  EXPECT_EQ(fake.library().find("aclnnAdd"), nullptr);
}

TEST(AclLibrary, AHiddenSymbolCostsItsFeatureAlone) {
  const FakeAcl fake;
  LibraryOptions options = FakeAcl::options();
  options.hide = [](std::string_view symbol) { return symbol == "aclrtGetVersion"; };
  const auto library = AclLibrary::open(options);
  EXPECT_EQ(library->version(), "");
  EXPECT_THAT(library->features().why_not(Feature::kVersion), HasSubstr("aclrtGetVersion is not in"));
  EXPECT_TRUE(library->features().has(Feature::kErrorText));
}

TEST(AclLibrary, WithoutWhatEveryDeviceNeedsTheLibraryIsRefused) {
  LibraryOptions options = FakeAcl::options();
  options.hide = [](std::string_view symbol) { return symbol == "aclrtCreateEventExWithFlag"; };
  EXPECT_ERROR(ErrorCode::kUnsupported, AclLibrary::open(options));
  EXPECT_THAT(message_of([&] { AclLibrary::open(options); }),
              AllOf(HasSubstr("too old"), HasSubstr("aclrtCreateEventExWithFlag is not in")));
}

TEST(AclLibrary, IsInitialisedOnceForAllDevicesAndFinalisedWithTheLast) {
  int (*initialised)() = nullptr;
  {
    const FakeAcl fake;
    initialised = reinterpret_cast<int (*)()>(fake.library().find("fakeAclInitialised"));
    const auto first = create_ascend_device(FakeAcl::device_options());
    const auto second = create_ascend_device(FakeAcl::device_options());
    EXPECT_EQ(initialised(), 1);
  }
  EXPECT_EQ(initialised(), 0);
}

TEST(AclError, SaysWhatWasDoneTheCodeTheRuntimesWordsAndTheRemedy) {
  const FakeAcl fake;
  fake.set("message", 1);
  const Error error =
      acl_error(fake.library(), ACL_ERROR_RT_NO_STREAM_RESOURCE, "aclmdlRICaptureBegin", "beginning a capture");
  EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(error.message(),
            "beginning a capture: aclmdlRICaptureBegin answers 207008 (NO_STREAM_RESOURCE): EL0004: Failed to allocate "
            "memory.");
  EXPECT_THAT(error.remedy_text(), HasSubstr("fewer batch sizes"));
}

TEST(AclError, EveryCodeOfTheInterfaceHasAKindAndTheUnknownOnesTheirNumber) {
  EXPECT_EQ(error_code_of(ACL_ERROR_RT_STREAM_CAPTURED), ErrorCode::kStreamCapturing);
  EXPECT_EQ(error_code_of(ACL_ERROR_STREAM_CAPTURE_CONFLICT), ErrorCode::kCaptureConflict);
  EXPECT_EQ(error_code_of(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED), ErrorCode::kCaptureInvalidated);
  EXPECT_EQ(error_code_of(ACL_ERROR_RT_DEVICE_OOM), ErrorCode::kOutOfMemory);
  EXPECT_EQ(error_code_of(ACLNN_ERR_PARAM_INVALID), ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_code_of(424242), ErrorCode::kInternal);
  EXPECT_EQ(acl_code_text(424242), "424242 (unknown code)");
}

// ---- a device without graphs

TEST(OldAscend, RunsEagerlyAndRefusesCapturesWithTheReason) {
  const FakeAcl fake;
  const auto device = create_ascend_device(FakeAcl::device_options());
  EXPECT_THAT(device->capabilities().description,
              AllOf(HasSubstr("Ascend910B4"), HasSubstr("no captured graphs: steps run eagerly")));
  EXPECT_FALSE(device->capabilities().task_update);
  EXPECT_FALSE(device->capabilities().external_events);
  EXPECT_EQ(device->capabilities().preferred_update_order, UpdateOrder::kUpdateThenReplay);
  const auto stream = device->create_stream();
  const auto memory = device->allocate(100);
  stream->fill_async(memory->data(), 7, 100);
  stream->synchronize();
  EXPECT_TRUE(stream->query());
  std::vector<unsigned char> host(100);
  device->copy(host.data(), memory->data(), 100, CopyKind::kDeviceToHost);
  EXPECT_EQ(host, std::vector<unsigned char>(100, 7));
  EXPECT_ERROR(ErrorCode::kUnsupported, stream->begin_capture(CaptureMode::kThreadLocal));
  EXPECT_THAT(message_of([&] { stream->begin_capture(CaptureMode::kThreadLocal); }),
              AllOf(HasSubstr("captured graphs"), HasSubstr("aclmdlRICaptureBegin")));
  EXPECT_ERROR(ErrorCode::kUnsupported, device->create_event(EventKind::kExternal));
  EXPECT_ERROR(ErrorCode::kUnsupported, stream->host_function([](void*) {}, nullptr));
  EXPECT_ERROR(ErrorCode::kUnsupported, stream->set_core_limit({1, 1}));
  stream->set_core_limit({});
  EXPECT_EQ(device->exchange_capture_mode(CaptureMode::kRelaxed), CaptureMode::kGlobal);
  EXPECT_EQ(device->exchange_capture_mode(CaptureMode::kGlobal), CaptureMode::kRelaxed);
  device->synchronize();
}

TEST(OldAscend, EventsOfEagerStreamsWorkWithoutTimedWaits) {
  const FakeAcl fake;
  const auto device = create_ascend_device(FakeAcl::device_options());
  const auto stream = device->create_stream();
  const auto event = device->create_event();
  EXPECT_TRUE(event->query());
  stream->record(*event);
  stream->wait(*event);
  event->synchronize();
  EXPECT_TRUE(event->query());
}

TEST(Ascend, AWaitEndsInAnErrorInsteadOfAHang) {
  const FakeAcl fake;
  const auto device = create_ascend_device(FakeAcl::device_options(30));
  const auto stream = device->create_stream({.priority = 0, .name = "stuck"});
  const auto event = device->create_event();
  const auto memory = device->allocate(64);
  stream->fill_async(memory->data(), 0, 64);
  stream->record(*event);
  fake.set("busy", 1);
  EXPECT_FALSE(stream->synchronize_for(5));
  EXPECT_ERROR(ErrorCode::kInternal, stream->synchronize());
  EXPECT_THAT(message_of([&] { stream->synchronize(); }), AllOf(HasSubstr("'stuck'"), HasSubstr("0.0 s")));
  EXPECT_ERROR(ErrorCode::kInternal, event->synchronize());
  EXPECT_ERROR(ErrorCode::kInternal, device->synchronize());
  EXPECT_ERROR(ErrorCode::kInternal, stream->close());
  // The destructors give up as well.
}

TEST(Ascend, MemoryThatQueuedWorkMayUseIsNotGivenOutAgain) {
  const FakeAcl fake;
  const auto device = create_ascend_device(FakeAcl::device_options(100));
  const auto stream = device->create_stream();
  auto memory = device->allocate(1000);
  void* address = memory->data();
  stream->fill_async(address, 0, 1000);
  fake.set("busy", 1);
  memory.reset();
  EXPECT_NE(device->allocate(1000)->data(), address);
  fake.set("busy", 0);
  stream->synchronize();
  const auto first = device->allocate(1000);
  const auto second = device->allocate(1000);
  EXPECT_TRUE(first->data() == address || second->data() == address);
  // The 32 bytes that vector units may read behind a tensor are its own.
  EXPECT_NE(static_cast<std::byte*>(device->allocate(64)->data()) + 64, device->allocate(64)->data());
}

TEST(Ascend, CachedMemoryIsGivenBackBeforeAnAllocationFails) {
  const FakeAcl fake;
  const auto device = create_ascend_device(FakeAcl::device_options());
  device->allocate(size_t{40} << 20).reset();
  fake.set("malloc_failures", 1);
  EXPECT_NE(device->allocate(size_t{90} << 20)->data(), nullptr);
  fake.set("malloc_failures", 2);
  EXPECT_ERROR(ErrorCode::kOutOfMemory, device->allocate(size_t{200} << 20));
  EXPECT_NE(device->allocate(size_t{200} << 20)->data(), nullptr);
}

TEST(Ascend, OutOfMemoryTellsWhoHasIt) {
  const FakeAcl fake;
  const auto device = create_ascend_device(FakeAcl::device_options());
  const auto mine = device->allocate(size_t{100} << 20);
  fake.set("free", 300 << 20);
  EXPECT_THAT(message_of([&] { device->allocate(size_t{400} << 20); }),
              AllOf(HasSubstr("allocating 419430400 bytes"), HasSubstr("207001"), HasSubstr("314572800 are free"),
                    HasSubstr("another process holds memory of the device")));
  fake.set("free", (1 << 30) - (102 << 20));
  EXPECT_THAT(message_of([&] { device->allocate(size_t{1} << 30); }), HasSubstr("lower --kv-tokens"));
}

TEST(Ascend, ADeviceThatIsNotThereIsNamed) {
  const FakeAcl fake;
  AscendOptions options = FakeAcl::device_options();
  options.device_id = 2;
  EXPECT_ERROR(ErrorCode::kInvalidArgument, create_ascend_device(options));
  EXPECT_THAT(message_of([&] { create_ascend_device(options); }),
              HasSubstr("there is no device ascend:2: the devices are 0 to 1"));
  fake.set("devices", 0);
  EXPECT_ERROR(ErrorCode::kNotFound, create_ascend_device(FakeAcl::device_options()));
  fake.set("devices", -1);
  EXPECT_ERROR(ErrorCode::kNotFound, create_ascend_device(FakeAcl::device_options()));
  EXPECT_THAT(message_of([&] { create_ascend_device(FakeAcl::device_options()); }),
              AllOf(HasSubstr("507000"), HasSubstr("npu-smi")));
}

TEST(Ascend, WhatSomebodyElseLeavesOfADeviceCanBeUsed) {
  const FakeAcl fake;
  fake.set("free", 8 << 20);
  const auto device = create_ascend_device(FakeAcl::device_options());
  EXPECT_NE(device->allocate(1 << 20)->data(), nullptr);
}

TEST(Ascend, AFailureAtOpeningIsTranslated) {
  const FakeAcl fake;
  fake.set("set_device", ACL_ERROR_RT_INTERNAL_ERROR);
  EXPECT_THAT(message_of([&] { create_ascend_device(FakeAcl::device_options()); }),
              AllOf(HasSubstr("opening ascend:0: aclrtSetDevice answers 507000")));
  fake.set("set_device", 0);
  fake.set("stream", ACL_ERROR_RT_NO_STREAM_RESOURCE);
  EXPECT_ERROR(ErrorCode::kResourceExhausted, create_ascend_device(FakeAcl::device_options()));
}

}  // namespace
}  // namespace reprise::device::ascend
