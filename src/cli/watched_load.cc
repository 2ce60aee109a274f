#include "cli/watched_load.h"

#include "base/progress_bar.h"
#include "cli/interrupt.h"

namespace reprise::cli {

client::LoadResult run_watched_load(client::HttpLoop& loop, const client::Backend& backend,
                                    std::span<const client::Prompt> prompts, const client::GenerationSettings& settings,
                                    client::LoadOptions options, const std::string& doing) {
  ProgressBar bar;
  options.interrupted = interrupted;
  options.on_done = [&](size_t done) {
    bar.update(static_cast<double>(done), static_cast<double>(prompts.size()), doing);
  };
  watch_interrupts();
  client::LoadResult result = client::run_load(loop, backend, prompts, settings, options);
  if (!result.interrupted) bar.finish();
  return result;
}

}  // namespace reprise::cli
