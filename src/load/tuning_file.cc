#include "load/tuning_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "load/json.h"
#include "load/new_file.h"

namespace reprise::load {
namespace {

constexpr const char* kTuningMark = "reprise_autotune";
constexpr int kTuningVersion = 1;
constexpr size_t kMostTuningBytes = size_t{16} << 20;

/// Keeps other writers of a directory waiting for as long as it lives. Where that cannot be had, or another holds it
/// for more than five seconds, it does nothing: what is lost then is measured again.
class DirectoryLock {
 public:
  explicit DirectoryLock(const std::filesystem::path& directory)
      : descriptor_(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    for (int tries = 0; descriptor_ >= 0 && tries < 500; ++tries) {
      if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR)) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;
  ~DirectoryLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

 private:
  int descriptor_;
};

std::string read_tuning_text(const std::filesystem::path& path) {
  const uintmax_t bytes = std::filesystem::file_size(path);
  if (bytes > kMostTuningBytes) throw Error(ErrorCode::kCorruptData, "it has {} bytes", bytes);
  std::ifstream stream(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (!stream) throw Error(ErrorCode::kIo, "it cannot be read");
  return text;
}

TuningFile::Choices choices_of(const nlohmann::json& json) {
  if (!json.is_object()) throw Error(ErrorCode::kCorruptData, "a machine is {}, not an object", describe(json));
  TuningFile::Choices choices;
  for (const auto& [name, way] : json.items()) {
    if (!way.is_string()) {
      throw Error(ErrorCode::kCorruptData, "the choice for {} is {}, not a string", printable(name), describe(way));
    }
    choices[name] = way.get<std::string>();
  }
  return choices;
}

}  // namespace

TuningFile::TuningFile(std::filesystem::path path, std::string machine)
    : path_(std::move(path)), machine_(std::move(machine)) {
  choices_ = read()[machine_];
}

TuningFile::Machines TuningFile::read() {
  problem_.clear();
  foreign_ = false;
  std::error_code failure;
  if (!std::filesystem::exists(path_, failure)) return {};
  // Until something says that it is ours.
  foreign_ = true;
  try {
    if (!std::filesystem::is_regular_file(path_)) throw Error(ErrorCode::kCorruptData, "it is no regular file");
    const std::string text = read_tuning_text(path_);
    foreign_ = false;
    if (text.empty()) throw Error(ErrorCode::kCorruptData, "it is empty");
    // Near the beginning, so that a file whose end was lost is told from what others have written.
    foreign_ = std::string_view(text).substr(0, 64).find(kTuningMark) == std::string_view::npos;
    if (foreign_) throw Error(ErrorCode::kCorruptData, "it does not begin as such a file does");
    const nlohmann::json json = parse_json(text, "its text");
    if (!json.is_object() || !json.contains(kTuningMark) || !json.contains("machines") ||
        !json["machines"].is_object()) {
      throw Error(ErrorCode::kCorruptData, "it has no '{}' and 'machines'", kTuningMark);
    }
    if (json[kTuningMark] != kTuningVersion) {
      throw Error(ErrorCode::kCorruptData, "it has the version {}, this program has {}", describe(json[kTuningMark]),
                  kTuningVersion);
    }
    Machines machines;
    for (const auto& [machine, choices] : json["machines"].items()) {
      try {
        machines[machine] = choices_of(choices);
      } catch (const Error& error) {
        // The others' choices are as good as before.
        if (machine == machine_) problem_ = error.what();
      }
    }
    return machines;
  } catch (const std::exception& error) {
    problem_ = error.what();
    return {};
  }
}

void TuningFile::write(const Choices& choices) {
  const std::filesystem::path path = std::filesystem::absolute(path_);
  std::error_code failure;
  std::filesystem::create_directories(path.parent_path(), failure);  // a failure shows when the file is written
  const DirectoryLock lock(path.parent_path());
  Machines machines = read();  // again: somebody else may have written meanwhile
  if (foreign_) {
    throw Error(ErrorCode::kFailedPrecondition, "{} is not replaced: {}", path_.string(), problem_)
        .remedy("remove it, or name another file");
  }
  Choices& all = machines[machine_];
  for (const auto& [name, way] : choices) all[name] = way;
  nlohmann::ordered_json json{{kTuningMark, kTuningVersion}, {"machines", nlohmann::json::object()}};
  for (const auto& [machine, of_machine] : machines) json["machines"][machine] = of_machine;
  const std::string text = json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  NewFile file(path, text.size());
  file.write(0, std::as_bytes(std::span(text)));
  file.finish();
  choices_ = all;
}

std::filesystem::path TuningFile::usual_path() {
  const auto from = [](const char* variable) {
    const char* value = std::getenv(variable);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  std::filesystem::path directory = from("XDG_CACHE_HOME");
  // The base directory specification has relative paths ignored.
  if (!directory.is_absolute()) {
    directory = from("HOME");
    if (!directory.is_absolute()) return {};
    directory /= ".cache";
  }
  return directory / "reprise" / "autotune.json";
}

}  // namespace reprise::load
