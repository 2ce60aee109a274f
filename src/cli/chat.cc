#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/devices.h"
#include "base/error.h"
#include "cli/chat_template_option.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/line_reader.h"
#include "cli/sampling_options.h"
#include "cli/session.h"
#include "cli/statement.h"
#include "text/assistant_parser.h"
#include "text/chat_prompt.h"
#include "text/tokenizer.h"

namespace reprise::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ChatOptions {
  SessionOptions session;
  ChatTemplateOption chat_template;
  SamplingOptions sampling;
  std::optional<std::string> system;
  std::vector<std::string> template_arguments;
  std::string thinking = "auto";
  bool allow_special_in_content = false;
  bool quiet = false;
};

constexpr const char* kHelp =
    "  /reset   forget the conversation\n"
    "  /stats   speeds and decode steps so far\n"
    "  /help    this list\n"
    "  /exit    leave, as Ctrl-D does\n"
    "Ctrl-C stops an answer. A line that ends with a backslash goes on in the next one.\n";

/// Prints an answer as it comes. Control characters of a model do not reach the terminal.
class AnswerPrinter {
 public:
  AnswerPrinter(bool terminal, bool thinking)
      : terminal_(terminal), dimmed_(terminal && std::getenv("NO_COLOR") == nullptr), thinking_(thinking) {}

  void print(const text::AssistantDelta& delta) {
    const bool reasoning = delta.kind == text::AssistantDelta::Kind::kReasoning;
    if (reasoning && !thinking_) return;
    std::string out;
    if (reasoning != in_reasoning_) {
      if (dimmed_) out += reasoning ? "\x1b[2m" : "\x1b[0m";
      if (!reasoning) out += "\n\n";
      in_reasoning_ = reasoning;
    }
    out += terminal_ ? printable(delta.text) : delta.text;
    any_ = true;
    write_output(out);
  }

  void end() {
    std::string out;
    if (in_reasoning_ && dimmed_) out += "\x1b[0m";
    if (any_) out += "\n";
    if (!out.empty()) write_output(out);
    in_reasoning_ = any_ = false;
  }

 private:
  static std::string printable(const std::string& text) {
    std::string result;
    for (const char character : text) {
      const bool control = (static_cast<unsigned char>(character) < ' ' && character != '\n' && character != '\t') ||
                           character == '\x7f';
      result += control ? std::string("\uFFFD") : std::string(1, character);
    }
    return result;
  }

  bool terminal_;
  bool dimmed_;
  bool thinking_;
  bool in_reasoning_ = false;
  bool any_ = false;
};

/// One conversation with a model in the terminal, or with lines from elsewhere.
class Chat {
 public:
  Chat(const ChatOptions& options, Session& session, text::ChatTemplate chat_template, Json template_arguments)
      : options_(options),
        session_(session),
        chat_template_(std::move(chat_template)),
        tokenizer_(text::load_tokenizer(session.directory())),
        template_arguments_(std::move(template_arguments)),
        terminal_(::isatty(STDOUT_FILENO) == 1),
        interactive_(::isatty(STDIN_FILENO) == 1),
        thinking_(options.thinking == "show" || (options.thinking == "auto" && terminal_)),
        engine_(session.make_engine(tokenizer_, 1, 0, 0)) {
    reset();
  }

  int run() {
    collect_interrupts();
    if (interactive_) write_message("/help lists the commands, Ctrl-D leaves.\n");
    std::string line;
    while (next_message(line)) {
      if (is_command(line)) {
        if (!run_command(line)) break;
      } else if (line.find_first_not_of(" \t") != std::string::npos) {
        answer(line);
      }
    }
    if (!options_.quiet) write_message(statement());
    return 0;
  }

 private:
  void reset() {
    messages_ = Json::array();
    if (options_.system) messages_.push_back({{"role", "system"}, {"content", *options_.system}});
  }

  std::string statement() {
    return fmt::format("\n{}\n{}", api::describe(session_.device()),
                       statement_text(*engine_, session_.autotune_report()));
  }

  /// Reads lines up to one that does not end with a backslash. False at the end of the input.
  bool next_message(std::string& message) {
    message.clear();
    while (true) {
      if (interactive_) write_message(message.empty() ? "> " : "... ");
      std::string line;
      switch (reader_.read(line)) {
        case LineReader::Outcome::kEnd:
          if (interactive_) write_message("\n");
          return !message.empty();
        case LineReader::Outcome::kInterrupted:
          if (!interactive_) throw Error(ErrorCode::kCancelled, "interrupted");
          write_message("\n(Ctrl-D or /exit leaves)\n");
          message.clear();
          continue;
        case LineReader::Outcome::kLine:
          break;
      }
      if (!line.ends_with('\\')) {
        message += line;
        return true;
      }
      line.back() = '\n';
      message += line;
    }
  }

  /// A slash and a word, alone in the line.
  static bool is_command(const std::string& line) {
    return line.size() > 1 && line[0] == '/' && std::all_of(line.begin() + 1, line.end(), [](char character) {
             return character >= 'a' && character <= 'z';
           });
  }

  /// False when it ends the chat.
  bool run_command(const std::string& command) {
    if (command == "/exit" || command == "/quit") return false;
    if (command == "/reset") {
      reset();
      write_message("(the conversation is forgotten)\n");
    } else if (command == "/help") {
      write_message(kHelp);
    } else if (command == "/stats") {
      write_message(statement());
    } else {
      write_message(fmt::format("there is no command {}; a space before it makes it a message\n{}", command, kHelp));
    }
    return true;
  }

  void answer(const std::string& message) {
    messages_.push_back({{"role", "user"}, {"content", message}});
    try {
      generate();
    } catch (const Error& error) {
      if (!interactive_) throw;
      // The message is taken back: with it, every further one would fail in the same way.
      if (messages_.back()["role"] == "user") messages_.erase(messages_.size() - 1);
      write_message(fmt::format("error: {}\n", error.what()));
    }
  }

  text::ChatPrompt prompt() const {
    Json request = template_arguments_;
    request["messages"] = messages_;
    request["add_generation_prompt"] = true;
    text::ChatPromptOptions options;
    options.allow_special_in_content = options_.allow_special_in_content;
    return text::make_chat_prompt(
        chat_template_, tokenizer_,
        text::ChatRequest::from_json(request.dump(-1, ' ', false, Json::error_handler_t::replace)), options);
  }

  int32_t room_behind(size_t prompt_tokens) const {
    const int64_t capacity = engine_->kv_pool().usable_tokens();
    const int64_t context = std::min<int64_t>(engine_->options().max_context, capacity);
    const int64_t room = context - static_cast<int64_t>(prompt_tokens);
    if (room < 1) {
      throw Error(ErrorCode::kInvalidArgument, "the conversation has {} tokens, and {} fit", prompt_tokens, context)
          .remedy("/reset begins a new one");
    }
    return static_cast<int32_t>(room);
  }

  void generate() {
    text::ChatPrompt prompt = this->prompt();
    text::AssistantParserOptions parts;
    parts.tools = false;  // none are offered
    parts.starts_in_reasoning = prompt.opens_reasoning;
    text::AssistantParser parser(parts);
    AnswerPrinter printer(terminal_, thinking_);
    text::AssistantMessage answer;
    std::optional<engine::RequestOutput> output;
    const auto take = [&](const std::vector<text::AssistantDelta>& deltas) {
      for (const text::AssistantDelta& delta : deltas) {
        answer.add(delta);
        printer.print(delta);
      }
    };
    engine::Request request;
    request.sampling = options_.sampling.parameters;
    request.sampling.max_new_tokens = std::min(request.sampling.max_new_tokens, room_behind(prompt.ids.size()));
    request.prompt = std::move(prompt.ids);
    request.skip_special_tokens = !text::AssistantParser::markers_are_special(tokenizer_);
    request.on_token = [&](const engine::TokenEvent& event) {
      if (event.output != nullptr) output = *event.output;
      take(parser.push(event.text));
    };
    take_interrupt();
    const engine::RequestId id = engine_->submit(std::move(request));
    bool stopped = false;
    while (engine_->step()) {
      if (stopped || !take_interrupt()) continue;
      stopped = true;
      engine_->cancel(id);
    }
    take(parser.finish());
    printer.end();
    if (output && output->error) throw *output->error;
    // What was said so far is part of the conversation, also where it was stopped.
    Json said = {{"role", "assistant"}, {"content", answer.content}};
    if (!answer.reasoning.empty()) said["reasoning_content"] = answer.reasoning;
    messages_.push_back(std::move(said));
    remark(stopped, *output, answer);
    if (stopped && !interactive_) throw Error(ErrorCode::kCancelled, "interrupted");
  }

  /// Says why an answer may not be what was hoped for.
  static void remark(bool stopped, const engine::RequestOutput& output, const text::AssistantMessage& answer) {
    if (stopped) {
      write_message("(stopped)\n");
    } else if (output.finish == engine::FinishReason::kLength) {
      write_message(fmt::format("(cut off after {} tokens{})\n", output.token_ids.size(),
                                answer.content.empty() && !answer.reasoning.empty() ? ", still thinking" : ""));
    }
  }

  const ChatOptions& options_;
  Session& session_;
  text::ChatTemplate chat_template_;
  text::Tokenizer tokenizer_;
  Json template_arguments_;
  bool terminal_;
  bool interactive_;
  bool thinking_;
  std::unique_ptr<engine::Engine> engine_;
  LineReader reader_;
  Json messages_;
};

/// Reads NAME=VALUE, where a value that is JSON counts as such and all else as a text.
Json parse_template_arguments(const std::vector<std::string>& arguments) {
  Json parsed = Json::object();
  for (const std::string& argument : arguments) {
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    if (equals == std::string::npos || name.empty()) {
      throw Error(ErrorCode::kInvalidArgument, "--template-argument '{}' is not of the form NAME=VALUE", argument);
    }
    if (name == "messages" || name == "tools" || name == "add_generation_prompt") {
      throw Error(ErrorCode::kInvalidArgument, "--template-argument: '{}' is not the user's to set in a chat", name);
    }
    const std::string value = argument.substr(equals + 1);
    Json json = Json::parse(value, nullptr, false);
    parsed[name] = json.is_discarded() ? Json(value) : std::move(json);
  }
  return parsed;
}

int run_chat(ChatOptions& options) {
  // The cheap faults first: they must not cost the loading of a model.
  options.sampling.check();
  Json arguments = parse_template_arguments(options.template_arguments);
  if (!std::filesystem::exists(options.session.model)) {
    throw Error(ErrorCode::kNotFound, "there is no model at {}", options.session.model);
  }
  text::ChatTemplate chat_template = options.chat_template.load(load::model_directory(options.session.model));
  Json no_messages = arguments;
  no_messages["messages"] = Json::array();
  ChatTemplateOption::check_reads(chat_template, text::ChatRequest::from_json(no_messages.dump()));
  Session session(options.session);
  options.sampling.parameters.max_new_tokens = INT32_MAX;  // unless user or model say less: as much as fits
  options.sampling.apply(session.generation_config());
  return Chat(options, session, std::move(chat_template), std::move(arguments)).run();
}

}  // namespace

void add_chat(CommandLine& program) {
  CommandLine& command = program.command("chat", "Talk with a model in the terminal");
  const auto options = std::make_shared<ChatOptions>();
  options->session.add_model(command);
  command.option("--system", options->system,
                 "message that comes before the conversation and tells the model its task");
  options->chat_template.add(command);
  command.option(
      "--template-argument", options->template_arguments,
      "NAME=VALUE, a variable of the chat template, such as enable_thinking=false; may be given several times");
  command.choice("--thinking", options->thinking, {"auto", "show", "hide"},
                 "whether reasoning is printed; auto: on a terminal, where it is dimmed");
  command.flag("--allow-special-in-content", options->allow_special_in_content,
               "read control tokens in the text of messages too; by default it never becomes one");
  options->sampling.add(command, "most tokens of an answer; default: the model's, else what fits into the context");
  command.flag("--quiet", options->quiet, "no statement at the end");
  options->session.add_device(command);
  options->session.add_engine(command);
  options->session.add_graph(command);
  command.footer(std::string("Each line of standard input is a message, and these are commands:\n") + kHelp +
                 "Answers go to standard output as they are produced, all else to standard error.");
  command.on_run([options] { return run_chat(*options); });
}

}  // namespace reprise::cli
