#include "device/cpu/test_kernels.h"

#include <algorithm>

namespace reprise::device::cpu {
namespace {

struct ElementArguments {
  int32_t* data;
  int64_t count;
  int32_t value;
  int32_t unused = 0;  ///< fills the gap, which not every compiler can clear
};

template <typename Operation>
void for_tiles(const ElementArguments& arguments, int64_t first, int64_t last, Operation operation) {
  const int64_t end = std::min(last * kElementsPerTile, arguments.count);
  for (int64_t i = first * kElementsPerTile; i < end; ++i)
    arguments.data[i] = operation(arguments.data[i], arguments.value);
}

constexpr Kernel kAdd{"add.i32", [](const void* arguments, int64_t first, int64_t last) {
                        for_tiles(*static_cast<const ElementArguments*>(arguments), first, last,
                                  [](int32_t a, int32_t b) { return a + b; });
                      }};
constexpr Kernel kMultiply{"multiply.i32", [](const void* arguments, int64_t first, int64_t last) {
                             for_tiles(*static_cast<const ElementArguments*>(arguments), first, last,
                                       [](int32_t a, int32_t b) { return a * b; });
                           }};

struct ListArguments {
  int32_t* data;
};
/// One tile for each entry of the list.
constexpr Kernel kStoreList{"store_list.i32", [](const void* arguments, int64_t first, int64_t last) {
                              const int32_t* list = tail_of<ListArguments>(arguments);
                              int32_t* data = static_cast<const ListArguments*>(arguments)->data;
                              for (int64_t i = first; i < last; ++i) data[i] = list[i];
                            }};

class CpuTestKernels : public contract::TestKernels {
 public:
  void add(Stream& stream, void* data, int64_t count, int32_t value) override {
    launch(stream, kAdd, data, count, value);
  }
  void multiply(Stream& stream, void* data, int64_t count, int32_t value) override {
    launch(stream, kMultiply, data, count, value);
  }
  void store_list(Stream& stream, void* data, std::span<const int32_t> list) override {
    dynamic_cast<CpuStream&>(stream).launch(kStoreList, static_cast<int64_t>(list.size()),
                                            ListArguments{static_cast<int32_t*>(data)}, list);
  }

 private:
  static void launch(Stream& stream, const Kernel& kernel, void* data, int64_t count, int32_t value) {
    const int64_t tiles = (count + kElementsPerTile - 1) / kElementsPerTile;
    dynamic_cast<CpuStream&>(stream).launch(kernel, tiles, ElementArguments{static_cast<int32_t*>(data), count, value});
  }
};

}  // namespace

std::unique_ptr<contract::TestKernels> make_test_kernels() { return std::make_unique<CpuTestKernels>(); }

contract::Subject cpu_subject(const std::string& name, CpuOptions options) {
  return {name, [options] { return create_cpu_device(options); }, make_test_kernels};
}

}  // namespace reprise::device::cpu
