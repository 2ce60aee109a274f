#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "replay/graph_runner.h"
#include "replay/profile.h"

namespace reprise::replay {

/// Profiles what a runner does, from its construction until save(). On the thread that owns the runner.
class ProfileRecording {
 public:
  /// `runner` must outlive this. `on_last_step` is called at the end of step number `most_steps` (0: never), on the
  /// same thread; what it throws is logged. It may call save().
  explicit ProfileRecording(GraphRunner& runner, int64_t most_steps = 0, std::function<void()> on_last_step = {});
  ~ProfileRecording();
  ProfileRecording(const ProfileRecording&) = delete;
  ProfileRecording& operator=(const ProfileRecording&) = delete;

  /// Makes where a profile is to be saved, so that a place where nothing can be written is told before it begins. kIo.
  static void make_directory(const std::filesystem::path& directory);
  /// Ends it and writes into a directory, which is made: tables.txt, trace.json (for Perfetto) and memory.json. Gives
  /// the tables, and behind them where the files are. kIo.
  std::string save(const std::filesystem::path& directory);

 private:
  GraphRunner& runner_;
  Profile profile_;
};

}  // namespace reprise::replay
