#pragma once

#include <string>

#include "engine/engine.h"

namespace reprise::cli {

/// The report that follows a run: speeds, decode and prefill steps by how they ran and why, and what captures cost.
std::string statement_text(engine::Engine& engine);
/// The same as a JSON object.
std::string statement_json(engine::Engine& engine);

}  // namespace reprise::cli
