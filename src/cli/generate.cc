#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "api/devices.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/option_range.h"
#include "cli/output_file.h"
#include "cli/prompts.h"
#include "cli/recipe_options.h"
#include "cli/sampling_options.h"
#include "cli/session.h"
#include "cli/statement.h"
#include "text/tokenizer.h"

namespace reprise::cli {
namespace {

using Json = nlohmann::ordered_json;

struct GenerateOptions {
  SessionOptions session;
  std::optional<std::string> prompt;
  std::optional<std::string> prompts_file;
  SamplingOptions sampling;
  int32_t max_running = 32;
  bool json = false;
  bool quiet = false;
  bool show_special = false;
  std::string output_file;
  RecipeOption recipe;
  std::string dataset_path;         ///< of the recipe: prompts, if the command line gives none
  int32_t input_truncated_len = 0;  ///< most tokens of a prompt that are read; 0: all
};

std::vector<std::string> collect_prompts(const GenerateOptions& options) {
  if (options.prompts_file) {
    if (options.prompt) throw Error(ErrorCode::kInvalidArgument, "give either --prompt or --prompts, not both");
    return read_prompts(*options.prompts_file);
  }
  if (options.prompt) return {*options.prompt};
  if (!options.dataset_path.empty()) {
    return repeat_prompts(read_default_prompts(options.dataset_path), options.max_running);
  }
  return {read_standard_input()};
}

Json logprobs_json(const std::vector<engine::PositionLogprobs>& logprobs, const text::Tokenizer& tokenizer) {
  const auto entry = [&](const engine::TokenLogprob& token) {
    const std::string_view bytes = tokenizer.token_bytes(token.token);
    return Json{{"id", token.token},
                {"token", tokenizer.decode({&token.token, 1})},
                {"bytes", std::vector<int>(reinterpret_cast<const unsigned char*>(bytes.data()),
                                           reinterpret_cast<const unsigned char*>(bytes.data()) + bytes.size())},
                {"logprob", token.logprob}};
  };
  Json positions = Json::array();
  for (const engine::PositionLogprobs& position : logprobs) {
    Json item = entry(position.chosen);
    item["top"] = Json::array();
    for (const engine::TokenLogprob& alternative : position.alternatives) item["top"].push_back(entry(alternative));
    positions.push_back(std::move(item));
  }
  return positions;
}

Json output_json(size_t index, const engine::RequestOutput& output, const text::Tokenizer& tokenizer, bool logprobs) {
  Json json;
  json["index"] = index;
  json["text"] = output.text;
  json["finish_reason"] = name_of(output.finish);
  if (!output.stop_string.empty()) json["stop"] = output.stop_string;
  if (output.error) json["error"] = output.error->what();
  json["prompt_tokens"] = output.prompt_tokens;
  json["ids"] = output.token_ids;
  json["seed"] = output.seed;
  if (logprobs) json["logprobs"] = logprobs_json(output.logprobs, tokenizer);
  return json;
}

/// One line a token for a person: "-0.1234  \"text\"  (alternatives)".
std::string logprobs_text(const engine::RequestOutput& output, const text::Tokenizer& tokenizer) {
  const auto quoted = [&](int32_t id) {
    return Json(tokenizer.decode({&id, 1})).dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::string text;
  for (const engine::PositionLogprobs& position : output.logprobs) {
    text += fmt::format("{:9.4f}  {}", position.chosen.logprob, quoted(position.chosen.token));
    for (size_t i = 0; i < position.alternatives.size(); ++i) {
      text += fmt::format("{}{} {:.4f}", i == 0 ? "   of " : ", ", quoted(position.alternatives[i].token),
                          position.alternatives[i].logprob);
    }
    text += "\n";
  }
  return text;
}

/// "64 tokens, then the limit": how much a single prompt gave, and what ended it.
std::string output_summary(const engine::RequestOutput& output) {
  const auto end = [&]() -> std::string {
    switch (output.finish) {
      case engine::FinishReason::kStop:
        if (output.stop_string.empty()) return "an end token";
        return fmt::format("the stop string {}",
                           Json(output.stop_string).dump(-1, ' ', false, Json::error_handler_t::replace));
      case engine::FinishReason::kLength:
        return "the limit";
      case engine::FinishReason::kCancelled:
        return "an interrupt";
      case engine::FinishReason::kError:
        return "an error";
    }
    return {};
  };
  return fmt::format("output    {} tokens, then {}\n", output.token_ids.size(), end());
}

/// Runs every prompt and prints as it goes.
class Generation {
 public:
  Generation(GenerateOptions& options, Session& session, text::Tokenizer tokenizer, std::vector<std::string> prompts,
             OutputFile* output)
      : output_(output),
        options_(options),
        session_(session),
        tokenizer_(std::move(tokenizer)),
        prompts_(std::move(prompts)) {}

  int run() {
    std::vector<std::vector<int32_t>> ids;
    for (const std::string& prompt : prompts_) ids.push_back(tokenizer_.encode(prompt));
    truncate(ids);
    make_engine(ids);
    outputs_.resize(prompts_.size());
    watch_interrupts(seconds_to_end(session_.device()));
    warn_of_less_room(ids);
    for (size_t i = 0; i < ids.size(); ++i) submit(i, std::move(ids[i]));
    run_engine();
    end_interrupt_limit();
    return report();
  }

 private:
  void run_engine() {
    try {
      while (!interrupted() && engine_->step()) {
      }
      if (interrupted()) cancel_rest();
    } catch (const Error& error) {
      if (!interrupted()) throw;
      throw Error(ErrorCode::kCancelled, "interrupted; what was running ended with: {}", error.what());
    }
  }

  void truncate(std::vector<std::vector<int32_t>>& ids) const {
    const auto limit = static_cast<size_t>(options_.input_truncated_len);
    size_t longer = 0;
    for (std::vector<int32_t>& prompt : ids) {
      if (limit == 0 || prompt.size() <= limit) continue;
      prompt.resize(limit);
      ++longer;
    }
    if (longer > 0) log_warning("{} of {} prompts are cut to their first {} tokens", longer, ids.size(), limit);
  }

  /// Of what the user asks for by number; a default means as much as fits.
  void warn_of_less_room(const std::vector<std::vector<int32_t>>& ids) const {
    const int64_t wanted = options_.sampling.max_new_tokens.value_or(0);
    const int64_t context = engine_->options().max_context;
    const auto lacks_room = [&](const auto& prompt) { return static_cast<int64_t>(prompt.size()) + wanted > context; };
    const auto count = std::count_if(ids.begin(), ids.end(), lacks_room);
    if (count == 0) return;
    const size_t longest = std::max_element(ids.begin(), ids.end(), [](const auto& a, const auto& b) {
                             return a.size() < b.size();
                           })->size();
    log_warning("--max-new-tokens is {}, but behind {} prompt tokens the context of {} has room for {}: {}", wanted,
                longest, context, std::max<int64_t>(0, context - static_cast<int64_t>(longest)),
                ids.size() == 1 ? "no more are produced"
                                : fmt::format("{} of {} prompts get no more than fit", count, ids.size()));
  }

  void make_engine(const std::vector<std::vector<int32_t>>& ids) {
    const auto maximum = static_cast<int32_t>(session_.model()->info().max_positions);
    const int32_t running = std::min<int32_t>(options_.max_running, static_cast<int32_t>(ids.size()));
    std::vector<engine::RequestSize> sizes;
    int64_t longest = 1;
    for (const auto& prompt : ids) {
      const int64_t prompt_tokens = static_cast<int64_t>(prompt.size());
      const int64_t most_new = std::max<int64_t>(0, maximum - prompt_tokens);
      const auto new_tokens =
          static_cast<int32_t>(std::min<int64_t>(options_.sampling.parameters.max_new_tokens, most_new));
      sizes.push_back({static_cast<int32_t>(prompt_tokens), new_tokens});
      longest = std::max(longest, prompt_tokens + new_tokens);
    }
    const int32_t context = static_cast<int32_t>(std::min<int64_t>(longest, maximum));
    engine_ =
        session_.make_engine(tokenizer_, running, engine::kv_tokens_for(sizes, running, session_.page_size()), context);
    if (options_.session.profile_capture) engine_->capture(running);
  }

  void submit(size_t index, std::vector<int32_t> prompt) {
    engine::Request request;
    request.prompt = std::move(prompt);
    request.sampling = options_.sampling.parameters;
    const int64_t room = engine_->options().max_context - static_cast<int64_t>(request.prompt.size());
    if (room > 0)
      request.sampling.max_new_tokens =
          static_cast<int32_t>(std::min<int64_t>(room, options_.sampling.parameters.max_new_tokens));
    request.skip_special_tokens = !options_.show_special;
    const bool stream = prompts_.size() == 1 && !options_.json;
    request.on_token = [this, index, stream](const engine::TokenEvent& event) {
      if (stream && !event.text.empty()) write_output(std::string(event.text));
      if (event.output == nullptr) return;
      outputs_[index] = *event.output;
      open_.erase(event.request);
      if (!options_.json && output_ == nullptr) return;
      const std::string line =
          output_json(index, *event.output, tokenizer_, options_.sampling.parameters.logprobs.has_value())
              .dump(-1, ' ', false, Json::error_handler_t::replace) +
          "\n";
      if (options_.json) write_output(line);
      if (output_ != nullptr) output_->write(line);
    };
    try {
      open_.insert(engine_->submit(std::move(request)));
    } catch (Error& error) {
      if (prompts_.size() > 1) error.add_context(fmt::format("prompt {}", index));
      throw;
    }
  }

  void cancel_rest() {
    const std::set<engine::RequestId> ids = open_;
    for (const engine::RequestId id : ids) engine_->cancel(id);
    engine_->run_until_done();
  }

  int report() {
    if (output_ != nullptr) output_->close();
    const bool several = prompts_.size() > 1;
    if (!options_.json) {
      for (size_t i = 0; several && i < outputs_.size(); ++i) {
        write_output(fmt::format("--- {}: {} ({} tokens)\n{}\n", i, name_of(outputs_[i].finish),
                                 outputs_[i].token_ids.size(), outputs_[i].text));
      }
      if (!several) write_output("\n");
      for (const engine::RequestOutput& output : outputs_) {
        if (options_.sampling.parameters.logprobs) write_output(logprobs_text(output, tokenizer_));
      }
    }
    if (!options_.quiet) {
      if (options_.json) {
        write_output(R"({"statement": )" + statement_json(*engine_, session_.autotune_report()) + "}\n");
      } else {
        write_message(fmt::format("\n{}\n{}{}", api::describe(session_.device()),
                                  several ? "" : output_summary(outputs_[0]),
                                  statement_text(*engine_, session_.autotune_report())));
      }
    }
    report_errors();
    if (interrupted()) throw Error(ErrorCode::kCancelled, "interrupted");
    return 0;
  }

  /// Those that failed do not keep the others from their end; of several the first one's error is the command's.
  void report_errors() const {
    const auto failed = [](const engine::RequestOutput& output) { return output.error.has_value(); };
    const auto first = std::find_if(outputs_.begin(), outputs_.end(), failed);
    if (first == outputs_.end()) return;
    Error error = *first->error;
    if (const auto count = std::count_if(outputs_.begin(), outputs_.end(), failed); outputs_.size() > 1) {
      error.add_context(
          fmt::format("{} of {} prompts failed; prompt {}", count, outputs_.size(), first - outputs_.begin()));
    }
    throw error;
  }

  OutputFile* output_;  ///< null: none
  GenerateOptions& options_;
  Session& session_;
  text::Tokenizer tokenizer_;
  std::vector<std::string> prompts_;
  std::unique_ptr<engine::Engine> engine_;
  std::set<engine::RequestId> open_;
  std::vector<engine::RequestOutput> outputs_;
};

void apply_recipe(GenerateOptions& options) {
  const RecipeOption& recipe = options.recipe;
  const std::optional<RecipeConfig> file = recipe.apply(
      options.session, {"data_config.dataset_path", "data_config.input_truncated_len", "data_config.temperature",
                        "data_config.top_p", "data_config.top_k", "data_config.seed", "model_config.output_path",
                        "scheduler_config.batch_size", "scheduler_config.max_new_tokens"});
  if (!file) return;
  options.dataset_path = file->dataset_path;
  options.input_truncated_len = file->input_truncated_len;
  SamplingOptions& sampling = options.sampling;
  recipe.set("--temperature", sampling.temperature, file->temperature);
  // The recipes allow 0: the most likely token, as with the smallest probability that is allowed here.
  recipe.set("--top-p", sampling.top_p, std::max(file->top_p, std::numeric_limits<double>::min()));
  recipe.set("--top-k", sampling.top_k, file->top_k);
  if (file->seed) recipe.set("--seed", sampling.parameters.seed, *file->seed);
  recipe.set("--max-new-tokens", sampling.max_new_tokens, file->max_new_tokens);
  recipe.set("--max-running", options.max_running, file->batch_size);
  if (!file->output_path.empty()) {
    recipe.set("--out", options.output_file, RecipeOption::output_file(*file, "generate.jsonl"));
  }
}

int run_generate(GenerateOptions& options) {
  apply_recipe(options);
  require_range("--max-running", options.max_running, 1, engine::kMostRunning);
  // The cheap faults first: a bad option or prompt must not cost the loading of a model.
  std::vector<std::string> prompts = collect_prompts(options);
  std::optional<OutputFile> output;
  if (!options.output_file.empty()) output.emplace(options.output_file);
  options.sampling.check();
  Session session(options.session);
  options.sampling.apply(session.generation_config());
  return Generation(options, session, text::load_tokenizer(session.directory()), std::move(prompts),
                    output ? &*output : nullptr)
      .run();
}

}  // namespace

void add_generate(CommandLine& program) {
  CommandLine& command = program.command("generate", "Continue a prompt, or a batch of prompts, with a model");
  const auto options = std::make_shared<GenerateOptions>();
  options->session.add_model(command, false);
  options->recipe.add(command);
  command.option("-p,--prompt", options->prompt, "text to continue; without it and --prompts: standard input");
  command.option("--prompts", options->prompts_file, "file with one JSON object {\"prompt\": \"...\"} a line: a batch");
  options->sampling.add(command, "most tokens to produce for each prompt; default: the model's, else 128");
  command.option("--logprobs", options->sampling.parameters.logprobs,
                 "print log probabilities with so many alternatives (0 to 20)");
  command.option("--max-running", options->max_running, "most prompts of a batch that run at a time");
  command.option("--out", options->output_file, "write the outputs as well: one JSON object a line");
  command.flag("--json", options->json, "print one JSON object a line: the outputs, then the statement");
  command.flag("--quiet", options->quiet, "no statement");
  command.flag("--show-special", options->show_special, "print control tokens");
  options->session.add_device(command);
  options->session.add_engine(command);
  options->session.add_graph(command);
  options->session.add_profile(command);
  command.footer(
      "The text goes to standard output, that of a single prompt as it is produced; the statement goes to standard "
      "error:\n"
      "speeds, decode steps by how they ran and why, and what captures cost. With --json both go to standard output.");
  command.on_run([options] { return run_generate(*options); });
}

}  // namespace reprise::cli
