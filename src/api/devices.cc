#include "api/devices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/log.h"
#include "device/ascend/ascend_device.h"
#include "device/ascend/device_report.h"
#include "device/cpu/cpu_device.h"
#include "kernels/ascend/model_support.h"
#include "kernels/ascend/register_ascend_kernels.h"
#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/register_cpu_kernels.h"
#include "kernels/cpu/register_empty_kernels.h"

namespace reprise::api {
namespace {

enum class DeviceKind { kAuto, kCpu, kAscend };

struct ParsedName {
  DeviceKind kind = DeviceKind::kAuto;
  int number = 0;
};

ParsedName parse_name(std::string_view name) {
  if (name == "auto") return {DeviceKind::kAuto, 0};
  if (name == "cpu") return {DeviceKind::kCpu, 0};
  constexpr std::string_view kAscend = "ascend";
  if (name.starts_with(kAscend)) {
    std::string_view rest = name.substr(kAscend.size());
    if (rest.empty()) return {DeviceKind::kAscend, 0};
    int number = 0;
    const auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), number);
    if (rest.size() > 1 && rest[0] == ':' && rest[1] != '-' && error == std::errc() && end == rest.data() + rest.size())
      return {DeviceKind::kAscend, number};
  }
  throw Error(ErrorCode::kInvalidArgument, "there is no device '{}'", name)
      .remedy("use auto, cpu, ascend or ascend:N; `reprise devices` lists what there is");
}

/// The environment's word, which "auto" follows.
std::optional<ParsedName> named_by_environment() {
  const char* name = std::getenv("REPRISE_DEVICE");
  if (name == nullptr || *name == '\0') return std::nullopt;
  try {
    return parse_name(name);
  } catch (Error& error) {
    error.add_context("REPRISE_DEVICE");
    throw;
  }
}

device::ascend::AscendOptions ascend_options(int number) {
  device::ascend::AscendOptions options;
  options.device_id = number;
  if (const char* seconds = std::getenv("REPRISE_DEVICE_WAIT_SECONDS"); seconds != nullptr && *seconds != '\0') {
    const std::string_view text(seconds);
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > 86400) {
      throw Error(ErrorCode::kInvalidArgument, "REPRISE_DEVICE_WAIT_SECONDS is '{}', must be from 1 to 86400", text);
    }
    options.wait_limit_ms = value * 1000;
  }
  return options;
}

/// An Ascend device is taken unless it is an emulated one, or options of the CPU are given.
ParsedName choose(const DeviceRequest& request) {
  const std::optional<ParsedName> named = named_by_environment();
  if (named && named->kind != DeviceKind::kAuto) return *named;
  const bool for_cpu = request.threads != 0 || request.discrete;
  return {!for_cpu && device::ascend::has_real_device() ? DeviceKind::kAscend : DeviceKind::kCpu, 0};
}

/// Of settings that only the CPU has.
void check_ascend(const DeviceRequest& request, int number) {
  if (request.threads != 0)
    throw Error(ErrorCode::kInvalidArgument, "--threads {}: ascend:{} has no threads", request.threads, number)
        .remedy("leave --threads away, or use --device cpu");
  if (request.discrete)
    throw Error(ErrorCode::kInvalidArgument,
                "memory that the host cannot reach is a setting of the CPU; ascend:{} "
                "always has such memory",
                number);
}

void check_named(const DeviceRequest& request, const ParsedName& name) {
  if (name.kind == DeviceKind::kAscend) check_ascend(request, name.number);
}

std::unique_ptr<device::Device> open_cpu(const DeviceRequest& request, ops::Registry& registry) {
  if (request.threads < 0) {
    throw Error(ErrorCode::kInvalidArgument, "--threads is {}, must be at least 1 (0: by CPU quota)", request.threads);
  }
  kernels::cpu::register_cpu_kernels(registry);
  return device::cpu::create_cpu_device({.threads = request.threads, .discrete = request.discrete});
}

std::unique_ptr<device::Device> open_ascend(int number, ops::Registry& registry) {
  std::unique_ptr<device::Device> device = device::ascend::create_ascend_device(ascend_options(number));
  kernels::ascend::register_ascend_kernels(registry, *device);
  if (const std::string why = kernels::ascend::why_no_models(registry); !why.empty()) {
    throw Error(ErrorCode::kUnsupported, "models cannot run on ascend:{}: {}", number, why)
        .remedy("use an NPU of another kind (`reprise devices` tells what each lacks), or --device cpu");
  }
  const char* execute = std::getenv("REPRISE_ACL_EXECUTE");
  if (device->modelled_costs() && execute != nullptr && std::string_view(execute) == "0") {
    log_warning("REPRISE_ACL_EXECUTE is 0: the emulated device computes nothing, so texts and numbers mean nothing");
  }
  return device;
}

}  // namespace

void check_device(const DeviceRequest& request) { check_named(request, parse_name(request.name)); }

std::unique_ptr<device::Device> open_device(const DeviceRequest& request, ops::Registry& registry) {
  ParsedName name = parse_name(request.name);
  if (name.kind == DeviceKind::kAuto) name = choose(request);
  check_named(request, name);
  return name.kind == DeviceKind::kAscend ? open_ascend(name.number, registry) : open_cpu(request, registry);
}

std::string describe(const device::Device& device) {
  const std::string& text = device.capabilities().description;
  if (device.name() != "cpu") return text;
  return fmt::format("{}; {} kernels", text, name_of(kernels::cpu::instruction_set_from_environment()));
}

ops::Registry with_empty_kernels(const ops::Registry& registry, const device::Device& device) {
  if (device.name() != "cpu") {
    throw Error(ErrorCode::kUnsupported, "there are no empty kernels for the device '{}'", device.name());
  }
  return kernels::cpu::with_empty_cpu_kernels(registry);
}

// ---- listing

namespace {

/// Opens the device once more, as a model would find it.
std::string why_no_models_on(int number) {
  try {
    const std::unique_ptr<device::Device> device = device::ascend::create_ascend_device(ascend_options(number));
    ops::Registry registry = ops::make_catalogue();
    kernels::ascend::register_ascend_kernels(registry, *device);
    return kernels::ascend::why_no_models(registry);
  } catch (const Error& error) {
    return error.message();
  }
}

DeviceListing::Entry describe_ascend(const device::ascend::AscendReport& report,
                                     const device::ascend::AscendReport::DeviceLine& line) {
  DeviceListing::Entry entry;
  entry.name = fmt::format("ascend:{}", line.id);
  entry.failure = line.failure;
  if (!line.failure.empty()) return entry;
  entry.description = fmt::format("{}{}, {} cube and {} vector cores", line.name, report.emulator ? " (emulated)" : "",
                                  line.cube_cores, line.vector_cores);
  entry.memory = line.memory;
  entry.facts.push_back(fmt::format("runtime {}", report.version.empty() ? "of unknown version" : report.version));
  entry.facts.push_back(fmt::format("{} streams and {} events for captured graphs, which hold {} stream{}",
                                    line.streams, line.events, line.graphs_hold_streams ? "a" : "no",
                                    line.graphs_hold_streams ? " each" : "s"));
  for (const auto& feature : line.features) entry.features.push_back({feature.name, feature.why_not, feature.without});
  entry.features.push_back({"models", why_no_models_on(line.id), "they are refused"});
  return entry;
}

}  // namespace

DeviceListing list_devices() {
  DeviceListing listing;
  const std::unique_ptr<device::Device> cpu = device::cpu::create_cpu_device();
  listing.devices.push_back({"cpu", describe(*cpu), "", cpu->memory_info(), {}, {}});
  const device::ascend::AscendReport report = device::ascend::report_ascend();
  for (const auto& line : report.devices) listing.devices.push_back(describe_ascend(report, line));
  if (!report.libraries.empty()) listing.notes.push_back(fmt::format("opened {}", fmt::join(report.libraries, ", ")));
  if (!report.failure.empty()) listing.notes.push_back(fmt::format("ascend: {}", report.failure));
  if (report.emulator)
    listing.notes.emplace_back("an emulated device is used only where it is named: --device ascend, or REPRISE_DEVICE");
  return listing;
}

}  // namespace reprise::api
