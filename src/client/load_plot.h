#pragma once

#include <string>

#include "client/load.h"

namespace reprise::client {

/// An SVG picture of a run: above, a bar for each request from when it was due to its end, its wait for the first
/// content lighter; below, how TTFT, ITL and E2E latency are distributed, on a logarithmic axis. `title` is shown on
/// top. Failed requests are red ticks.
std::string load_plot(const LoadResult& result, const std::string& title);

}  // namespace reprise::client
