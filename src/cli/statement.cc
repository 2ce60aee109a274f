#include "cli/statement.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"

namespace reprise::cli {
namespace {

/// Of the keys, if there are any.
DType kv_dtype(engine::Engine& engine) {
  const std::vector<model::KvBuffer>& buffers = engine.kv_pool().layout().buffers;
  return buffers.empty() ? engine.model().info().dtype : buffers.front().dtype;
}

bool has_int8_weights(const model::Model& model) {
  const auto parameters = model.named_parameters();
  return std::any_of(parameters.begin(), parameters.end(),
                     [](const auto& parameter) { return parameter.second.dtype() == DType::kI8; });
}

using replay::StepKind;
using replay::StepReason;

double megabytes(size_t bytes) { return static_cast<double>(bytes) / 1e6; }

bool can_move(const engine::Engine& engine) {
  const model::ExpertPlaces* places = engine.model().expert_places();
  return places != nullptr && places->can_move();
}

double balancedness_of(const engine::Engine& engine, const model::ExpertLoad& load) {
  return model::balancedness(load.place_rows, engine.expert_balancer().options().ranks);
}

/// What the weights take, and took while they were loaded.
std::string weights_text(const model::LoadReport& report) {
  if (report.weight_bytes == 0) return "";
  std::string text = fmt::format(
      "weights   {:.1f} MB, of them {:.1f} MB read in place from mapped files; loading took {:.1f} MB of "
      "memory at most, {:.2f} times that: {:.1f} MB of its own, the rest mapped pages\n",
      megabytes(report.weight_bytes), megabytes(report.mapped_bytes),
      megabytes(report.peak_resident - std::min(report.peak_resident, report.resident_before)),
      report.peak_over_final(), megabytes(report.peak_anonymous - report.anonymous_before));
  if (!report.pack_cache.empty()) text += fmt::format("packed    {}\n", report.pack_cache);
  return text;
}

nlohmann::ordered_json weights_json(const model::LoadReport& report) {
  return {{"bytes", report.weight_bytes},
          {"mapped_bytes", report.mapped_bytes},
          {"largest_tensor_bytes", report.largest_tensor},
          {"resident_before_bytes", report.resident_before},
          {"peak_resident_bytes", report.peak_resident},
          {"anonymous_before_bytes", report.anonymous_before},
          {"peak_anonymous_bytes", report.peak_anonymous},
          {"peak_over_final", report.peak_over_final()},
          {"pack_cache", report.pack_cache}};
}

/// A line for each captured size that the device has chosen a number of cores for.
std::string cores_text(const replay::GraphRunner& runner) {
  std::string text;
  for (const replay::CaptureReport::Bucket& bucket : runner.capture_report().buckets) {
    const std::string choice = runner.core_choice(bucket.kind, bucket.size);
    if (choice.empty()) continue;
    text += fmt::format("threads   {} {}: chosen {}\n", bucket.kind == StepKind::kDecode ? "bs" : "prefill tokens",
                        bucket.size, choice);
  }
  return text;
}

}  // namespace

std::string steps_text(const replay::StepCounters& counters, StepKind kind) {
  const int64_t replayed = counters.steps(kind, StepReason::kReplayed);
  std::string text = fmt::format("{} replayed, {} eager", replayed, counters.steps(kind) - replayed);
  std::string reasons;
  for (const StepReason reason : replay::kAllStepReasons) {
    if (reason == StepReason::kReplayed || counters.steps(kind, reason) == 0) continue;
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : ", ", name_of(reason), counters.steps(kind, reason));
  }
  return reasons.empty() ? text : text + " (" + reasons + ")";
}

std::string steps_json(const replay::StepCounters& counters, StepKind kind) {
  nlohmann::ordered_json json;
  for (const StepReason reason : replay::kAllStepReasons)
    json[std::string(name_of(reason))] = counters.steps(kind, reason);
  return json.dump();
}

std::string dtype_text(const model::Model& model) {
  return fmt::format("{}{}", name_of(model.info().dtype), has_int8_weights(model) ? " with int8 weights" : "");
}

std::string statement_text(engine::Engine& engine, const AutotuneReport* autotune) {
  const engine::Statistics statistics = engine.statistics();
  const replay::CaptureReport& captures = engine.runner().capture_report();
  const replay::StepCounters& counters = engine.runner().counters();
  std::string text;
  text += fmt::format("mode      {}, {}\n", name_of(engine.options().mode), dtype_text(engine.model()));
  text += fmt::format("prefill   {} tokens, {:.1f} tokens/s; steps: {}\n", statistics.prefill_tokens,
                      statistics.prefill_tokens_per_second(), steps_text(counters, StepKind::kPrefill));
  text += fmt::format("decode    {} tokens, {:.1f} tokens/s; steps: {}\n", statistics.decode_tokens,
                      statistics.decode_tokens_per_second(), steps_text(counters, StepKind::kDecode));
  std::string sizes;
  for (const replay::CaptureReport::Bucket& bucket : captures.buckets) {
    sizes += fmt::format("{}{} {}: ", sizes.empty() ? "" : ", ",
                         bucket.kind == StepKind::kDecode ? "bs" : "prefill tokens", bucket.size);
    if (bucket.pieces > 1) sizes += fmt::format("{} pieces ", bucket.pieces);
    sizes += bucket.failure.empty() ? fmt::format("{:.1f} ms {:.2f} MB", bucket.milliseconds, megabytes(bucket.bytes))
                                    : fmt::format("failed ({})", bucket.failure);
  }
  if (captures.buckets.empty()) {
    text += "captures  none\n";
  } else {
    if (captures.variants > 0) sizes += fmt::format(", {} for other choices of kernels", captures.variants);
    if (captures.recaptures > 0) sizes += fmt::format(", {} recaptures", captures.recaptures);
    text += fmt::format("captures  {:.1f} ms, graphs {:.2f} MB, arena {:.2f} MB ({})\n", captures.milliseconds,
                        megabytes(captures.graph_bytes), megabytes(captures.arena_bytes), sizes);
  }
  if (!captures.budget.empty()) text += fmt::format("budget    {}\n", captures.budget);
  text += cores_text(engine.runner());
  if (autotune != nullptr) text += fmt::format("tuned     {}\n", autotune->text());
  text += weights_text(engine.model().load_report());
  text += fmt::format("KV cache  {:.1f} MB in {} pages of {} tokens, {}\n", megabytes(engine.kv_pool().bytes()),
                      engine.kv_pool().pages(), engine.kv_pool().page_size(), name_of(kv_dtype(engine)));
  for (const model::ExpertLoad& load : engine.model().expert_load()) {
    const auto busiest = std::max_element(load.rows.begin(), load.rows.end());
    const int64_t total = std::accumulate(load.rows.begin(), load.rows.end(), int64_t{0});
    const double mean = static_cast<double>(total) / static_cast<double>(load.rows.size());
    text += fmt::format(
        "experts   layer {}: {} rows, one for each token and expert it goes to; expert {} has the most, {}, which is "
        "{:.2f} times the mean; experts 0 to {} have {}\n",
        load.layer, total, busiest - load.rows.begin(), *busiest, mean == 0 ? 0 : static_cast<double>(*busiest) / mean,
        load.rows.size() - 1, fmt::join(load.rows, " "));
    if (!can_move(engine)) continue;
    text += fmt::format("          places, which hold experts {}, have {}; balancedness {:.3f}\n",
                        fmt::join(load.placement, " "), fmt::join(load.place_rows, " "), balancedness_of(engine, load));
  }
  if (engine.expert_balancer().options().rebalance_every > 0) {
    const engine::ExpertBalancer::Report& report = engine.expert_balancer().report();
    text += fmt::format("rebalance {} times, {} experts moved, {:.2f} ms\n", report.rebalances, report.moved_experts,
                        report.milliseconds);
  }
  return text;
}

std::string statement_json(engine::Engine& engine, const AutotuneReport* autotune) {
  const engine::Statistics statistics = engine.statistics();
  const replay::CaptureReport& captures = engine.runner().capture_report();
  const replay::StepCounters& counters = engine.runner().counters();
  nlohmann::ordered_json json;
  json["mode"] = name_of(engine.options().mode);
  json["dtype"] = name_of(engine.model().info().dtype);
  json["int8_weights"] = has_int8_weights(engine.model());
  json["kv_dtype"] = name_of(kv_dtype(engine));
  json["prefill_tokens"] = statistics.prefill_tokens;
  json["prefill_tokens_per_second"] = statistics.prefill_tokens_per_second();
  json["decode_tokens"] = statistics.decode_tokens;
  json["decode_tokens_per_second"] = statistics.decode_tokens_per_second();
  for (const auto& [name, kind] :
       {std::pair("prefill_steps", StepKind::kPrefill), {"decode_steps", StepKind::kDecode}}) {
    json[name] = nlohmann::ordered_json::parse(steps_json(counters, kind));
  }
  json["captures"] = nlohmann::ordered_json::array();
  for (const replay::CaptureReport::Bucket& bucket : captures.buckets) {
    json["captures"].push_back({{bucket.kind == StepKind::kDecode ? "batch_size" : "prefill_tokens", bucket.size},
                                {"milliseconds", bucket.milliseconds},
                                {"bytes", bucket.bytes},
                                {"pieces", bucket.pieces},
                                {"cores", engine.runner().core_choice(bucket.kind, bucket.size)},
                                {"failure", bucket.failure}});
  }
  json["capture_milliseconds"] = captures.milliseconds;
  if (!captures.budget.empty()) json["capture_budget"] = captures.budget;
  json["choice_variants"] = captures.variants;
  json["recaptures"] = captures.recaptures;
  json["graph_bytes"] = captures.graph_bytes;
  json["arena_bytes"] = captures.arena_bytes;
  json["kv_bytes"] = engine.kv_pool().bytes();
  if (autotune != nullptr) json["autotune"] = nlohmann::ordered_json::parse(autotune->json());
  json["weights"] = weights_json(engine.model().load_report());
  for (const model::ExpertLoad& load : engine.model().expert_load()) {
    json["expert_load"].push_back({{"layer", load.layer},
                                   {"rows", load.rows},
                                   {"placement", load.placement},
                                   {"place_rows", load.place_rows},
                                   {"balancedness", balancedness_of(engine, load)}});
  }
  if (engine.expert_balancer().options().rebalance_every > 0) {
    const engine::ExpertBalancer::Report& report = engine.expert_balancer().report();
    json["expert_rebalances"] = {
        {"count", report.rebalances}, {"moved_experts", report.moved_experts}, {"milliseconds", report.milliseconds}};
  }
  return json.dump();
}

}  // namespace reprise::cli
