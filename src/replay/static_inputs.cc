#include "replay/static_inputs.h"

#include <algorithm>
#include <utility>

namespace reprise::replay {
namespace {

/// No page, row or table has this number: an embedding of it is NaN, a page table's entry a fault.
constexpr int32_t kPoison = 0x7FFFFFFF;

Tensor view(const std::shared_ptr<Storage>& storage, const Shape& shape) {
  return Tensor(TensorMeta(DType::kI32, shape), storage);
}

}  // namespace

StaticInputs::StaticInputs(device::Device& device, const StepLimits& limits, bool poison)
    : device_(device), limits_(limits), poison_(poison), sends_changes_(!device.capabilities().shares_host_cores) {
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

/// Sets `count` values from `first` on to value(i), and queues the copy of what the device does not have yet.
template <typename Value>
void StaticInputs::write_column(device::Stream& stream, const Column& column, int64_t first, int32_t count,
                                Value value) {
  int32_t* target = column.host_data() + first;
  if (!sends_changes_) {
    for (int32_t i = 0; i < count; ++i) target[i] = value(i);
    copy(stream, column, first, count);
    return;
  }
  int32_t begin = count, end = 0;
  for (int32_t i = 0; i < count; ++i) {
    const int32_t now = value(i);
    if (target[i] == now) continue;
    target[i] = now;
    begin = std::min(begin, i);
    end = i + 1;
  }
  if (begin < end && device_is_known_) copy(stream, column, first + begin, end - begin);
}

void StaticInputs::write(device::Stream& stream, const StepBatch& batch, int32_t tokens, int32_t sequences) {
  try {
    write_all(stream, batch, tokens, sequences);
  } catch (...) {
    // The host copy has values whose copies were not queued.
    device_is_known_ = false;
    throw;
  }
}

void StaticInputs::write_all(device::Stream& stream, const StepBatch& batch, int32_t tokens, int32_t sequences) {
  const auto padded = [&](const Column& column, const std::vector<int32_t>& values, int32_t rows, auto neutral) {
    const auto used = static_cast<int32_t>(values.size());
    write_column(stream, column, 0, rows,
                 [&](int32_t i) { return i < used ? values[static_cast<size_t>(i)] : neutral(i); });
  };
  const auto zero = [](int32_t) { return 0; };
  const auto token = [this](int32_t) { return poison_ ? kPoison : 0; };
  const auto own_row = [](int32_t row) { return row; };
  padded(token_ids_, batch.token_ids, tokens, token);
  padded(positions_, batch.positions, tokens, zero);
  padded(slots_, batch.slots, tokens, own_row);
  std::copy(batch.query_lengths.begin(), batch.query_lengths.end(), query_lengths_.begin());
  std::copy(batch.kv_lengths.begin(), batch.kv_lengths.end(), kv_lengths_.begin());
  for (int32_t i = batch.sequences(); i < sequences; ++i) {
    query_lengths_[static_cast<size_t>(i)] = 1;
    kv_lengths_[static_cast<size_t>(i)] = 0;
  }
  write_column(stream, token_count_, 0, 1, [&](int32_t) { return batch.tokens(); });
  int32_t last_row = -1;
  write_column(stream, logit_rows_, 0, sequences, [&](int32_t i) {
    if (i >= batch.sequences()) return i;
    last_row += batch.query_lengths[static_cast<size_t>(i)];
    return last_row;
  });
  if (limits_.sequence_state) padded(sequence_slots_, batch.sequence_slots, sequences, own_row);
  write_tables(stream, batch, sequences);
  if (std::exchange(device_is_known_, true) || !sends_changes_) return;
  for (const Column* column :
       {&token_ids_, &positions_, &slots_, &block_tables_, &token_count_, &logit_rows_, &sequence_slots_}) {
    copy(stream, *column, 0, static_cast<int64_t>(column->host->bytes() / sizeof(int32_t)));
  }
}

void StaticInputs::write_tables(device::Stream& stream, const StepBatch& batch, int32_t sequences) {
  const int32_t used = std::min(batch.max_pages, limits_.pages);
  for (int32_t row = 0; row < sequences; ++row) {
    const size_t source = static_cast<size_t>(row) * static_cast<size_t>(batch.max_pages);
    const int32_t filled = row < batch.sequences() ? used : 0;
    write_column(stream, block_tables_, int64_t{row} * limits_.pages, poison_ ? limits_.pages : filled,
                 [&](int32_t i) { return i < filled ? batch.block_tables[source + static_cast<size_t>(i)] : kPoison; });
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
