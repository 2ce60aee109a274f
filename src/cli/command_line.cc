#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <new>

#include "base/error.h"

namespace reprise::cli {
namespace {

/// Runs a command and maps what it throws: the one place where errors become exit codes.
int run_reporting(const std::function<int()>& run) {
  try {
    return run();
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return exit_code(error.code());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "error: out of memory\n");
    return exit_code(ErrorCode::kOutOfMemory);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return exit_code(ErrorCode::kInternal);
  }
}

}  // namespace

struct CommandLine::Parser {
  std::unique_ptr<CLI::App> root;  // absent in commands below the root
  CLI::App* app = nullptr;
  CLI::Option* last = nullptr;
  std::function<int()> run;
};

CommandLine::CommandLine(std::string name, std::string description) : parser_(std::make_unique<Parser>()) {
  parser_->root = std::make_unique<CLI::App>(std::move(description), std::move(name));
  parser_->app = parser_->root.get();
  parser_->app->get_formatter()->column_width(36);
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

#define REPRISE_OPTION(TYPE)                                                                  \
  void CommandLine::option(const std::string& names, TYPE& target, const std::string& help) { \
    parser_->last = parser_->app->add_option(names, target, help);                            \
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
REPRISE_OPTION(std::vector<std::string>)
#undef REPRISE_OPTION

void CommandLine::option(const std::string& names, std::vector<int32_t>& target, const std::string& help) {
  parser_->last = parser_->app->add_option(names, target, help)->delimiter(',');
}

void CommandLine::flag(const std::string& names, bool& target, const std::string& help) {
  parser_->last = parser_->app->add_flag(names, target, help);
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

void CommandLine::footer(const std::string& text) { parser_->app->footer(text); }

void CommandLine::version(const std::string& text) { parser_->app->set_version_flag("--version", text); }

int CommandLine::run(int argc, char** argv) {
  try {
    parser_->app->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help and version are "errors" with status 0; every other fault of the arguments is the user's.
    return parser_->app->exit(error) == 0 ? 0 : exit_code(ErrorCode::kInvalidArgument);
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
    fmt::print(stderr, "{}", chosen->parser_->app->help());
    return exit_code(ErrorCode::kInvalidArgument);
  }
  return run_reporting(chosen->parser_->run);
}

}  // namespace reprise::cli
