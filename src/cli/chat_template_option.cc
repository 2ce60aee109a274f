#include "cli/chat_template_option.h"

#include <optional>
#include <utility>

#include "base/error.h"

namespace reprise::cli {

void ChatTemplateOption::add(CommandLine& command) {
  command.option("--template", file, "file with a chat template (Jinja) instead of the model's own");
}

text::ChatTemplate ChatTemplateOption::load(const std::filesystem::path& directory) const {
  std::optional<text::ChatTemplate> loaded = text::ChatTemplate::load(directory, file);
  if (!loaded) {
    throw Error(ErrorCode::kUnsupported, "the model at {} has no chat template: it is not made for chats",
                directory.string())
        .remedy("give one with --template FILE, or continue texts with `reprise generate`");
  }
  return std::move(*loaded);
}

}  // namespace reprise::cli
