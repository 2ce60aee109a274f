#ifdef REPRISE_EMULATOR_DIR
#include "device/ascend/test_kernels.h"

#include <atomic>
#include <cstring>
#include <vector>

#include "base/hash.h"
#include "device/ascend/ascend_stream.h"
#include "device/ascend/library_under_test.h"
#include "emulator/kernel.h"

namespace reprise::device::ascend {
namespace {

using emulator::Kernel;
using emulator::KernelType;

/// Where the emulator says that device memory is; set with the first launch.
std::atomic<void* (*)(const void*, size_t)> host_address = nullptr;

struct ElementArguments {
  int32_t* data;
  int64_t count;
  int32_t value;
  int32_t unused;  ///< fills the gap, so that equal arguments are equal bytes
};

template <typename Operation>
bool for_elements(const void* arguments, Operation operation) {
  const auto& element = *static_cast<const ElementArguments*>(arguments);
  if (element.count == 0) return true;
  auto* data =
      static_cast<int32_t*>(host_address.load()(element.data, static_cast<size_t>(element.count) * sizeof(int32_t)));
  if (data == nullptr) return false;
  for (int64_t i = 0; i < element.count; ++i) data[i] = operation(data[i], element.value);
  return true;
}

const Kernel kAdd{.name = "add.i32", .type = KernelType::kVector, .run = [](const void* arguments, size_t, uint32_t) {
                    return for_elements(arguments, [](int32_t a, int32_t b) { return a + b; });
                  }};
// Of another type than kAdd: that is what an update must keep.
const Kernel kMultiply{
    .name = "multiply.i32", .type = KernelType::kAiCore, .run = [](const void* arguments, size_t, uint32_t) {
      return for_elements(arguments, [](int32_t a, int32_t b) { return a * b; });
    }};

struct ListArguments {
  int32_t* data;
};
/// The list follows the arguments.
const Kernel kStoreList{
    .name = "store_list.i32", .type = KernelType::kVector, .run = [](const void* arguments, size_t bytes, uint32_t) {
      const size_t list_bytes = bytes - sizeof(ListArguments);
      if (list_bytes == 0) return true;
      void* data = host_address.load()(static_cast<const ListArguments*>(arguments)->data, list_bytes);
      if (data == nullptr) return false;
      std::memcpy(data, static_cast<const std::byte*>(arguments) + sizeof(ListArguments), list_bytes);
      return true;
    }};

/// A launch of a kernel whose arguments begin with the address of its memory.
class KernelLaunch : public PreparedLaunch {
 public:
  KernelLaunch(const AclLibrary& library, const Kernel& kernel, std::vector<std::byte> arguments)
      : library_(library), kernel_(kernel), arguments_(std::move(arguments)) {
    std::memcpy(&address_, arguments_.data(), sizeof(address_));
  }
  int issue(aclrtStream stream) override {
    return library_.aclrtLaunchKernelV2(const_cast<Kernel*>(&kernel_), 1, arguments_.data(), arguments_.size(), nullptr,
                                        stream);
  }
  const char* name() const override { return kernel_.name; }
  uint64_t digest() const override { return hash_bytes(std::span(arguments_).subspan(sizeof(address_))); }
  std::span<const void* const> addresses() const override { return {&address_, 1}; }

 private:
  const AclLibrary& library_;
  const Kernel& kernel_;
  std::vector<std::byte> arguments_;
  const void* address_ = nullptr;
};

class EmulatorKernels : public contract::TestKernels {
 public:
  void add(Stream& stream, void* data, int64_t count, int32_t value) override {
    launch(stream, kAdd, ElementArguments{static_cast<int32_t*>(data), count, value, 0}, {});
  }
  void multiply(Stream& stream, void* data, int64_t count, int32_t value) override {
    launch(stream, kMultiply, ElementArguments{static_cast<int32_t*>(data), count, value, 0}, {});
  }
  void store_list(Stream& stream, void* data, std::span<const int32_t> list) override {
    launch(stream, kStoreList, ListArguments{static_cast<int32_t*>(data)}, std::as_bytes(list));
  }

 private:
  template <typename Arguments>
  static void launch(Stream& stream, const Kernel& kernel, const Arguments& arguments,
                     std::span<const std::byte> tail) {
    auto& own = dynamic_cast<AscendStream&>(stream);
    host_address = reinterpret_cast<void* (*)(const void*, size_t)>(own.library().find("emulatorHostAddress"));
    std::vector<std::byte> bytes(sizeof(Arguments) + tail.size());
    std::memcpy(bytes.data(), &arguments, sizeof(Arguments));
    if (!tail.empty()) std::memcpy(bytes.data() + sizeof(Arguments), tail.data(), tail.size());
    const LimitScope scope(own);
    own.launch(std::make_unique<KernelLaunch>(own.library(), kernel, std::move(bytes)));
  }
};

}  // namespace

AscendOptions emulator_options() {
  constexpr int kMilliseconds = 20000;
  return options_under_test(kMilliseconds);
}

std::unique_ptr<contract::TestKernels> make_test_kernels() {
  if (tests_system_libraries()) return make_operator_kernels();
  return std::make_unique<EmulatorKernels>();
}

}  // namespace reprise::device::ascend

#endif  // REPRISE_EMULATOR_DIR
