#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "api/devices.h"
#include "cli/commands.h"
#include "cli/input.h"

namespace reprise::cli {
namespace {

struct DevicesOptions {
  bool json = false;
  bool verbose = false;
};

double gigabytes(size_t bytes) { return static_cast<double>(bytes) * 1e-9; }

std::string devices_text(const api::DeviceListing& listing, bool verbose) {
  std::string text;
  for (const api::DeviceListing::Entry& entry : listing.devices) {
    if (!entry.failure.empty()) {
      text += fmt::format("{:<10} cannot be opened: {}\n", entry.name, entry.failure);
      continue;
    }
    text += fmt::format("{:<10} {}\n", entry.name, entry.description);
    text += fmt::format("           {:.1f} GB of memory, {:.1f} GB free\n", gigabytes(entry.memory.total_bytes),
                        gigabytes(entry.memory.available_bytes));
    for (const std::string& fact : entry.facts) text += fmt::format("           {}\n", fact);
    for (const api::DeviceListing::Feature& feature : entry.features) {
      if (!feature.why_not.empty()) {
        text += fmt::format("           off: {}: {}; {}\n", feature.name, feature.why_not, feature.without);
      } else if (verbose) {
        text += fmt::format("           on:  {}\n", feature.name);
      }
    }
  }
  for (const std::string& note : listing.notes) text += fmt::format("{}\n", note);
  return text;
}

nlohmann::ordered_json devices_json(const api::DeviceListing& listing) {
  using Json = nlohmann::ordered_json;
  Json json{{"devices", Json::array()}, {"notes", listing.notes}};
  for (const api::DeviceListing::Entry& entry : listing.devices) {
    Json device{{"name", entry.name}};
    if (!entry.failure.empty()) {
      device["failure"] = entry.failure;
    } else {
      device["description"] = entry.description;
      device["total_bytes"] = entry.memory.total_bytes;
      device["available_bytes"] = entry.memory.available_bytes;
      device["facts"] = entry.facts;
      device["features"] = Json::array();
      for (const api::DeviceListing::Feature& feature : entry.features) {
        device["features"].push_back({{"name", feature.name},
                                      {"on", feature.why_not.empty()},
                                      {"reason", feature.why_not},
                                      {"instead", feature.without}});
      }
    }
    json["devices"].push_back(std::move(device));
  }
  return json;
}

int run_devices(const DevicesOptions& options) {
  const api::DeviceListing listing = api::list_devices();
  write_output(options.json ? devices_json(listing).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
                            : devices_text(listing, options.verbose));
  return 0;
}

}  // namespace

void add_devices(CommandLine& program) {
  CommandLine& command = program.command("devices", "List the devices, what they can do, and why something is off");
  const auto options = std::make_shared<DevicesOptions>();
  command.flag("-v,--verbose", options->verbose, "also list what is on");
  command.flag("--json", options->json, "print one JSON object");
  command.on_run([options] { return run_devices(*options); });
}

}  // namespace reprise::cli
