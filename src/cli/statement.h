#pragma once

#include <string>

#include "cli/autotune.h"
#include "engine/engine.h"

namespace reprise::cli {

/// The report that follows a run: speeds, decode and prefill steps by how they ran and why, and what captures cost.
/// `autotune`: what --autotune has chosen, or null.
std::string statement_text(engine::Engine& engine, const AutotuneReport* autotune = nullptr);
/// The same as a JSON object.
std::string statement_json(engine::Engine& engine, const AutotuneReport* autotune = nullptr);

/// "bfloat16", or "bfloat16 with int8 weights" for a quantised model.
std::string dtype_text(const model::Model& model);

/// "35 replayed, 0 eager", with the reasons of those that were not replayed.
std::string steps_text(const replay::StepCounters& counters, replay::StepKind kind);
/// Steps by reason, as a JSON object.
std::string steps_json(const replay::StepCounters& counters, replay::StepKind kind);

}  // namespace reprise::cli
