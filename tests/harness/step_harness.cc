#include "harness/step_harness.h"

#include <algorithm>

namespace reprise::replay {

StepHarness::StepHarness(Options options) : options_(std::move(options)) {
  registry_ = ops::make_catalogue();
  if (options_.open_device) {
    device_ = options_.open_device(registry_);
  } else {
    kernels::cpu::register_cpu_kernels(registry_);
    device_ = device::cpu::create_cpu_device({.threads = options_.threads, .discrete = options_.discrete});
  }
  if (options_.prepare) options_.prepare(registry_);
  if (options_.wrap_device) device_ = options_.wrap_device(std::move(device_));
  model::ModelOptions model_options;
  model_options.dtype = options_.dtype;
  model_options.count_expert_rows = options_.count_expert_rows;
  model_options.expert_placement = options_.expert_placement;
  model_options.int8_kv = options_.int8_kv;
  model_ = model::load_model(options_.model, registry_, *device_, model_options);

  const int32_t scratch = std::max(options_.max_running, 8);
  scratch_pages_ = (scratch + options_.page_size - 1) / options_.page_size;
  pages_ = scratch_pages_ + options_.max_running * options_.pages_per_sequence;
  for (const model::KvBuffer& buffer : model_->kv_layout().buffers) {
    Shape shape = {pages_, options_.page_size};
    for (const Dim& dim : buffer.entry) shape.push_back(dim);
    const TensorMeta meta(buffer.dtype, shape);
    kv_.emplace_back(meta, device_->allocate(meta.contiguous_bytes()));
    device_->fill(kv_.back().data(), options_.poison ? 0xFF : 0, meta.contiguous_bytes());
  }
  lengths_.assign(static_cast<size_t>(options_.max_running), 0);

  RunnerOptions runner_options;
  runner_options.mode = options_.mode;
  runner_options.passes = options_.passes;
  runner_options.buckets.sizes = options_.buckets;
  runner_options.buckets.max_running = options_.max_running;
  runner_options.buckets.padding = options_.padding;
  runner_options.capture_limit = options_.capture_limit;
  runner_options.capture_error_mode = options_.capture_error_mode;
  runner_options.force_recapture = options_.force_recapture;
  runner_options.max_prefill_tokens = options_.max_prefill_tokens;
  runner_options.prefill_graph_tokens = options_.prefill_graph_tokens;
  runner_options.max_pages = options_.pages_per_sequence;
  runner_options.scratch_slots = scratch;
  runner_options.poison = options_.poison;
  runner_options.update_order = options_.update_order;
  runner_options.retrace_every = options_.retrace_every;
  runner_options.debug_directory = options_.debug_directory;
  runner_options.splitting_ops = options_.splitting_ops;
  runner_ = std::make_unique<GraphRunner>(
      registry_, *device_, [this](ops::ForwardContext& context) { return model_->forward(context, kv_); },
      static_cast<int32_t>(model_->info().vocabulary), model_->named_parameters(), runner_options);
}

int32_t StepHarness::page(int32_t sequence, int32_t index) const {
  // Sequences take turns, each from the back: neighbours in a sequence are never neighbours in memory.
  const int32_t turn = options_.pages_per_sequence - 1 - index;
  return scratch_pages_ + turn * options_.max_running + sequence;
}

void StepHarness::add_to_batch(StepBatch& batch, int32_t sequence, std::span<const int32_t> tokens) {
  int32_t& length = lengths_[static_cast<size_t>(sequence)];
  for (const int32_t token : tokens) {
    batch.token_ids.push_back(token);
    batch.positions.push_back(length);
    batch.slots.push_back(page(sequence, length / options_.page_size) * options_.page_size +
                          length % options_.page_size);
    ++length;
  }
  batch.query_lengths.push_back(static_cast<int32_t>(tokens.size()));
  batch.kv_lengths.push_back(length);
  batch.max_pages = options_.pages_per_sequence;
  const int32_t used = (length + options_.page_size - 1) / options_.page_size;
  for (int32_t i = 0; i < options_.pages_per_sequence; ++i) {
    batch.block_tables.push_back(i < used ? page(sequence, i) : (options_.poison ? 0x7FFFFFFF : 0));
  }
}

Rows StepHarness::copy(const LogitsView& logits) const {
  Rows rows;
  for (int32_t row = 0; row < logits.rows; ++row) rows.emplace_back(logits.row(row).begin(), logits.row(row).end());
  return rows;
}

Rows StepHarness::feed(int32_t sequence, const std::vector<int32_t>& tokens, int32_t chunk, bool all_logits) {
  Rows rows;
  const size_t step = chunk == 0 ? tokens.size() : static_cast<size_t>(chunk);
  for (size_t first = 0; first < tokens.size(); first += step) {
    StepBatch batch;
    batch.all_logits = all_logits;
    add_to_batch(batch, sequence, std::span(tokens).subspan(first, std::min(step, tokens.size() - first)));
    for (std::vector<float>& row : copy(runner_->run(batch))) rows.push_back(std::move(row));
  }
  return rows;
}

StepBatch StepHarness::next_batch(const std::vector<std::pair<int32_t, std::vector<int32_t>>>& sequences) {
  StepBatch batch;
  for (const auto& [sequence, tokens] : sequences) add_to_batch(batch, sequence, tokens);
  return batch;
}

Rows StepHarness::step(const std::vector<std::pair<int32_t, std::vector<int32_t>>>& sequences, bool all_logits) {
  StepBatch batch = next_batch(sequences);
  batch.all_logits = all_logits;
  return copy(runner_->run(batch));
}

Rows StepHarness::decode(const std::vector<int32_t>& sequences, const std::vector<int32_t>& tokens) {
  StepBatch batch;
  for (size_t i = 0; i < sequences.size(); ++i) add_to_batch(batch, sequences[i], {&tokens[i], 1});
  return copy(runner_->run(batch));
}

void StepHarness::drop(int32_t sequence) {
  const int32_t used = (length(sequence) + options_.page_size - 1) / options_.page_size;
  for (Tensor& buffer : kv_) {
    const size_t page_bytes = static_cast<size_t>(buffer.stride(0)) * size_of(buffer.dtype());
    for (int32_t i = 0; i < used && options_.poison; ++i) {
      device_->fill(buffer.data_as<std::byte>() + static_cast<size_t>(page(sequence, i)) * page_bytes, 0xFF,
                    page_bytes);
    }
  }
  lengths_[static_cast<size_t>(sequence)] = 0;
}

std::vector<std::byte> StepHarness::kv_contents(int32_t sequence) {
  std::vector<std::byte> contents;
  for (const Tensor& buffer : kv_) {
    const size_t slot_bytes = static_cast<size_t>(buffer.stride(1)) * size_of(buffer.dtype());
    for (int32_t position = 0; position < length(sequence); ++position) {
      const int32_t slot =
          page(sequence, position / options_.page_size) * options_.page_size + position % options_.page_size;
      const size_t begin = contents.size();
      contents.resize(begin + slot_bytes);
      device_->copy(contents.data() + begin, buffer.data_as<std::byte>() + static_cast<size_t>(slot) * slot_bytes,
                    slot_bytes, device::CopyKind::kDeviceToHost);
    }
  }
  return contents;
}

std::vector<std::byte> StepHarness::all_pages() {
  std::vector<std::byte> contents;
  for (const Tensor& buffer : kv_) {
    const size_t page_bytes = static_cast<size_t>(buffer.stride(0)) * size_of(buffer.dtype());
    const size_t begin = contents.size();
    const size_t bytes = page_bytes * static_cast<size_t>(pages_ - scratch_pages_);
    contents.resize(begin + bytes);
    device_->copy(contents.data() + begin,
                  buffer.data_as<std::byte>() + static_cast<size_t>(scratch_pages_) * page_bytes, bytes,
                  device::CopyKind::kDeviceToHost);
  }
  return contents;
}

}  // namespace reprise::replay
