#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/mapped_file.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/session.h"
#include "cli/statement.h"
#include "load/safetensors_writer.h"

namespace reprise::cli {
namespace {

struct LogitsOptions {
  SessionOptions session;
  std::string ids_file;
  std::string output;
  int32_t chunk = 0;
  bool decode = false;
};

std::vector<int32_t> read_ids(const std::string& path) {
  const nlohmann::json json = nlohmann::json::parse(read_file(path), nullptr, false);
  const auto is_id = [](const nlohmann::json& value) {
    return value.is_number_integer() && value >= 0 && value <= INT32_MAX;
  };
  if (!json.is_array() || json.empty() || !std::all_of(json.begin(), json.end(), is_id)) {
    throw Error(ErrorCode::kCorruptData, "{}: expected a JSON list of token ids, such as [1, 2, 3]", path);
  }
  return json.get<std::vector<int32_t>>();
}

int run_logits(const LogitsOptions& options) {
  const std::vector<int32_t> ids = read_ids(options.ids_file);
  Session session(options.session);
  const auto tokens = static_cast<int32_t>(ids.size());
  const auto engine = session.make_engine(std::nullopt, 1, tokens, tokens);
  const std::vector<float> logits = engine->prompt_logits(ids, {options.chunk, options.decode});
  const TensorMeta meta(DType::kF32, {tokens, session.model()->info().vocabulary});
  load::SafetensorsWriter writer(options.output, {{"logits", meta.dtype, meta.shape}});
  writer.write("logits", std::as_bytes(std::span(logits)));
  writer.finish();
  write_message(fmt::format("{}: logits {}\n{}", options.output, meta.to_string(),
                            statement_text(*engine, session.autotune_report())));
  return 0;
}

}  // namespace

void add_logits(CommandLine& program) {
  CommandLine& command = program.command("logits", "Write the logits of every position of a list of token ids");
  const auto options = std::make_shared<LogitsOptions>();
  options->session.add_model(command);
  command.option("--ids", options->ids_file, "file with a JSON list of token ids");
  command.required();
  command.option("-o,--out", options->output, "safetensors file to write: float32 `logits` [ids, vocabulary]");
  command.required();
  command.option("--chunk", options->chunk, "tokens of one step; 0: as many as --max-prefill-tokens");
  command.flag("--decode", options->decode, "feed the ids one by one, as decode steps");
  options->session.add_device(command);
  options->session.add_engine(command);
  options->session.add_graph(command);
  command.on_run([options] { return run_logits(*options); });
}

}  // namespace reprise::cli
