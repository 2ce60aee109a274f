#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "cli/chat_template_option.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "load/model_config.h"
#include "text/chat_prompt.h"
#include "text/tokenizer.h"

namespace reprise::cli {
namespace {

using Json = nlohmann::ordered_json;

struct RenderOptions {
  std::string model;
  ChatTemplateOption chat_template;
  text::ChatPromptOptions prompt;
  bool ids = false;
};

int run_render(const RenderOptions& options) {
  const std::filesystem::path path(options.model);
  if (!std::filesystem::exists(path)) throw Error(ErrorCode::kNotFound, "there is no model at {}", path.string());
  const std::filesystem::path directory = load::model_directory(path);
  const text::ChatTemplate chat_template = options.chat_template.load(directory);
  const text::ChatRequest request = text::ChatRequest::from_json(read_standard_input());
  ChatTemplateOption::check_reads(chat_template, request);
  if (!options.ids) {
    write_output(text::render_chat(chat_template, request, options.prompt).bytes());
    return 0;
  }
  const text::ChatPrompt prompt =
      text::make_chat_prompt(chat_template, text::load_tokenizer(directory), request, options.prompt);
  const Json json = {{"prompt", prompt.text.bytes()}, {"ids", prompt.ids}};
  write_output(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  return 0;
}

}  // namespace

void add_render(CommandLine& program) {
  CommandLine& command = program.command("render", "Print the prompt that a chat template makes of messages");
  const auto options = std::make_shared<RenderOptions>();
  command.option("-m,--model", options->model, "directory with the tokenizer's files; no weights are needed");
  command.required();
  options->chat_template.add(command);
  command.flag("--ids", options->ids, "print a JSON object with the prompt and its token ids");
  command.flag("--allow-special-in-content", options->prompt.allow_special_in_content,
               "read control tokens in the text of messages too; by default it never becomes one");
  command.flag("--continue-final-message", options->prompt.continue_final_message,
               "end with the last message, the assistant's, so that a model goes on with it");
  command.footer(
      "Reads one JSON object on standard input: \"messages\", \"tools\", \"add_generation_prompt\"; every other key is "
      "an\n"
      "argument of the template, such as \"enable_thinking\". The prompt is printed as it is, without a line break "
      "behind it.");
  command.on_run([options] { return run_render(*options); });
}

}  // namespace reprise::cli
