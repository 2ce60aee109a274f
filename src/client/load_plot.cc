#include "client/load_plot.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace reprise::client {
namespace {

constexpr double kPictureWidth = 960, kLeft = 64, kRight = 24;
constexpr double kTimelineTop = 48, kTimelineHeight = 280;
constexpr double kCurvesTop = 400, kCurvesHeight = 240;
constexpr double kPictureHeight = 700;
constexpr double kPlotWidth = kPictureWidth - kLeft - kRight;
constexpr size_t kMostPoints = 500;  ///< of a curve: more are not seen

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string label(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, escaped(text));
}

std::string grid_line(double x1, double y1, double x2, double y2) {
  return fmt::format("<line class=\"grid\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", x1, y1, x2,
                     y2);
}

/// A step of 1, 2 or 5 times a power of ten that divides `most` into about eight parts.
double pleasant_step(double most) {
  const double power = std::pow(10, std::floor(std::log10(most / 8)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power * 8 >= most) return factor * power;
  }
  return 10 * power;
}

std::string timeline(const LoadResult& result) {
  const double seconds = std::max(result.seconds, 1e-6);
  const auto x_of = [&](double at) { return kLeft + kPlotWidth * std::min(at / seconds, 1.0); };
  std::string text = label(kLeft, kTimelineTop - 8, "start", "requests by time: waiting for content, receiving it");
  const double step = pleasant_step(seconds);
  for (double at = 0; at <= seconds * 1.0001; at += step) {
    text += grid_line(x_of(at), kTimelineTop, x_of(at), kTimelineTop + kTimelineHeight);
    text += label(x_of(at), kTimelineTop + kTimelineHeight + 16, "middle", fmt::format("{:g} s", at));
  }
  const double row = kTimelineHeight / static_cast<double>(std::max<size_t>(1, result.requests.size()));
  for (size_t i = 0; i < result.requests.size(); ++i) {
    const RequestRecord& request = result.requests[i];
    const double y = kTimelineTop + row * static_cast<double>(i);
    const auto bar = [&](const char* kind, double from, double to) {
      text += fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\"/>\n", kind,
                          x_of(from), y, std::max(0.5, x_of(to) - x_of(from)), std::max(0.4, 0.8 * row));
    };
    if (!request.succeeded()) {
      bar("failed", request.due, std::max(request.due, request.end));
      continue;
    }
    bar("waiting", request.due, request.due + request.times.first);
    bar("receiving", request.due + request.times.first, request.due + request.times.last);
  }
  return text;
}

struct Curve {
  const char* name;
  const char* kind;
  std::vector<double> milliseconds{};
};

std::array<Curve, 3> curves_of(const LoadResult& result) {
  std::array<Curve, 3> curves{Curve{"ITL", "itl"}, Curve{"TTFT", "ttft"}, Curve{"E2E latency", "e2e"}};
  for (const RequestRecord& request : result.requests) {
    if (!request.succeeded()) continue;
    for (const double gap : request.times.gaps) curves[0].milliseconds.push_back(1e3 * gap);
    curves[1].milliseconds.push_back(1e3 * request.times.first);
    curves[2].milliseconds.push_back(1e3 * request.times.last);
  }
  for (Curve& curve : curves) std::sort(curve.milliseconds.begin(), curve.milliseconds.end());
  return curves;
}

std::string distributions(const LoadResult& result) {
  const std::array<Curve, 3> curves = curves_of(result);
  double least = 1e9, most = 1e-9;
  for (const Curve& curve : curves) {
    for (const double value : curve.milliseconds) {
      if (value <= 0) continue;
      least = std::min(least, value);
      most = std::max(most, value);
    }
  }
  if (least > most) return "";
  const double low = std::floor(std::log10(least)), high = std::max(low + 1, std::ceil(std::log10(most)));
  const auto x_of = [&](double value) {
    return kLeft + kPlotWidth * std::clamp((std::log10(std::max(value, 1e-9)) - low) / (high - low), 0.0, 1.0);
  };
  const auto y_of = [&](double share) { return kCurvesTop + kCurvesHeight * (1 - share); };
  std::string text = label(kLeft, kCurvesTop - 8, "start", "share of values up to a time");
  for (double power = low; power <= high; ++power) {
    const double x = x_of(std::pow(10, power));
    text += grid_line(x, y_of(0), x, y_of(1));
    text += label(x, y_of(0) + 16, "middle", fmt::format("{:g} ms", std::pow(10, power)));
  }
  for (const double share : {0.0, 0.5, 0.9, 1.0}) {
    text += grid_line(kLeft, y_of(share), kLeft + kPlotWidth, y_of(share));
    text += label(kLeft - 6, y_of(share) + 4, "end", fmt::format("{:.0f} %", 100 * share));
  }
  double x = kLeft;
  for (const Curve& curve : curves) {
    if (curve.milliseconds.empty()) continue;
    text += fmt::format("<polyline class=\"{}\" points=\"", curve.kind);
    const size_t points = std::min(kMostPoints, curve.milliseconds.size());
    for (size_t i = 0; i < points; ++i) {
      const size_t index = points == 1 ? 0 : i * (curve.milliseconds.size() - 1) / (points - 1);
      const double share = static_cast<double>(index + 1) / static_cast<double>(curve.milliseconds.size());
      if (i == 0) text += fmt::format("{:.1f},{:.1f} ", x_of(curve.milliseconds[0]), y_of(0));
      text += fmt::format("{:.1f},{:.1f} ", x_of(curve.milliseconds[index]), y_of(share));
    }
    text += "\"/>\n";
    text += fmt::format("<polyline class=\"{}\" points=\"{:.1f},{:.1f} {:.1f},{:.1f}\"/>\n", curve.kind, x,
                        y_of(0) + 38, x + 24, y_of(0) + 38);
    text += label(x + 30, y_of(0) + 42, "start", curve.name);
    x += 150;
  }
  return text;
}

}  // namespace

std::string load_plot(const LoadResult& result, const std::string& title) {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\">\n"
             "<style>\n"
             "text {{ font: 12px sans-serif; fill: #222 }}\n"
             "rect.page {{ fill: #fff }} .grid {{ stroke: #ddd }}\n"
             ".waiting {{ fill: #a9c4e6 }} .receiving {{ fill: #2b6cb0 }} .failed {{ fill: #c53030 }}\n"
             "polyline {{ fill: none; stroke-width: 2 }}\n"
             ".itl {{ stroke: #2f855a }} .ttft {{ stroke: #c05621 }} .e2e {{ stroke: #2b6cb0 }}\n"
             "</style>\n"
             "<rect class=\"page\" width=\"{0}\" height=\"{1}\"/>\n",
             kPictureWidth, kPictureHeight) +
         label(kPictureWidth / 2, 20, "middle", title) + timeline(result) + distributions(result) + "</svg>\n";
}

}  // namespace reprise::client
