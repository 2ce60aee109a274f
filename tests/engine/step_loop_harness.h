#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "engine/fake_device.h"
#include "engine/fake_model.h"
#include "engine/step_loop.h"

namespace reprise::engine {

constexpr int32_t kVocabulary = 97;

struct LoopSetup {
  int32_t page_size = 4;
  int64_t kv_tokens = 400;
  int32_t max_running = 4;
  int32_t max_prefill_tokens = 16;
  int32_t max_context = 200;
  std::vector<int32_t> end_tokens = {};
  std::vector<int32_t> replayed_sizes = {};
  bool sequence_state = true;  // the model keeps state for each sequence
  bool prefix_cache = true;
  bool overlap = false;  // steps run between issue and await, as late as they can
  bool prepare_steps = true;
};

// A loop over the fake model, poison on and pages anywhere, that keeps what callbacks were told.
class Loop {
 public:
  explicit Loop(const LoopSetup& setup = {})
      : pool(device, FakeModel::layout(setup.sequence_state), pool_options(setup)),
        model(pool, kVocabulary),
        loop(
            pool, [this](const replay::StepBatch& batch) { return model.run(batch); }, std::nullopt,
            with_halves(options(setup), setup.overlap)) {}

  RequestId submit(std::vector<int32_t> prompt, const SamplingParameters& sampling) {
    Request request;
    request.prompt = std::move(prompt);
    request.sampling = sampling;
    return submit(std::move(request));
  }
  RequestId submit(Request request) {
    request.on_token = [this](const TokenEvent& event) { record(event); };
    return loop.submit(std::move(request));
  }
  const RequestOutput& output(RequestId id) { return outputs.at(id); }

  FakeDevice device;
  KvPool pool;
  FakeModel model;
  std::optional<replay::StepBatch> issued;  // not run yet
  bool fail_issue = false;
  StepLoop loop;
  std::map<RequestId, std::vector<int32_t>> streamed;
  std::map<RequestId, RequestOutput> outputs;
  std::function<void(const TokenEvent&)> on_event;

 private:
  static KvPoolOptions pool_options(const LoopSetup& setup) {
    KvPoolOptions result;
    result.page_size = setup.page_size;
    result.tokens = setup.kv_tokens;
    result.sequences = setup.max_running;
    result.scratch_slots = 8;
    result.poison = true;
    result.prefix_cache = setup.prefix_cache;
    result.shuffle_seed = 5;
    return result;
  }
  static StepLoopOptions options(const LoopSetup& setup) {
    StepLoopOptions result;
    result.scheduler = {setup.max_running, setup.max_prefill_tokens, setup.max_context, setup.replayed_sizes};
    result.vocabulary = kVocabulary;
    result.end_token_ids = setup.end_tokens;
    result.prepare_steps = setup.prepare_steps;
    return result;
  }
  StepLoopOptions with_halves(StepLoopOptions options, bool overlap) {
    if (!overlap) return options;
    options.asynchronous = AsynchronousSteps{[this](const replay::StepBatch& batch) {
                                               EXPECT_FALSE(issued) << "two steps at a time";
                                               if (fail_issue) throw Error(ErrorCode::kInternal, "it cannot be issued");
                                               issued = batch;
                                             },
                                             [this] {
                                               const replay::StepBatch batch = *std::exchange(issued, std::nullopt);
                                               return model.run(batch);
                                             }};
    return options;
  }
  void record(const TokenEvent& event) {
    if (event.token) streamed[event.request].push_back(*event.token);
    if (event.output != nullptr) {
      EXPECT_FALSE(outputs.contains(event.request)) << "two ends";
      outputs.emplace(event.request, *event.output);
    }
    if (on_event) on_event(event);
  }
};

inline SamplingParameters greedy(int32_t max_new_tokens) {
  SamplingParameters parameters;
  parameters.temperature = 0;
  parameters.max_new_tokens = max_new_tokens;
  return parameters;
}

inline std::vector<int32_t> prompt_of(int32_t length, int32_t seed) {
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < length; ++i) {
    prompt.push_back(static_cast<int32_t>(random_bits(static_cast<uint64_t>(seed), static_cast<uint64_t>(i)) % 97));
  }
  return prompt;
}

inline std::vector<int32_t> expected_output(std::vector<int32_t> tokens, int32_t count) {
  std::vector<int32_t> output;
  for (int32_t i = 0; i < count; ++i) {
    output.push_back(FakeModel::hashed_next(tokens, kVocabulary));
    tokens.push_back(output.back());
  }
  return output;
}

}  // namespace reprise::engine
