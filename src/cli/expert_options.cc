#include "cli/expert_options.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"

namespace reprise::cli {

void ExpertOptions::add(CommandLine& command) {
  command.flag("--expert-load", load, "count the tokens of each expert; the statement tells them");
  command.option("--expert-load-dump", load_dump,
                 "count them and write a JSON object a line: of each layer, before each rebalance and at the end");
  command.option("--init-expert-location", location,
                 "where experts lie: trivial, or a JSON file with physical_to_logical_map or logical_count");
  command.option("--ep-num-redundant-experts", redundant, "places of each layer that hold copies of experts");
  command.choice("--ep-dispatch-algorithm", dispatch, {"static", "dynamic"},
                 "which copy a token goes to: always the first, or one drawn by its row and position");
  command.option("--eplb-num-ranks", ranks, "equal groups of places among which a rebalance shares the load");
  command.option("--eplb-rebalance-num-iterations", rebalance_steps,
                 "place experts anew after every N steps, by what they had to do in these");
  command.unset("0", "never");
}

void ExpertOptions::apply(const CommandLine* command, const load::ModelConfig& config,
                          model::ModelOptions& options) const {
  const auto given = [&](const char* name) { return command != nullptr && command->given(name); };
  if (config.num_experts == 0) {
    for (const char* name :
         {"--expert-load", "--expert-load-dump", "--init-expert-location", "--ep-num-redundant-experts",
          "--ep-dispatch-algorithm", "--eplb-num-ranks", "--eplb-rebalance-num-iterations"}) {
      if (given(name)) throw Error(ErrorCode::kInvalidArgument, "{}: the model has no experts", name);
    }
    return;
  }
  for (const auto& [name, path] :
       {std::pair("--init-expert-location", &location), {"--expert-load-dump", &load_dump}}) {
    if (given(name) && path->empty()) throw Error(ErrorCode::kInvalidArgument, "{} names no file", name);
  }
  if (rebalance_steps < 0) {
    throw Error(ErrorCode::kInvalidArgument, "--eplb-rebalance-num-iterations is {}, must be at least 0",
                rebalance_steps);
  }
  if (redundant.value_or(0) < 0) {
    throw Error(ErrorCode::kInvalidArgument, "--ep-num-redundant-experts is {}, must be at least 0", *redundant);
  }
  options.count_expert_rows = load || !load_dump.empty() || rebalance_steps > 0;
  if (!places()) {
    for (const char* name : {"--ep-dispatch-algorithm", "--eplb-num-ranks"}) {
      if (!given(name)) continue;
      throw Error(ErrorCode::kInvalidArgument, "{} has no effect: every expert has one place, for good", name)
          .remedy("give --ep-num-redundant-experts, --init-expert-location or --eplb-rebalance-num-iterations");
    }
    return;
  }
  model::ExpertPlacementOptions& placement = options.expert_placement.emplace();
  if (location != "trivial") placement.location = location;
  placement.redundant = redundant.value_or(-1);
  placement.ranks = ranks;
  placement.dynamic = dispatch == "dynamic";
}

void ExpertOptions::require_none_of_steps(const CommandLine* command) const {
  for (const char* name : {"--expert-load-dump", "--eplb-rebalance-num-iterations"}) {
    if (command == nullptr || !command->given(name)) continue;
    throw Error(ErrorCode::kInvalidArgument, "{} has no effect: no step runs", name);
  }
}

void ExpertLoadFile::write(const engine::ExpertLoadWindow& window) {
  if (failed_) return;
  const nlohmann::ordered_json line = {{"steps", {window.first_step, window.last_step}},
                                       {"layer", window.layer},
                                       {"logical_count", window.rows},
                                       {"physical_count", window.place_rows},
                                       {"physical_to_logical", window.placement},
                                       {"balancedness", window.balancedness}};
  try {
    file_.write(line.dump() + "\n");
    file_.flush();
  } catch (const Error& error) {
    failed_ = true;
    log_warning("--expert-load-dump ends here: {}", error.what());
  }
}

}  // namespace reprise::cli
