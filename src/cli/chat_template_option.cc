#include "cli/chat_template_option.h"

#include <optional>
#include <utility>

#include "base/error.h"
#include "text/chat_prompt.h"

namespace reprise::cli {

void ChatTemplateOption::add(CommandLine& command) {
  command.option("--template", file, "file with a chat template (Jinja) instead of the model's own");
}

text::ChatTemplate ChatTemplateOption::load(const std::filesystem::path& directory) const {
  std::optional<text::ChatTemplate> loaded = text::ChatTemplate::load(directory, file);
  if (!loaded && !std::filesystem::exists(directory / "config.json") &&
      !std::filesystem::exists(directory / "tokenizer.json")) {
    throw Error(ErrorCode::kNotFound, "there is no model at {}: it has neither config.json nor tokenizer.json",
                directory.string());
  }
  if (!loaded) {
    throw Error(ErrorCode::kUnsupported, "the model at {} has no chat template: it is not made for chats",
                directory.string())
        .remedy("give one with --template FILE, or continue texts with `reprise generate`");
  }
  return std::move(*loaded);
}

void ChatTemplateOption::check_reads(const text::ChatTemplate& chat_template, const text::ChatRequest& request) {
  const std::string name = text::unread_variable(chat_template, request);
  if (name == "tools") throw Error(ErrorCode::kInvalidArgument, "the chat template knows no tools");
  if (!name.empty()) throw Error(ErrorCode::kInvalidArgument, "the chat template does not read '{}'", name);
}

}  // namespace reprise::cli
