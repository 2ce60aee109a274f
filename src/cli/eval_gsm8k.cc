#include "cli/eval_gsm8k.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/progress_bar.h"
#include "cli/interrupt.h"
#include "text/tokenizer.h"

namespace reprise::cli {

Gsm8kQuestions::Gsm8kQuestions(const EvalOptions& options) : problems_(read_gsm8k(options.data_file)) {
  examples_ = few_shot_examples(problems_, static_cast<size_t>(options.shots));
  problems_.resize(std::min(problems_.size(), static_cast<size_t>(options.questions)));
}

bool Gsm8kQuestions::is_right(size_t index, const Gsm8kAnswer& answer) const {
  return final_number(answer.text) == problems_[index].number;
}

void Gsm8kQuestions::write(OutputFile& file, std::span<const Gsm8kAnswer> answers) const {
  using Json = nlohmann::ordered_json;
  for (size_t i = 0; i < answers.size(); ++i) {
    const std::optional<std::string> number = final_number(answers[i].text);
    const Json json{{"question", problems_[i].question},
                    {"expected", problems_[i].number},
                    {"text", answers[i].text},
                    {"answer", number ? Json(*number) : Json(nullptr)},
                    {"right", is_right(i, answers[i])}};
    file.write(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  file.close();
}

std::string Gsm8kScore::text() const {
  return fmt::format(
      "Accuracy: {:.3f}\nInvalid: {:.3f}\nLatency: {:.3f} s\nOutput throughput: {:.3f} token/s\n{} of {} right\n",
      share(right), share(invalid), seconds, throughput(), right, questions);
}

std::string Gsm8kScore::json() const {
  const nlohmann::ordered_json json{{"questions", questions},
                                    {"right", right},
                                    {"accuracy", share(right)},
                                    {"invalid", share(invalid)},
                                    {"latency_seconds", seconds},
                                    {"output_tokens", tokens},
                                    {"output_tokens_per_second", throughput()}};
  return json.dump();
}

Gsm8kScore score_answers(const Gsm8kQuestions& questions, std::span<const Gsm8kAnswer> answers, double seconds) {
  Gsm8kScore score;
  score.questions = static_cast<int64_t>(answers.size());
  score.seconds = seconds;
  for (size_t i = 0; i < answers.size(); ++i) {
    score.right += questions.is_right(i, answers[i]) ? 1 : 0;
    score.invalid += final_number(answers[i].text) ? 0 : 1;
    score.tokens += answers[i].tokens;
  }
  return score;
}

Gsm8kRun::Gsm8kRun(const EvalOptions& options, Session& session, const Gsm8kQuestions& questions,
                   std::optional<replay::Mode> mode)
    : options_(options), answers_(questions.size()) {
  const text::Tokenizer tokenizer = text::load_tokenizer(session.directory());
  const int64_t most = session.model()->info().max_positions;
  const int64_t maximum = options.session.max_context > 0 ? std::min<int64_t>(options.session.max_context, most) : most;
  int64_t longest = 1;
  for (size_t i = 0; i < questions.size(); ++i) {
    prompts_.push_back(tokenizer.encode(questions.prompt(i)));
    const auto tokens = static_cast<int64_t>(prompts_.back().size());
    if (tokens >= maximum) {
      throw Error(ErrorCode::kInvalidArgument, "question {} has {} tokens with its examples; the context is {}", i + 1,
                  tokens, maximum)
          .remedy("use fewer --num-shots");
    }
    const auto room = static_cast<int32_t>(std::min<int64_t>(options.max_new_tokens, maximum - tokens));
    sizes_.push_back({static_cast<int32_t>(tokens), room});
    longest = std::max(longest, tokens + room);
  }
  const auto running = static_cast<int32_t>(std::min<size_t>(static_cast<size_t>(options.parallel), prompts_.size()));
  const int64_t kv_tokens = engine::kv_tokens_for(sizes_, running, session.page_size());
  engine_ = engine::Engine::create(session.device(), session.registry(), session.model(), tokenizer,
                                   session.engine_options(running, kv_tokens, static_cast<int32_t>(longest), mode));
  engine_->capture(running);
}

Gsm8kRun::~Gsm8kRun() = default;

void Gsm8kRun::answer() {
  ProgressBar bar;
  size_t done = 0;
  std::optional<Error> failure;
  const auto update = [&] {
    bar.update(static_cast<double>(done), static_cast<double>(answers_.size()), "Answering questions");
  };
  watch_interrupts(seconds_to_end(engine_->runner().device()));
  const auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < prompts_.size(); ++i) {
    engine::Request request;
    request.prompt = std::move(prompts_[i]);
    request.sampling.temperature = 0;
    request.sampling.max_new_tokens = sizes_[i].max_new_tokens;
    request.sampling.stop = kGsm8kStops;
    request.on_token = [&, i](const engine::TokenEvent& event) {
      if (event.output == nullptr) return;
      answers_[i] = {event.output->text, static_cast<int64_t>(event.output->token_ids.size())};
      if (event.output->error && !failure) failure = event.output->error;
      ++done;
    };
    engine_->submit(std::move(request));
  }
  update();
  while (!interrupted() && engine_->step()) update();
  end_interrupt_limit();
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (done == answers_.size()) bar.finish();
  if (failure) throw std::move(*failure);
  if (interrupted()) {
    // The callbacks refer to what is in this function.
    engine_.reset();
    throw Error(ErrorCode::kCancelled, "interrupted after {} of {} questions", done, answers_.size());
  }
}

}  // namespace reprise::cli
