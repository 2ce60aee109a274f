#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/bench.h"
#include "cli/input.h"
#include "cli/server_address.h"
#include "client/batch_exchange.h"
#include "client/prompt_source.h"
#include "client/server_state.h"

namespace reprise::cli {
namespace {

using Json = nlohmann::ordered_json;

/// bench_one_batch_server draws from the first 2^14 ids, which every usual vocabulary has.
constexpr int32_t kMostIds = 16384;

struct OneBatchOptions {
  ServerAddress server;
  std::string model = "None";
  std::vector<int32_t> batch_sizes = {1};
  std::vector<int32_t> input_lengths = {1024};
  std::vector<int32_t> output_lengths = {16};
  std::optional<int32_t> vocabulary;
  double temperature = 0;
  uint64_t seed = 1;
  std::string run_name = "default";
  std::string result_file = "result.jsonl";
  bool skip_warmup = false;
  bool show_report = false;
  bool profile = false;

  void check() const {
    if (model != "None" && model != "none") {
      throw Error(ErrorCode::kUnsupported, "--model is '{}': no server is started here", model)
          .remedy("start one, and give its --base-url and --model None");
    }
    require_at_least("--batch-size", batch_sizes, 1);
    require_at_least("--input-len", input_lengths, 1);
    require_at_least("--output-len", output_lengths, 1);
    if (vocabulary) require_at_least("--vocab-size", *vocabulary, 1);
  }
};

struct Case {
  int32_t batch = 0, input_length = 0, output_length = 0;
  client::BatchTimes times{};
  std::optional<double> last_throughput{};  ///< tokens per second of decode steps, by the server's clock

  /// A rate needs tokens that come later than others: there is none of an answer most of which has come with the first
  /// ones.
  bool has_rate() const {
    return output_length > 1 && times.latency > times.first && 2 * times.first_tokens <= times.output_tokens;
  }
  double input_throughput() const { return double{1} * batch * input_length / times.first; }
  /// What came with the first tokens took none of the time behind them.
  double output_throughput() const {
    return static_cast<double>(times.output_tokens - times.first_tokens) / (times.latency - times.first);
  }
  double overall_throughput() const { return double{1} * batch * (input_length + output_length) / times.latency; }
};

/// What a server tells of its decode steps at some time.
struct DecodeState {
  explicit DecodeState(client::ServerState& server)
      : counters(server.decode_counters()), last_throughput(server.info().last_throughput) {}

  client::DecodeCounters counters;
  std::optional<double> last_throughput;
};

/// Of the decode steps between two times. What other servers say is of their last interval, which may have been before:
/// only a new number can be of this run.
std::optional<double> decode_throughput(const DecodeState& before, const DecodeState& after) {
  if (before.counters.work && after.counters.work) {
    const int64_t tokens = after.counters.work->tokens - before.counters.work->tokens;
    const double seconds = after.counters.work->wall_seconds - before.counters.work->wall_seconds;
    return tokens > 0 && seconds > 0 ? std::optional(static_cast<double>(tokens) / seconds) : std::nullopt;
  }
  return after.last_throughput == before.last_throughput ? std::nullopt : after.last_throughput;
}

class OneBatchBenchmark {
 public:
  explicit OneBatchBenchmark(const OneBatchOptions& options)
      : options_(options), loop_(options.server.connect()), server_(*loop_) {}

  int run() {
    // Before anything is measured: a path that cannot be written should not cost a run.
    std::ofstream file(options_.result_file, std::ios::app | std::ios::binary);
    if (!file) throw Error(ErrorCode::kIo, "cannot write {}", options_.result_file);
    const int64_t known = server_.info().vocabulary.value_or(kMostIds);
    vocabulary_ = options_.vocabulary.value_or(static_cast<int32_t>(std::min<int64_t>(known, kMostIds)));
    if (!options_.skip_warmup) warm_up();
    for (const int32_t batch : options_.batch_sizes) {
      for (const int32_t input : options_.input_lengths) {
        for (const int32_t output : options_.output_lengths) {
          cases_.push_back(measure({batch, input, output}, options_.profile));
          file << json_line(cases_.back()) << std::flush;
          if (!file) throw Error(ErrorCode::kIo, "cannot write {}", options_.result_file);
        }
      }
    }
    write_output(fmt::format("\nResults are saved to {}\n", options_.result_file));
    if (options_.show_report) write_output(report());
    return 0;
  }

 private:
  /// 16 prompts of 1024 tokens and 16 more, but no longer than the longest case: the model may not have room for it.
  void warm_up() {
    const int32_t input =
        std::min(1024, *std::max_element(options_.input_lengths.begin(), options_.input_lengths.end()));
    const int32_t output =
        std::min(16, *std::max_element(options_.output_lengths.begin(), options_.output_lengths.end()));
    write_output("======== Warmup Begin ========\n");
    measure({16, input, output}, false);
    write_output("======== Warmup End   ========\n\n");
  }

  Case measure(Case one, bool profile) {
    server_.flush_cache();
    client::PromptLengths lengths{one.input_length, one.output_length, 1};
    const std::vector<client::Prompt> prompts =
        client::PromptSource(lengths, options_.seed).random_ids(one.batch, vocabulary_);
    write_output(fmt::format("#Input tokens: {}\n#Output tokens: {}\n", int64_t{one.batch} * one.input_length,
                             int64_t{one.batch} * one.output_length));
    const DecodeState before(server_);
    if (profile) control("/start_profile");
    one.times = client::run_batch(*loop_, prompts, one.output_length, options_.temperature);
    if (profile) control("/stop_profile");
    const DecodeState after(server_);
    if (one.output_length > 1) one.last_throughput = decode_throughput(before, after);
    std::string text = fmt::format(
        "batch size: {}\ninput_len: {}\noutput_len: {}\nlatency: {:.2f} s\nttft: {:.2f} s\n"
        "last generation throughput: {}\ninput throughput: {:.2f} tok/s\n",
        one.batch, one.input_length, one.output_length, one.times.latency, one.times.first,
        one.last_throughput ? fmt::format("{:.2f} tok/s", *one.last_throughput) : "not known", one.input_throughput());
    if (one.has_rate()) {
      text += fmt::format("output throughput: {:.2f} tok/s\n", one.output_throughput());
    } else if (one.output_length != 1) {
      text += fmt::format(
          "output throughput: not known: {} of {} tokens had come when each prompt had one; give a longer "
          "--output-len\n",
          one.times.first_tokens, one.times.output_tokens);
    }
    if (one.times.cached_tokens) text += fmt::format("cache hit tokens: {}\n", *one.times.cached_tokens);
    if (before.counters.steps && after.counters.steps) {
      const client::DecodeSteps steps = client::difference(*after.counters.steps, *before.counters.steps);
      text += fmt::format("decode steps: {}\n", client::steps_text(steps));
    }
    write_output(text);
    return one;
  }

  void control(const char* target) {
    const client::HttpResponse response = loop_->fetch({"POST", target, "{}"});
    if (response.is_success()) return;
    throw Error(ErrorCode::kIo, "{} answers with HTTP status {}: {}", target, response.status,
                client::error_message(response.body));
  }

  std::string json_line(const Case& one) const {
    const auto rounded = [](double value, double digits) { return std::round(value * digits) / digits; };
    const Json json{{"run_name", options_.run_name},
                    {"batch_size", one.batch},
                    {"input_len", one.input_length},
                    {"output_len", one.output_length},
                    {"latency", rounded(one.times.latency, 1e4)},
                    {"ttft", rounded(one.times.first, 1e4)},
                    {"output_throughput", one.has_rate() ? Json(rounded(one.output_throughput(), 1e2)) : Json()},
                    {"overall_throughput", rounded(one.overall_throughput(), 1e2)},
                    {"last_gen_throughput", one.last_throughput ? Json(rounded(*one.last_throughput, 1e2)) : Json()},
                    {"cached_tokens", one.times.cached_tokens ? Json(*one.times.cached_tokens) : Json()}};
    return json.dump() + "\n";
  }

  std::string report() const {
    std::string text =
        "\n| batch size | input len | output len | latency (s) | ttft (s) | input throughput (tok/s) | output "
        "throughput (tok/s) | ITL (ms) |\n|---|---|---|---|---|---|---|---|\n";
    for (const Case& one : cases_) {
      const bool decodes = one.has_rate();
      text += fmt::format("| {} | {} | {} | {:.2f} | {:.2f} | {:.2f} | {} | {} |\n", one.batch, one.input_length,
                          one.output_length, one.times.latency, one.times.first, one.input_throughput(),
                          decodes ? fmt::format("{:.2f}", one.output_throughput()) : "-",
                          decodes ? fmt::format("{:.2f}", 1e3 * one.batch / one.output_throughput()) : "-");
    }
    return text;
  }

  const OneBatchOptions& options_;
  std::unique_ptr<client::HttpLoop> loop_;
  client::ServerState server_;
  int32_t vocabulary_ = 0;
  std::vector<Case> cases_;
};

}  // namespace

void add_bench_one_batch_server(CommandLine& bench) {
  CommandLine& command = bench.command(
      "one-batch-server", "Time whole batches, each in one request to a running server's /generate, as SGLang's");
  const auto options = std::make_shared<OneBatchOptions>();
  options->server.add(command);
  command.option("--model", options->model, "None: the server runs already; nothing else is built");
  command.option("--batch-size", options->batch_sizes, "how many prompts; several: each");
  command.option("--input-len", options->input_lengths, "tokens of a prompt");
  command.option("--output-len", options->output_lengths, "tokens of an answer");
  command.option("--vocab-size", options->vocabulary,
                 "prompts are random ids below it; without: the server's vocabulary, at most 16384");
  command.option("--temperature", options->temperature, "0: always the most likely token");
  command.option("--seed", options->seed, "of the prompts");
  command.option("--run-name", options->run_name, "a name for the lines of the result file");
  command.option("--result-filename", options->result_file, "one JSON object a line is appended here");
  command.flag("--skip-warmup", options->skip_warmup, "without the batch of 16 before");
  command.flag("--show-report", options->show_report, "print a table at the end");
  command.flag("--profile", options->profile, "have the server profile every case (/start_profile, /stop_profile)");
  command.footer("The server's prefix cache is emptied before each case. Plain HTTP only.");
  command.on_run([options] {
    options->check();
    return OneBatchBenchmark(*options).run();
  });
}

}  // namespace reprise::cli
