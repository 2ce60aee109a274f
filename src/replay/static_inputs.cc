#include "replay/static_inputs.h"

#include <algorithm>

namespace reprise::replay {
namespace {

/// No page, row or table has this number: an embedding of it is NaN, a page table's entry a fault.
constexpr int32_t kPoison = 0x7FFFFFFF;

Tensor view(const std::shared_ptr<Storage>& storage, const Shape& shape) {
  return Tensor(TensorMeta(DType::kI32, shape), storage);
}

}  // namespace

StaticInputs::StaticInputs(device::Device& device, const StepLimits& limits, bool poison)
    : device_(device), limits_(limits), poison_(poison) {
  token_ids_ = make_column(limits.tokens);
  positions_ = make_column(limits.tokens);
  slots_ = make_column(limits.tokens);
  block_tables_ = make_column(int64_t{limits.sequences} * limits.pages);
  token_count_ = make_column(1);
  logit_rows_ = make_column(limits.sequences);
  sequence_slots_ = make_column(limits.sequences);
  query_lengths_.resize(static_cast<size_t>(limits.sequences));
  kv_lengths_.resize(static_cast<size_t>(limits.sequences));
}

StaticInputs::Column StaticInputs::make_column(int64_t count) {
  const size_t bytes = static_cast<size_t>(std::max<int64_t>(count, 1)) * sizeof(int32_t);
  Column column{device_.allocate(bytes), device_.allocate(bytes, device::MemoryKind::kPinnedHost)};
  std::fill_n(column.host_data(), std::max<int64_t>(count, 1), 0);
  device_.copy(column.device->data(), column.host->data(), bytes, device::CopyKind::kHostToDevice);
  return column;
}

void StaticInputs::copy(device::Stream& stream, const Column& column, int64_t first, int64_t count) {
  if (count == 0) return;
  stream.copy_async(static_cast<int32_t*>(column.device->data()) + first, column.host_data() + first,
                    static_cast<size_t>(count) * sizeof(int32_t), device::CopyKind::kHostToDevice);
}

void StaticInputs::write(device::Stream& stream, const StepBatch& batch, int32_t tokens, int32_t sequences) {
  const auto fill = [](const Column& column, const std::vector<int32_t>& values, int32_t rows, auto neutral) {
    int32_t* target = column.host_data();
    std::copy(values.begin(), values.end(), target);
    for (int32_t i = static_cast<int32_t>(values.size()); i < rows; ++i) target[i] = neutral(i);
  };
  const auto zero = [](int32_t) { return 0; };
  const auto token = [this](int32_t) { return poison_ ? kPoison : 0; };
  const auto own_row = [](int32_t row) { return row; };
  fill(token_ids_, batch.token_ids, tokens, token);
  fill(positions_, batch.positions, tokens, zero);
  fill(slots_, batch.slots, tokens, own_row);
  int32_t last_row = -1;
  for (int32_t i = 0; i < batch.sequences(); ++i) {
    last_row += batch.query_lengths[static_cast<size_t>(i)];
    logit_rows_.host_data()[i] = last_row;
  }
  for (int32_t i = batch.sequences(); i < sequences; ++i) logit_rows_.host_data()[i] = i;
  std::copy(batch.query_lengths.begin(), batch.query_lengths.end(), query_lengths_.begin());
  std::copy(batch.kv_lengths.begin(), batch.kv_lengths.end(), kv_lengths_.begin());
  for (int32_t i = batch.sequences(); i < sequences; ++i) {
    query_lengths_[static_cast<size_t>(i)] = 1;
    kv_lengths_[static_cast<size_t>(i)] = 0;
  }
  for (const Column* column : {&token_ids_, &positions_, &slots_}) copy(stream, *column, 0, tokens);
  *token_count_.host_data() = batch.tokens();
  copy(stream, token_count_, 0, 1);
  copy(stream, logit_rows_, 0, sequences);
  if (limits_.sequence_state) {
    fill(sequence_slots_, batch.sequence_slots, sequences, own_row);
    copy(stream, sequence_slots_, 0, sequences);
  }
  write_tables(stream, batch, sequences);
}

void StaticInputs::write_tables(device::Stream& stream, const StepBatch& batch, int32_t sequences) {
  for (int32_t row = 0; row < sequences; ++row) {
    int32_t* target = block_tables_.host_data() + int64_t{row} * limits_.pages;
    int32_t used = 0;
    if (row < batch.sequences()) {
      const int32_t* source = batch.block_tables.data() + int64_t{row} * batch.max_pages;
      used = std::min(batch.max_pages, limits_.pages);
      std::copy_n(source, used, target);
    }
    if (poison_) std::fill_n(target + used, limits_.pages - used, kPoison);
    copy(stream, block_tables_, int64_t{row} * limits_.pages, poison_ ? limits_.pages : used);
  }
}

std::vector<Tensor> StaticInputs::tensors(int32_t tokens, int32_t sequences, bool all_logits) const {
  std::vector<Tensor> result = {view(token_ids_.device, {tokens}), view(positions_.device, {tokens}),
                                view(slots_.device, {tokens}), view(block_tables_.device, {sequences, limits_.pages}),
                                view(token_count_.device, {1})};
  if (!all_logits) result.push_back(view(logit_rows_.device, {sequences}));
  if (limits_.sequence_state) result.push_back(view(sequence_slots_.device, {sequences}));
  return result;
}

std::array<ops::HostList, 2> StaticInputs::lists(int32_t sequences) const {
  const size_t count = static_cast<size_t>(sequences);
  return {ops::HostList(std::span(query_lengths_).first(count)), ops::HostList(std::span(kv_lengths_).first(count))};
}

void StaticInputs::bind(ops::ForwardContext& context, int32_t tokens, int32_t sequences, bool all_logits) const {
  const std::vector<Tensor> views = tensors(tokens, sequences, all_logits);
  context.token_ids = views[0];
  context.positions = views[1];
  context.slots = views[2];
  context.block_tables = views[3];
  context.token_count = views[4];
  if (!all_logits) context.logit_rows = views[5];
  if (limits_.sequence_state) context.sequence_slots = views.back();
  context.query_lengths = lists(sequences)[0];
  context.kv_lengths = lists(sequences)[1];
}

}  // namespace reprise::replay
