#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "cli/bench.h"
#include "cli/input.h"
#include "cli/output_file.h"
#include "cli/server_address.h"
#include "cli/watched_load.h"
#include "client/load_plot.h"
#include "client/report.h"

namespace reprise::cli {
namespace {

constexpr int32_t kMostWarmupTokens = 32;

struct ServeOptions {
  ServerAddress server;
  std::string backend = "sglang";
  std::string model;
  std::string tokenizer;
  std::string dataset = "random";
  std::string dataset_path;
  client::PromptLengths lengths{1024, 1024, 0};
  std::optional<int32_t> vocabulary;
  int32_t num_prompts = 1000;
  double request_rate = std::numeric_limits<double>::infinity();
  std::optional<int32_t> max_concurrency;
  uint64_t seed = 1;
  int32_t warmup_requests = 1;
  bool flush_cache = false;
  bool disable_ignore_eos = false;
  double temperature = 0;
  std::string extra_body;
  std::string output_file;
  bool output_details = false;
  std::string plot;

  void check() const {
    require_at_least("--num-prompts", num_prompts, 1);
    require_at_least("--warmup-requests", warmup_requests, 0);
    if (max_concurrency) require_at_least("--max-concurrency", *max_concurrency, 1);
    if (vocabulary) require_at_least("--vocab-size", *vocabulary, 1);
    if (!(request_rate > 0)) {
      throw Error(ErrorCode::kInvalidArgument, "--request-rate is {}, must be above 0", request_rate);
    }
    lengths.check();
    if (dataset == "jsonl" && dataset_path.empty()) {
      throw Error(ErrorCode::kInvalidArgument, "--dataset-name jsonl needs a --dataset-path");
    }
    if (dataset == "random-ids" && !dataset_path.empty()) {
      throw Error(ErrorCode::kInvalidArgument, "--dataset-name random-ids reads no --dataset-path");
    }
    if (dataset == "random" && tokenizer.empty()) {
      throw Error(ErrorCode::kInvalidArgument, "--dataset-name random needs a --tokenizer, which counts the tokens")
          .remedy("give the model's directory, or use --dataset-name random-ids");
    }
  }
};

/// Sends the load, and asks the server before and behind.
class ServeBenchmark {
 public:
  explicit ServeBenchmark(const ServeOptions& options)
      : options_(options), backend_(client::backend_from_name(options.backend)) {}

  int run() {
    if (!options_.tokenizer.empty()) tokenizer_ = text::load_tokenizer(options_.tokenizer);
    // Before anything is measured: a path that cannot be written should not cost a run.
    if (!options_.output_file.empty()) append(options_.output_file, "");
    std::optional<OutputFile> plot;
    if (!options_.plot.empty()) plot.emplace(options_.plot);
    loop_ = options_.server.connect();
    client::ServerState server(*loop_);
    ask(server);
    prompts_ = make_prompts();
    warm_up();
    if (options_.flush_cache) server.flush_cache();
    if (options_.warmup_requests > 0 || options_.flush_cache) {
      // What the server does behind its last answer should not meet the first requests.
      std::this_thread::sleep_for(std::chrono::seconds(1));
    }
    report_.before = server.decode_counters();
    const client::LoadResult result = send();
    report_.after = server.decode_counters();
    report_.accept_length = server.info().accept_length;
    finish(result);
    if (plot) {
      plot->write(client::load_plot(result, fmt::format("{} {}, {} requests, rate {}, {} tokens/s", report_.backend,
                                                        report_.model, result.requests.size(), options_.request_rate,
                                                        static_cast<int64_t>(report_.measures.output_throughput()))));
      plot->close();
    }
    if (result.interrupted) throw Error(ErrorCode::kCancelled, "interrupted");
    return complain_about_failures(result);
  }

 private:
  void ask(client::ServerState& server) {
    settings_.model = options_.model;
    if (settings_.model.empty()) settings_.model = server.model().value_or("default");
    const client::ServerInfo info = server.info();
    settings_.incremental_text = info.incremental_text;
    vocabulary_ = info.vocabulary;
    settings_.temperature = options_.temperature;
    settings_.ignore_eos = !options_.disable_ignore_eos;
    settings_.extra_body = options_.extra_body;
  }

  /// Those of the benchmark, and behind them one for the warm-up: it must leave none of theirs in the server's cache.
  std::vector<client::Prompt> make_prompts() {
    const client::PromptSource source(options_.lengths, options_.seed);
    const int32_t count = options_.num_prompts + 1;
    if (options_.dataset == "random-ids") return source.random_ids(count, vocabulary());
    if (options_.dataset == "random" && options_.dataset_path.empty()) return source.random_words(count, *tokenizer_);
    const std::vector<std::string> texts = client::read_prompt_texts(options_.dataset_path);
    if (options_.dataset == "random") return source.random_texts(count, texts, *tokenizer_);
    report_.file_texts = static_cast<int64_t>(texts.size());
    std::vector<client::Prompt> prompts;
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      client::Prompt& prompt = prompts.emplace_back();
      prompt.text = texts[i % texts.size()];
      prompt.output_tokens = options_.lengths.output;
      if (tokenizer_) prompt.tokens = static_cast<int32_t>(tokenizer_->encode(prompt.text).size());
    }
    // The file may have no text that is left for the warm-up.
    if (static_cast<int64_t>(texts.size()) < count) prompts.back().text = "A warm-up, which is no text of the file.";
    return prompts;
  }

  int32_t vocabulary() const {
    if (options_.vocabulary) return *options_.vocabulary;
    if (tokenizer_) return tokenizer_->vocabulary_size();
    if (vocabulary_) return static_cast<int32_t>(*vocabulary_);
    throw Error(ErrorCode::kInvalidArgument, "how many token ids the model has is not known")
        .remedy("give --vocab-size, or the model's directory as --tokenizer");
  }

  void warm_up() {
    client::Prompt prompt = prompts_.back();
    prompts_.pop_back();
    if (options_.warmup_requests == 0) return;
    prompt.output_tokens = std::min(prompt.output_tokens, kMostWarmupTokens);
    try {
      for (int32_t i = 0; i < options_.warmup_requests; ++i) warm_up_once(prompt);
    } catch (Error& error) {
      error.add_context("Warmup failed - Please make sure benchmark arguments are correctly specified. Error");
      throw;
    }
  }

  /// Servers that do not know usage in every event refuse to be asked for it, or pass it over.
  void warm_up_once(const client::Prompt& prompt) {
    try {
      client::run_one(*loop_, backend_, prompt, settings_);
    } catch (const Error& error) {
      if (!settings_.continuous_usage || error.message().find("continuous_usage_stats") == std::string::npos) throw;
      settings_.continuous_usage = false;
      client::run_one(*loop_, backend_, prompt, settings_);
    }
  }

  client::LoadResult send() {
    client::LoadOptions load;
    load.request_rate = options_.request_rate;
    load.max_concurrency = options_.max_concurrency;
    load.seed = options_.seed;
    return run_watched_load(*loop_, backend_, prompts_, settings_, load, "Requests");
  }

  void finish(const client::LoadResult& result) {
    report_.backend = backend_.name;
    report_.model = settings_.model;
    report_.dataset = options_.dataset;
    report_.lengths = options_.lengths;
    report_.request_rate = options_.request_rate;
    report_.max_concurrency = options_.max_concurrency;
    report_.seed = options_.seed;
    report_.cache_flushed = options_.flush_cache;
    report_.measures = client::measure(result);
    if (tokenizer_) {
      report_.retokenized = 0;
      for (const client::RequestRecord& request : result.requests) {
        if (!request.succeeded()) continue;
        const text::EncodeOptions plain{.literal_ranges = {}, .add_special_tokens = false};
        *report_.retokenized += static_cast<int64_t>(tokenizer_->encode(request.text, plain).size());
      }
    }
    write_output(client::report_text(report_));
    if (options_.output_file.empty()) return;
    append(options_.output_file, client::report_json(report_, options_.output_details ? &result : nullptr) + "\n");
  }

  /// A file of results grows by one line for each run.
  static void append(const std::string& path, const std::string& line) {
    std::ofstream file(path, std::ios::app | std::ios::binary);
    file << line << std::flush;
    if (!file) throw Error(ErrorCode::kIo, "cannot write {}", path);
  }

  static int complain_about_failures(const client::LoadResult& result) {
    size_t failed = 0;
    const std::string* first = nullptr;
    for (const client::RequestRecord& request : result.requests) {
      if (request.succeeded()) continue;
      if (failed++ == 0) first = &request.error;
    }
    if (failed == 0) return 0;
    if (failed == result.requests.size()) {
      throw Error(ErrorCode::kIo, "all {} requests failed; the first one: {}", failed, *first);
    }
    log_warning("{} of {} requests failed; the first one: {}", failed, result.requests.size(), *first);
    return 0;
  }

  const ServeOptions& options_;
  client::Backend backend_;
  std::optional<text::Tokenizer> tokenizer_;
  std::unique_ptr<client::HttpLoop> loop_;
  client::GenerationSettings settings_;
  std::optional<int64_t> vocabulary_;
  std::vector<client::Prompt> prompts_;
  client::ServingReport report_;
};

}  // namespace

void add_bench_serve(CommandLine& bench) {
  CommandLine& command =
      bench.command("serve", "Load a running server and time its answers, as SGLang's bench_serving");
  const auto options = std::make_shared<ServeOptions>();
  command.choice("--backend", options->backend, client::backend_names(),
                 "its interface: sglang is /generate, sglang-oai and vllm /v1/completions, ...-chat "
                 "/v1/chat/completions");
  options->server.add(command);
  command.option("--model", options->model, "name of the model in requests; without: the first of /v1/models");
  command.option("--tokenizer", options->tokenizer,
                 "the model's directory, for datasets that need its tokens and to count those of the answers");
  command.choice("--dataset-name", options->dataset, {"random", "random-ids", "jsonl"},
                 "random: texts of an exact length; random-ids: token ids; jsonl: the texts of a file");
  command.option("--dataset-path", options->dataset_path,
                 "file with {\"prompt\": ...} a line, or ShareGPT's; of random: texts that are cut to length");
  command.option("--num-prompts", options->num_prompts, "how many requests");
  command.option("--random-input-len,--input-len", options->lengths.input, "most tokens of a random prompt");
  command.option("--random-output-len,--output-len", options->lengths.output, "most tokens of an answer");
  command.option("--random-range-ratio", options->lengths.range_ratio,
                 "lengths are drawn from [ratio * length, length]; 1: exactly the length");
  command.option("--vocab-size", options->vocabulary,
                 "random-ids: ids are below it; without: the vocabulary of --tokenizer, else what the server tells");
  command.option("--request-rate", options->request_rate,
                 "requests a second, at random intervals (Poisson); inf: all at once");
  command.option("--max-concurrency", options->max_concurrency, "most requests that run at a time; without: any");
  command.option("--seed", options->seed, "of prompts and intervals");
  command.option("--warmup-requests", options->warmup_requests, "requests before, with a prompt of their own");
  command.flag("--flush-cache", options->flush_cache, "empty the server's prefix cache before");
  command.flag("--disable-ignore-eos", options->disable_ignore_eos, "let the model end its answers");
  command.option("--temperature", options->temperature, "0: always the most likely token");
  command.option("--extra-request-body", options->extra_body, "JSON object put over the fields of each request");
  command.option("--output-file", options->output_file, "append the results as one JSON object on a line");
  command.flag("--output-details", options->output_details, "with the times and texts of every request");
  command.option("--plot", options->plot, "write a picture of the run (SVG)");
  command.footer(
      "The lines are those of SGLang's bench_serving; docs/performance.md says what each counts. Plain HTTP only.\n"
      "Latencies count from a request's scheduled arrival; tokens are those that the server reports, not its events.");
  command.on_run([options] {
    options->check();
    return ServeBenchmark(*options).run();
  });
}

}  // namespace reprise::cli
