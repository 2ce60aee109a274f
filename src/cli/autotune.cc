#include "cli/autotune.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/devices.h"
#include "base/error.h"
#include "base/log.h"
#include "base/progress_bar.h"
#include "load/json.h"
#include "load/tuning_file.h"

namespace reprise::cli {
namespace {

std::string way_text(const model::TunedProduct& product) {
  std::string text = fmt::format("{}: {}", product.shape.to_string(), product.way);
  if (product.measured) text += fmt::format(" ({:.1f} % less time)", product.gain * 100);
  return text;
}

void remember(load::TuningFile& file, const AutotuneReport& report) {
  load::TuningFile::Choices choices = file.choices();
  for (const model::TunedProduct& product : report.products) choices[product.shape.to_string()] = product.way;
  try {
    file.write(choices);
  } catch (const Error& error) {
    log_warning("autotune: {}; the choices are not remembered", error.what());
  }
}

}  // namespace

std::string AutotuneReport::text() const {
  const auto defaults = std::count_if(products.begin(), products.end(), [](const auto& p) { return p.is_default; });
  std::string text = fmt::format("{} products, {} of them by default", products.size(), defaults);
  for (const model::TunedProduct& product : products) {
    if (!product.is_default) text += "; " + way_text(product);
  }
  return text;
}

std::string AutotuneReport::json() const {
  nlohmann::ordered_json json{{"seconds", seconds}, {"file", file}, {"products", nlohmann::json::array()}};
  for (const model::TunedProduct& product : products) {
    json["products"].push_back({{"shape", product.shape.to_string()},
                                {"way", product.way},
                                {"default", product.is_default},
                                {"measured", product.measured},
                                {"gain", product.gain}});
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

AutotuneReport autotune(const model::Model& model, const ops::Registry& registry, device::Device& device,
                        const std::string& file_name) {
  const std::filesystem::path path =
      file_name.empty() ? load::TuningFile::usual_path() : std::filesystem::path(file_name);
  std::optional<load::TuningFile> file;
  if (path.empty()) {
    log_warning("autotune: neither XDG_CACHE_HOME nor HOME is set; the choices are not remembered");
  } else {
    file.emplace(path, fmt::format("{}; reprise {}", api::describe(device), REPRISE_VERSION));
    if (!file->problem().empty()) log_warning("autotune: {} is ignored: {}", path.string(), file->problem());
  }
  AutotuneReport report;
  report.file = path.string();
  ProgressBar bar;
  model::ProductTunerOptions options;
  size_t not_known = 0;
  options.progress = [&](size_t done, size_t total) {
    not_known = total;
    bar.update(static_cast<double>(done), static_cast<double>(total), "Tuning products");
  };
  size_t unknown = 0;
  std::string first_unknown;
  options.on_unknown_way = [&](const std::string& shape, const std::string& way) {
    if (unknown++ == 0) first_unknown = fmt::format("{} for {}", load::printable(way), shape);
  };
  const auto start = std::chrono::steady_clock::now();
  report.products =
      model::tune_products(model, registry, device, file ? file->choices() : load::TuningFile::Choices(), options);
  bar.finish();
  if (unknown > 0) {
    log_warning("autotune: {}: {} choices are ignored and made again: {}{} is no way of this device", path.string(),
                unknown, first_unknown, unknown > 1 ? ", the first," : "");
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto measured = static_cast<size_t>(
      std::count_if(report.products.begin(), report.products.end(), [](const auto& p) { return p.measured; }));
  if (not_known == 0 && !report.products.empty()) {
    log_info("autotune: as {} says, nothing was measured", path.string());
    return report;
  }
  const size_t not_reached = not_known - measured;
  log_info("autotune: {} of {} products measured in {:.2f} s{}", measured, report.products.size() + not_reached,
           report.seconds,
           not_reached == 0 ? "" : fmt::format("; {} were not reached: a later start goes on", not_reached));
  if (file && measured > 0) remember(*file, report);
  return report;
}

}  // namespace reprise::cli
