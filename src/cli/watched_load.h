#pragma once

#include <span>
#include <string>

#include "client/load.h"

namespace reprise::cli {

/// client::run_load with a bar that says `doing`. SIGINT ends it early: what has been answered until then is there.
client::LoadResult run_watched_load(client::HttpLoop& loop, const client::Backend& backend,
                                    std::span<const client::Prompt> prompts, const client::GenerationSettings& settings,
                                    client::LoadOptions options, const std::string& doing);

}  // namespace reprise::cli
