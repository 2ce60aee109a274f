#include "kernels/cpu/register_empty_kernels.h"

#include "kernels/cpu/register_common.h"

namespace reprise::kernels::cpu {
namespace {

/// The name under which the copy keeps the kernels that it replaces.
constexpr std::string_view kReplaced = "cpu.replaced";

constexpr device::cpu::Kernel kEmptyKernel = {"empty", [](const void*, int64_t, int64_t) {}};

/// Passes launches on with the empty kernel in the place of theirs. Kernels use nothing else of a stream.
class EmptyingStream final : public device::cpu::CpuStream {
 public:
  explicit EmptyingStream(device::cpu::CpuStream& target) : target_(target) {}

  void launch(const device::cpu::Kernel&, int64_t tiles, std::span<const std::byte> arguments,
              std::span<const std::byte> tail) override {
    target_.launch(kEmptyKernel, tiles, arguments, tail);
  }

  device::Device& device() override { return target_.device(); }
  const device::StreamOptions& options() const override { return target_.options(); }
  void synchronize() override { target_.synchronize(); }
  bool synchronize_for(int timeout_ms) override { return target_.synchronize_for(timeout_ms); }
  bool query() override { return target_.query(); }
  void copy_async(void* destination, const void* source, size_t bytes, device::CopyKind kind) override {
    target_.copy_async(destination, source, bytes, kind);
  }
  void fill_async(void* destination, unsigned char value, size_t bytes) override {
    target_.fill_async(destination, value, bytes);
  }
  void host_function(void (*function)(void* data), void* data) override { target_.host_function(function, data); }
  void record(device::Event& event) override { target_.record(event); }
  void wait(device::Event& event) override { target_.wait(event); }
  void begin_capture(device::CaptureMode mode) override { target_.begin_capture(mode); }
  std::unique_ptr<device::CapturedGraph> end_capture() override { return target_.end_capture(); }
  device::CaptureInfo capture_info() override { return target_.capture_info(); }
  void begin_task_group() override { target_.begin_task_group(); }
  device::TaskGroup* end_task_group() override { return target_.end_task_group(); }
  void begin_task_update(device::TaskGroup& group) override { target_.begin_task_update(group); }
  void end_task_update() override { target_.end_task_update(); }
  void set_core_limit(device::CoreLimit limit) override { target_.set_core_limit(limit); }
  device::CoreLimit core_limit() const override { return target_.core_limit(); }
  void close() override { target_.close(); }

 private:
  device::cpu::CpuStream& target_;
};

void run_empty(const ops::OpCall& call) {
  EmptyingStream stream(stream_of(call));
  ops::OpCall replaced = call;
  replaced.stream = &stream;
  call.op.kernel(kReplaced)->run(replaced);
}

}  // namespace

ops::Registry with_empty_cpu_kernels(const ops::Registry& registry) {
  ops::Registry copy = registry.clone();
  for (const ops::OpDef* op : registry.list()) {
    const ops::OpKernel* kernel = op->kernel(kDeviceName);
    if (kernel == nullptr) continue;
    ops::OpDef& target = copy.get(op->name());
    target.set_kernel(std::string(kReplaced), *kernel);
    ops::OpKernel empty = *kernel;
    empty.run = run_empty;
    target.set_kernel(std::string(kDeviceName), empty);
  }
  return copy;
}

}  // namespace reprise::kernels::cpu
