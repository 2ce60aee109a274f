#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace reprise::cli {

/// Options of one command, bound to variables that already hold the defaults. Unknown options, missing values and
/// values of the wrong type end with exit code 2 and a message that names them.
class CommandLine {
 public:
  CommandLine(std::string name, std::string description);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  /// A command below this one. `run` gives the exit code; what it throws is reported and mapped.
  CommandLine& command(std::string name, std::string description);
  void on_run(std::function<int()> run);

  /// `names`: "-m,--model" or, for a positional argument, "shape". A default that the variable holds is shown in the
  /// help.
  void option(const std::string& names, std::string& target, const std::string& help);
  void option(const std::string& names, int32_t& target, const std::string& help);
  void option(const std::string& names, int64_t& target, const std::string& help);
  void option(const std::string& names, uint64_t& target, const std::string& help);
  void option(const std::string& names, double& target, const std::string& help);
  void option(const std::string& names, std::optional<std::string>& target, const std::string& help);
  void option(const std::string& names, std::optional<int32_t>& target, const std::string& help);
  void option(const std::string& names, std::optional<uint64_t>& target, const std::string& help);
  void option(const std::string& names, std::optional<double>& target, const std::string& help);
  /// Several numbers or choices after one name, commas between them or not, or the name several times. Texts, which may
  /// hold anything, come one after each name.
  void option(const std::string& names, std::vector<int32_t>& target, const std::string& help);
  void option(const std::string& names, std::vector<std::string>& target, const std::string& help);
  /// An option whose value may be left out, which gives the target "".
  void option_with_optional_value(const std::string& names, std::optional<std::string>& target,
                                  const std::string& help);
  void flag(const std::string& names, bool& target, const std::string& help);
  /// One of `choices`; others are refused with the list.
  void choice(const std::string& names, std::string& target, const std::vector<std::string>& choices,
              const std::string& help);
  void choices(const std::string& names, std::vector<std::string>& target, const std::vector<std::string>& choices,
               const std::string& help);
  /// The option that was added last must be given.
  void required();
  /// The option that was added last is not set while it holds `value`, which for a reader of its settings means
  /// `meaning`: "by rule". The help says so.
  void unset(const std::string& value, const std::string& meaning);
  /// Whether the arguments named an option, e.g. "--mode". True or false only once they are read.
  bool given(const std::string& name) const;
  /// All options that the arguments named, each by its longest name: "--mode".
  std::vector<std::string> given_names() const;
  /// The first long name of an option, "--model" for "-m"; empty when there is none of that name.
  std::string long_name(const std::string& name) const;
  /// Whether there is an option of that name that takes no value.
  bool is_flag(const std::string& name) const;
  /// The value that the option has when nobody sets it, as arguments would give it; empty for flags and lists.
  std::string default_of(const std::string& name) const;
  /// An option with the value that it has now.
  struct Setting {
    enum class Kind { kFlag, kNumber, kText };
    std::string name;  ///< without its dashes
    Kind kind = Kind::kText;
    bool list = false;
    bool given = false;
    std::vector<std::string> values = {};  ///< none: it is not set
    std::string unset_meaning = {};        ///< what it means that there are none
  };
  /// All of the command, in the order of --help. After the arguments are read.
  std::vector<Setting> settings() const;
  struct Arguments {
    std::vector<std::string> tokens;
    /// Where options come from that are not of the command line: "--port" to "FILE, line 3".
    std::map<std::string, std::string> places = {};
  };
  /// Changes the arguments behind the command's name before they are read. What it throws ends the program as errors of
  /// the command do. Errors that begin with the name of an option are told with its place.
  void on_arguments(std::function<Arguments(const std::vector<std::string>&)> change);
  /// Text after the options in --help.
  void footer(const std::string& text);
  /// Adds --version.
  void version(const std::string& text);

  /// Reads the arguments and runs the command that they name. Returns the exit code.
  int run(int argc, char** argv);

 private:
  struct Parser;
  /// The arguments, behind what on_arguments() makes of them; not 0: they were refused, and that was reported.
  int change_arguments(std::vector<std::string>& arguments) const;
  /// "FILE, line 3: " for a message about an option of a command that was read there.
  std::string place_in_files(const std::string& message) const;
  explicit CommandLine(std::unique_ptr<Parser> parser);
  std::unique_ptr<Parser> parser_;
  std::vector<std::unique_ptr<CommandLine>> commands_;
};

}  // namespace reprise::cli
