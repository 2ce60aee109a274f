#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/device.h"
#include "ops/forward_context.h"
#include "replay/step_batch.h"
#include "tensor/tensor.h"

namespace reprise::replay {

/// How large a step may get.
struct StepLimits {
  int32_t tokens = 1;
  int32_t sequences = 1;
  int32_t pages = 1;            ///< columns of the block table
  bool sequence_state = false;  ///< the method reads sequence_slots
};

/// The buffers at fixed addresses that steps write and (captured) graphs read, with a host copy of each. Rows behind
/// the batch are neutral: token 0 at position 0, KV slot and state slot i for row i (scratch), lengths 0. token_count
/// says how many rows are before them.
class StaticInputs {
 public:
  /// `poison`: unused table entries hold 0x7FFFFFFF instead of what was there before, and so do the tokens of padding
  /// rows, whose embeddings are NaN then.
  StaticInputs(device::Device& device, const StepLimits& limits, bool poison);

  /// Queues the copies that bring a step to the device, padded to the given sizes. The host copies are in use until the
  /// stream has done them. Where copies cross to a device with cores of its own, what the device has from earlier steps
  /// is not sent again: of a decode step that follows another, one copy of each of tokens, positions and slots, and
  /// those of the tables that have got a page. After an error everything is sent.
  void write(device::Stream& stream, const StepBatch& batch, int32_t tokens, int32_t sequences);
  /// Copies may have been lost: with the next step everything is sent.
  void send_all() { device_is_known_ = false; }

  /// Views of the first rows, in the order in which graphs declare them: token_ids, positions, slots, block_tables,
  /// token_count, then logit_rows unless all logits are wanted, then sequence_slots if the method reads them.
  std::vector<Tensor> tensors(int32_t tokens, int32_t sequences, bool all_logits) const;
  /// query_lengths and kv_lengths of the step that was written last, padded.
  std::array<ops::HostList, 2> lists(int32_t sequences) const;
  /// Fills the fields of a context for an eager run.
  void bind(ops::ForwardContext& context, int32_t tokens, int32_t sequences, bool all_logits) const;

  const StepLimits& limits() const { return limits_; }

 private:
  /// One array of int32 on both sides.
  struct Column {
    std::shared_ptr<Storage> device;
    std::shared_ptr<Storage> host;  ///< what was queued last
    int32_t* host_data() const { return static_cast<int32_t*>(host->data()); }
  };
  Column make_column(int64_t count);
  void copy(device::Stream& stream, const Column& column, int64_t first, int64_t count);
  void write_all(device::Stream& stream, const StepBatch& batch, int32_t tokens, int32_t sequences);
  template <typename Value>
  void write_column(device::Stream& stream, const Column& column, int64_t first, int32_t count, Value value);
  void write_tables(device::Stream& stream, const StepBatch& batch, int32_t sequences);

  device::Device& device_;
  StepLimits limits_;
  bool poison_;
  bool sends_changes_;
  bool device_is_known_ = true;
  Column token_ids_, positions_, slots_, block_tables_, token_count_, logit_rows_, sequence_slots_;
  std::vector<int32_t> query_lengths_;
  std::vector<int32_t> kv_lengths_;
};

}  // namespace reprise::replay
