#include "model/product_tuner.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/median.h"
#include "model/measured_product.h"
#include "ops/eager_dispatcher.h"

namespace reprise::model {
namespace {

using Clock = std::chrono::steady_clock;

/// A turn takes at least so long: long for the clock, and short against what else the machine does.
constexpr double kTurnSeconds = 1e-3;
constexpr int kScreeningRounds = 5;
constexpr int kLeastRounds = 3;
constexpr int kDuelRounds = 9;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class ProductTuner {
 public:
  ProductTuner(const Model& model, const ops::Registry& registry, device::Device& device,
               const ProductTunerOptions& options, ops::ProductTuning& tuning)
      : device_(device),
        options_(options),
        tuning_(tuning),
        dispatcher_(registry, device, device.default_stream()),
        context_(dispatcher_),
        products_(measured_products(model, registry, device)) {}

  std::vector<TunedProduct> run(const std::map<std::string, std::string>& known) {
    std::vector<TunedProduct> tuned;
    std::vector<std::pair<MeasuredProduct*, ops::ProductShape>> open;
    // The steps of few rows first: these wait for the memory, where the ways differ most.
    for (const ops::RowsClass rows : ops::kRowsClasses) {
      for (const std::unique_ptr<MeasuredProduct>& product : products_) {
        ops::ProductShape shape = product->shape();
        shape.rows = rows;
        const auto place = known.find(shape.to_string());
        const std::optional<size_t> way = place == known.end() ? std::nullopt : tuning_.find(place->second);
        if (way) {
          tuning_.choose(shape, *way);
          tuned.push_back({shape, tuning_.ways()[*way], *way == tuning_.default_way(shape)});
        } else {
          if (place != known.end() && options_.on_unknown_way) options_.on_unknown_way(place->first, place->second);
          open.emplace_back(product.get(), shape);
        }
      }
    }
    const Clock::time_point start = Clock::now();
    for (size_t i = 0; i < open.size(); ++i) {
      const double left = options_.seconds - seconds_since(start);
      if (left <= 0) break;
      if (options_.progress) options_.progress(i, open.size());
      const auto result = measure(*open[i].first, open[i].second, left / static_cast<double>(open.size() - i));
      if (result) tuned.push_back(*result);
    }
    if (options_.progress && !open.empty()) options_.progress(open.size(), open.size());
    return tuned;
  }

 private:
  /// Seconds of a call, in a turn of `calls`.
  double turn(MeasuredProduct& product, size_t way, int calls) {
    product.force(tuning_, way);
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < calls; ++i) product.call(context_);
    device_.default_stream().synchronize();
    return seconds_since(start) / calls;
  }

  /// For each way the median over the rounds of its time in relation to that of the first; nothing when the time was
  /// too short for that.
  std::optional<std::vector<double>> compare(MeasuredProduct& product, int calls, const std::vector<size_t>& ways,
                                             int rounds, double seconds) {
    const Clock::time_point start = Clock::now();
    std::vector<std::vector<double>> ratios(ways.size());
    for (int round = 0; round < rounds; ++round) {
      if (seconds_since(start) > seconds) {
        if (round < kLeastRounds) return std::nullopt;
        break;
      }
      // Each round begins with another way.
      std::vector<double> times(ways.size());
      for (size_t i = 0; i < ways.size(); ++i) {
        const size_t at = (i + static_cast<size_t>(round)) % ways.size();
        times[at] = turn(product, ways[at], calls);
      }
      for (size_t i = 0; i < ways.size(); ++i) ratios[i].push_back(times[i] / times[0]);
    }
    std::vector<double> medians;
    for (const std::vector<double>& of_way : ratios) medians.push_back(upper_median(of_way));
    return medians;
  }

  std::optional<TunedProduct> measure(MeasuredProduct& product, const ops::ProductShape& shape, double seconds) {
    struct EndOfForce {
      ops::ProductTuning& tuning;
      ~EndOfForce() { tuning.force(std::nullopt); }
    } const end{tuning_};
    product.set_rows(shape.rows);
    if (met_.insert(&product).second) {
      // Pages of mapped files come with the first call.
      for (size_t i = 0; i < product.turns(); ++i) product.call(context_);
      device_.default_stream().synchronize();
    }
    const size_t usual = tuning_.default_way(shape);
    const double once = std::min(turn(product, usual, 1), turn(product, usual, 1));
    const int calls = std::clamp(static_cast<int>(kTurnSeconds / std::max(once, 1e-7)), 1, 200);
    std::vector<size_t> ways(tuning_.ways().size());
    std::iota(ways.begin(), ways.end(), size_t{0});
    std::swap(ways[0], ways[usual]);
    const auto screened = compare(product, calls, ways, kScreeningRounds, seconds);
    if (!screened) return std::nullopt;
    const auto best = static_cast<size_t>(std::min_element(screened->begin(), screened->end()) - screened->begin());
    size_t way = usual;
    double gain = 0;
    if (best != 0 && (*screened)[best] < 1 - options_.least_gain) {
      // The best of several is partly luck: it has to show it again.
      const auto again = compare(product, calls, {usual, ways[best]}, kDuelRounds, seconds);
      if (!again) return std::nullopt;
      if ((*again)[1] < 1 - options_.least_gain) {
        way = ways[best];
        gain = 1 - (*again)[1];
      }
    }
    tuning_.choose(shape, way);
    return TunedProduct{shape, tuning_.ways()[way], way == usual, true, gain};
  }

  device::Device& device_;
  const ProductTunerOptions& options_;
  ops::ProductTuning& tuning_;
  ops::EagerDispatcher dispatcher_;
  ops::ForwardContext context_;
  std::vector<std::unique_ptr<MeasuredProduct>> products_;
  std::set<const MeasuredProduct*> met_;
};

}  // namespace

std::vector<TunedProduct> tune_products(const Model& model, const ops::Registry& registry, device::Device& device,
                                        const std::map<std::string, std::string>& known,
                                        const ProductTunerOptions& options) {
  const ops::OpKernel* kernel = registry.get("linear").kernel(device.name());
  if (kernel == nullptr || kernel->tuning == nullptr) return {};
  return ProductTuner(model, registry, device, options, *kernel->tuning).run(known);
}

}  // namespace reprise::model
