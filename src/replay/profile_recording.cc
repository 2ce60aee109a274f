#include "replay/profile_recording.h"

#include <fstream>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "replay/profile_report.h"

namespace reprise::replay {
namespace {

void write_profile_file(const std::filesystem::path& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  file << content << std::flush;
  if (!file) throw Error(ErrorCode::kIo, "cannot write {}", path.string());
}

}  // namespace

ProfileRecording::ProfileRecording(GraphRunner& runner, int64_t most_steps, std::function<void()> on_last_step)
    : runner_(runner), profile_(runner.device(), most_steps, std::move(on_last_step)) {}

ProfileRecording::~ProfileRecording() = default;

void ProfileRecording::make_directory(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw Error(ErrorCode::kIo, "cannot make {}: {}", directory.string(), error.message());
}

std::string ProfileRecording::save(const std::filesystem::path& directory) {
  profile_.stop();
  make_directory(directory);
  const ProfileReport report(profile_, runner_.labels().all());
  const std::string tables = report.tables();
  write_profile_file(directory / "tables.txt", tables);
  write_profile_file(directory / "trace.json", report.trace_json());
  write_profile_file(directory / "memory.json", report.memory_json());
  return fmt::format("{}\nTables are saved to {}\nTrace is saved to {}\nMemory Usage is saved to {}\n", tables,
                     (directory / "tables.txt").string(), (directory / "trace.json").string(),
                     (directory / "memory.json").string());
}

}  // namespace reprise::replay
