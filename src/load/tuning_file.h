#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace reprise::load {

/// What was found fastest on machines, by name: choices["products of one shape"] = "the way". A file holds several
/// machines, of which each sees its own. The names are the caller's.
class TuningFile {
 public:
  using Choices = std::map<std::string, std::string>;

  /// Reads the file. One that is not there is empty; so is one that is damaged or something else, see problem().
  /// `machine`: everything that the choices hold for, as one text.
  TuningFile(std::filesystem::path path, std::string machine);

  const Choices& choices() const { return choices_; }
  /// Why nothing was read of a file that is there; "" if something was.
  const std::string& problem() const { return problem_; }
  /// Whether write() would replace a file that nobody has written here.
  bool is_foreign() const { return foreign_; }

  /// Puts choices of the machine into the file, which is replaced as a whole. Those of other machines and of other
  /// names stay, also what other processes have written since the file was read. Makes the directory if there is none.
  /// kIo; kFailedPrecondition for a foreign file.
  void write(const Choices& choices);

  /// $XDG_CACHE_HOME/reprise/autotune.json, or the same below $HOME/.cache; empty where neither is set.
  static std::filesystem::path usual_path();

 private:
  using Machines = std::map<std::string, Choices>;
  Machines read();

  std::filesystem::path path_;
  std::string machine_;
  Choices choices_;
  std::string problem_;
  bool foreign_ = false;
};

}  // namespace reprise::load
