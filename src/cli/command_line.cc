#include "cli/command_line.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <limits>
#include <new>
#include <type_traits>

#include "base/error.h"
#include "base/log.h"
#include "base/nearest_name.h"
#include "cli/input.h"

namespace reprise::cli {
namespace {

using Places = std::map<std::string, std::string>;

/// "FILE, line 3: " when the message begins with the name of an option that stands there.
std::string place_of(std::string_view message, const Places& places) {
  const size_t end = message.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-");
  const auto place = places.find(std::string(message.substr(0, end)));
  return place == places.end() ? "" : place->second + ": ";
}

/// Runs a command and maps what it throws: the one place where errors become exit codes.
int run_reporting(const Places& places, const std::function<int()>& run) {
  try {
    return run();
  } catch (const Error& error) {
    write_message(fmt::format("error: {}{}\n", place_of(error.what(), places), error.what()));
    return exit_code(error.code());
  } catch (const std::bad_alloc&) {
    write_message("error: out of memory\n");
    return exit_code(ErrorCode::kOutOfMemory);
  } catch (const std::filesystem::filesystem_error& error) {
    write_message(fmt::format("error: {}\n", error.what()));
    return exit_code(ErrorCode::kIo);
  } catch (const std::exception& error) {
    write_message(fmt::format("error: {}\n", error.what()));
    return exit_code(ErrorCode::kInternal);
  }
}

/// Passes only plain decimal numbers in the range of T. CLI11 by itself reads "" as 0 and "010" as 8, takes -1 for the
/// largest unsigned number and cuts off what is larger.
template <typename T>
std::string check_number(std::string& text) {
  std::string_view digits = text;
  if (digits.starts_with('+') && !digits.starts_with("+-")) digits.remove_prefix(1);
  T value{};
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (fault != std::errc() || end != digits.data() + digits.size()) {
    if constexpr (std::is_integral_v<T>) {
      return fmt::format("'{}' is not an integer from {} to {}", text, std::numeric_limits<T>::min(),
                         std::numeric_limits<T>::max());
    } else {
      return fmt::format("'{}' is not a number", text);
    }
  }
  text = fmt::format("{}", value);
  return {};
}

/// Checks the values of an option whose variable holds numbers.
template <typename T>
void check_values(CLI::Option& option, const T& /*target*/) {
  if constexpr (std::is_arithmetic_v<T>) option.transform(CLI::Validator(check_number<T>, ""));
}
template <typename T>
void check_values(CLI::Option& option, const std::optional<T>& /*target*/) {
  check_values(option, T());
}

/// A fault of the arguments in the form of all other messages.
std::string fault_message(const CLI::App* /*app*/, const CLI::Error& error) {
  return fmt::format("error: {}\nRun with --help for more information.\n", error.what());
}

/// What is wrong with a word where a command or an option should stand; "" when something else is.
std::string unknown_word(CLI::App& root) {
  CLI::App* app = &root;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  const std::vector<std::string> words = app->remaining();
  if (words.empty()) return "";
  const bool is_option = words[0].starts_with("-");
  const std::string word = words[0].substr(0, is_option ? words[0].find('=') : std::string::npos);
  std::vector<std::string> known;
  if (is_option) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
  } else {
    for (const CLI::App* command : app->get_subcommands([](CLI::App*) { return true; })) {
      known.push_back(command->get_name());
    }
  }
  if (known.empty()) return "";
  const std::string nearest = nearest_name(word, known);
  const std::string hint = !nearest.empty() ? fmt::format("did you mean '{}'?", nearest)
                           : is_option      ? "--help lists them"
                                            : fmt::format("there are {}", fmt::join(known, ", "));
  return fmt::format("error: there is no {} '{}' ({})\n", is_option ? "option" : "command", word, hint);
}

/// Texts, with those that are lists with commas taken apart if `apart`.
std::vector<std::string> split_lists(const std::vector<std::string>& texts, bool apart) {
  if (!apart) return texts;
  std::vector<std::string> all;
  for (const std::string& text : texts) {
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      all.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return all;
}

/// The numbers of an option that takes several, with commas between them or not. CLI11 by itself drops what is empty
/// between two commas.
std::vector<int32_t> parse_numbers(const std::string& names, const std::vector<std::string>& texts) {
  std::vector<int32_t> numbers;
  for (std::string number : split_lists(texts, true)) {
    if (const std::string fault = check_number<int32_t>(number); !fault.empty()) {
      throw CLI::ValidationError(names, fault);
    }
    numbers.push_back(std::stoi(number));
  }
  return numbers;
}

}  // namespace

struct CommandLine::Parser {
  std::unique_ptr<CLI::App> root;  // absent in commands below the root
  CLI::App* app = nullptr;
  CLI::Option* last = nullptr;
  std::function<int()> run;
  std::function<Arguments(const std::vector<std::string>&)> change;
  Places places;
  struct Unset {
    std::string value, meaning;
  };
  std::map<const CLI::Option*, Unset> unset;
};

CommandLine::CommandLine(std::string name, std::string description) : parser_(std::make_unique<Parser>()) {
  parser_->root = std::make_unique<CLI::App>(std::move(description), std::move(name));
  parser_->app = parser_->root.get();
  parser_->app->get_formatter()->column_width(36);
  parser_->app->failure_message(fault_message);
}

CommandLine::CommandLine(std::unique_ptr<Parser> parser) : parser_(std::move(parser)) {}

CommandLine::~CommandLine() = default;

CommandLine& CommandLine::command(std::string name, std::string description) {
  auto parser = std::make_unique<Parser>();
  parser->app = parser_->app->add_subcommand(std::move(name), std::move(description));
  parser->app->option_defaults()->always_capture_default();
  commands_.push_back(std::unique_ptr<CommandLine>(new CommandLine(std::move(parser))));
  return *commands_.back();
}

void CommandLine::on_run(std::function<int()> run) { parser_->run = std::move(run); }

// NOLINTBEGIN(bugprone-macro-parentheses): TYPE is a type
#define REPRISE_OPTION(TYPE)                                                                  \
  void CommandLine::option(const std::string& names, TYPE& target, const std::string& help) { \
    parser_->last = parser_->app->add_option(names, target, help);                            \
    check_values(*parser_->last, target);                                                     \
  }
REPRISE_OPTION(std::string)
REPRISE_OPTION(int32_t)
REPRISE_OPTION(int64_t)
REPRISE_OPTION(uint64_t)
REPRISE_OPTION(double)
REPRISE_OPTION(std::optional<std::string>)
REPRISE_OPTION(std::optional<int32_t>)
REPRISE_OPTION(std::optional<uint64_t>)
REPRISE_OPTION(std::optional<double>)
#undef REPRISE_OPTION
// NOLINTEND(bugprone-macro-parentheses)

void CommandLine::option(const std::string& names, std::vector<std::string>& target, const std::string& help) {
  // One text after each name: with more, CLI11 also takes "[a,b]" apart.
  parser_->last = parser_->app->add_option(names, target, help)->allow_extra_args(false);
}

void CommandLine::option(const std::string& names, std::vector<int32_t>& target, const std::string& help) {
  const std::function<void(const std::vector<std::string>&)> set =
      [&target, names](const std::vector<std::string>& texts) { target = parse_numbers(names, texts); };
  parser_->last = parser_->app->add_option_function(names, set, help)
                      ->type_name("INT")
                      ->default_str(fmt::format("[{}]", fmt::join(target, ",")));
}

void CommandLine::option_with_optional_value(const std::string& names, std::optional<std::string>& target,
                                             const std::string& help) {
  const std::function<void(const std::string&)> set = [&target](const std::string& value) { target = value; };
  parser_->last = parser_->app->add_option_function(names, set, help)->expected(0, 1)->type_name("[TEXT]");
}

void CommandLine::flag(const std::string& names, bool& target, const std::string& help) {
  parser_->last = parser_->app->add_flag(names, target, help);
  parser_->last->transform(CLI::Validator(
      [](std::string& text) {
        const bool known = text == "true" || text == "false";
        return known ? std::string() : fmt::format("'{}' is not true or false; the option alone says true", text);
      },
      ""));
}

void CommandLine::choice(const std::string& names, std::string& target, const std::vector<std::string>& choices,
                         const std::string& help) {
  parser_->last = parser_->app->add_option(names, target, help)->check(CLI::IsMember(choices));
}

void CommandLine::choices(const std::string& names, std::vector<std::string>& target,
                          const std::vector<std::string>& choices, const std::string& help) {
  parser_->last = parser_->app->add_option(names, target, help)->check(CLI::IsMember(choices))->delimiter(',');
}

void CommandLine::required() { parser_->last->required(); }

void CommandLine::unset(const std::string& value, const std::string& meaning) {
  CLI::Option& option = *parser_->last;
  option.description(
      fmt::format("{}; {}: {}", option.get_description(), value.empty() ? "without" : value.c_str(), meaning));
  parser_->unset[&option] = {value, meaning};
}

bool CommandLine::given(const std::string& name) const {
  const CLI::Option* option = parser_->app->get_option_no_throw(name);
  return option != nullptr && option->count() > 0;
}

std::vector<std::string> CommandLine::given_names() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : parser_->app->get_options([](const CLI::Option* o) { return o->count() > 0; })) {
    names.push_back(option->get_name());
  }
  return names;
}

std::string CommandLine::long_name(const std::string& name) const {
  const CLI::Option* option = parser_->app->get_option_no_throw(name);
  if (option == nullptr || option->get_lnames().empty()) return "";
  return "--" + option->get_lnames().front();
}

bool CommandLine::is_flag(const std::string& name) const {
  const CLI::Option* option = parser_->app->get_option_no_throw(name);
  return option != nullptr && option->get_items_expected_max() == 0;
}

std::string CommandLine::default_of(const std::string& name) const {
  const CLI::Option* option = parser_->app->get_option_no_throw(name);
  const bool single = option != nullptr && option->get_items_expected_max() == 1;
  return single ? option->get_default_str() : "";
}

std::vector<CommandLine::Setting> CommandLine::settings() const {
  std::vector<Setting> all;
  for (const CLI::Option* option : parser_->app->get_options()) {
    if (option->get_lnames().empty() || option == parser_->app->get_help_ptr()) continue;
    Setting setting{.name = option->get_lnames().front()};
    setting.given = option->count() > 0;
    setting.list = option->get_items_expected_max() > 1;
    const std::string type = option->get_type_name();
    if (option->get_items_expected_max() == 0) {
      setting.kind = Setting::Kind::kFlag;
      setting.values = {setting.given && option->as<bool>() ? "true" : "false"};
    } else {
      const bool number = type.starts_with("INT") || type.starts_with("UINT") || type.starts_with("FLOAT");
      if (number) setting.kind = Setting::Kind::kNumber;
      const std::string fallback = option->get_default_str();
      if (setting.given) {
        setting.values = split_lists(option->results(), setting.list && number);
      } else if (!setting.list && !fallback.empty()) {
        setting.values = {fallback};
      }
    }
    if (const auto unset = parser_->unset.find(option); unset != parser_->unset.end()) {
      setting.unset_meaning = unset->second.meaning;
      if (setting.values == std::vector{unset->second.value}) setting.values.clear();
    }
    all.push_back(std::move(setting));
  }
  return all;
}

void CommandLine::on_arguments(std::function<Arguments(const std::vector<std::string>&)> change) {
  parser_->change = std::move(change);
}

void CommandLine::footer(const std::string& text) { parser_->app->footer(text); }

void CommandLine::version(const std::string& text) { parser_->app->set_version_flag("--version", text); }

int CommandLine::change_arguments(std::vector<std::string>& arguments) const {
  for (const auto& command : commands_) {
    if (arguments.empty() || command->parser_->app->get_name() != arguments[0] || !command->parser_->change) continue;
    return run_reporting({}, [&] {
      Arguments changed = command->parser_->change({arguments.begin() + 1, arguments.end()});
      arguments.resize(1);
      arguments.insert(arguments.end(), changed.tokens.begin(), changed.tokens.end());
      command->parser_->places = std::move(changed.places);
      return 0;
    });
  }
  return 0;
}

std::string CommandLine::place_in_files(const std::string& message) const {
  for (const auto& command : commands_) {
    if (std::string place = place_of(message, command->parser_->places); !place.empty()) return place;
  }
  return "";
}

int CommandLine::run(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (const int refused = change_arguments(arguments); refused != 0) return refused;
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
  try {
    parser_->app->parse(std::move(arguments));
  } catch (const CLI::ExtrasError& error) {
    const std::string unknown = unknown_word(*parser_->app);
    if (unknown.empty()) {
      parser_->app->exit(error);
    } else {
      write_message(unknown);
    }
    return exit_code(ErrorCode::kInvalidArgument);
  } catch (const CLI::ParseError& error) {
    if (const std::string place = place_in_files(error.what()); !place.empty()) {
      write_message(fmt::format("error: {}{}\n", place, error.what()));
      return exit_code(ErrorCode::kInvalidArgument);
    }
    // Help and version are "errors" with status 0; every other fault of the arguments is the user's.
    if (parser_->app->exit(error) != 0) return exit_code(ErrorCode::kInvalidArgument);
    return std::cout.flush() ? 0 : exit_code(ErrorCode::kIo);
  }
  const CommandLine* chosen = this;
  for (bool found = true; found;) {
    found = false;
    for (const auto& command : chosen->commands_) {
      if (!command->parser_->app->parsed()) continue;
      chosen = command.get();
      found = true;
      break;
    }
  }
  if (!chosen->parser_->run) {
    write_message(parser_->app->help());  // of the chosen command, with the names before it
    return exit_code(ErrorCode::kInvalidArgument);
  }
  log_enabled(LogLevel::kWarning);  // Reads REPRISE_LOG: a wrong value must be told even if nothing else is.
  return run_reporting(chosen->parser_->places, chosen->parser_->run);
}

}  // namespace reprise::cli
