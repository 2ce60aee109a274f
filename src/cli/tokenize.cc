#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "text/tokenizer.h"

namespace reprise::cli {
namespace {

using Json = nlohmann::ordered_json;

struct TokenizeOptions {
  std::string model;
  bool decode = false;
  bool skip_special = false;
  bool no_added_tokens = false;
};

Json encode_line(const text::Tokenizer& tokenizer, const Json& line, const TokenizeOptions& options) {
  if (!line.is_object() || !line.contains("text") || !line["text"].is_string()) {
    throw Error(ErrorCode::kCorruptData, R"(expected {"text": "..."})");
  }
  text::EncodeOptions encode;
  if (options.no_added_tokens) encode.added_tokens = text::AddedTokenPolicy::kNone;
  const std::vector<int32_t> ids = tokenizer.encode(line["text"].get<std::string>(), encode);
  return {{"ids", ids}, {"decoded", tokenizer.decode(ids, options.skip_special)}};
}

Json decode_line(const text::Tokenizer& tokenizer, const Json& line, const TokenizeOptions& options) {
  const Json& ids = line.is_object() && line.contains("ids") ? line["ids"] : line;
  const auto is_id = [](const Json& value) { return value.is_number_integer() && value >= 0 && value <= INT32_MAX; };
  if (!ids.is_array() || !std::all_of(ids.begin(), ids.end(), is_id)) {
    throw Error(ErrorCode::kCorruptData, R"(expected {"ids": [1, 2, 3]})");
  }
  return {{"text", tokenizer.decode(ids.get<std::vector<int32_t>>(), options.skip_special)}};
}

int run_tokenize(const TokenizeOptions& options) {
  const std::filesystem::path path(options.model);
  const text::Tokenizer tokenizer =
      std::filesystem::is_directory(path) ? text::load_tokenizer(path) : text::Tokenizer::from_file(path);
  std::string line;
  for (size_t number = 1; std::getline(std::cin, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      const Json json = Json::parse(line, nullptr, false);
      if (json.is_discarded()) throw Error(ErrorCode::kCorruptData, "not valid JSON");
      const Json result =
          options.decode ? decode_line(tokenizer, json, options) : encode_line(tokenizer, json, options);
      write_output(result.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
    } catch (Error& error) {
      error.add_context(fmt::format("standard input, line {}", number));
      throw;
    }
  }
  return 0;
}

}  // namespace

void add_tokenize(CommandLine& program) {
  CommandLine& command = program.command("tokenize", "Turn texts into token ids, or back");
  const auto options = std::make_shared<TokenizeOptions>();
  command.option("-m,--model", options->model, "directory with a tokenizer.json, or the file itself");
  command.required();
  command.flag("--decode", options->decode, "ids to text");
  command.flag("--skip-special", options->skip_special, "leave control tokens out of decoded text");
  command.flag("--no-added-tokens", options->no_added_tokens, "treat the text of added tokens as ordinary text");
  command.footer(
      "Reads JSON lines on standard input: {\"text\": \"...\"}, or with --decode {\"ids\": [...]} or a list of ids.\n"
      "Writes one for each: {\"ids\": [...], \"decoded\": \"...\"}, or {\"text\": \"...\"}.");
  command.on_run([options] { return run_tokenize(*options); });
}

}  // namespace reprise::cli
