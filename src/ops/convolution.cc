#include "ops/convolution.h"

#include <vector>

#include "base/error.h"
#include "ops/checks.h"
#include "ops/dispatch_call.h"
#include "ops/reference_access.h"

namespace reprise::ops {
namespace {

void infer_causal_conv1d(const OpCall& call, std::span<TensorMeta> outputs) {
  const Tensor& x = call.inputs[0];
  require_float(call, 0);
  require_rank(call, 0, 2);
  require_dense_rows(call, 0);
  const Dim channels = x.shape()[1];
  require_dtype(call, 1, DType::kF32);
  require_rank(call, 1, 2);
  require_contiguous(call, 1);
  const int64_t width = call.inputs[1].size(1);
  require_shape(call, 1, Shape{channels, Dim(width)});
  if (width < 1) fail_argument(call, 1, "has no taps");
  if (call.inputs[2].defined()) {
    require_dtype(call, 2, DType::kF32);
    require_shape(call, 2, Shape{channels});
    require_contiguous(call, 2);
  }
  require_same_dtype(call, 3, 0);
  require_rank(call, 3, 3);
  require_shape(call, 3, Shape{call.inputs[3].shape()[0], Dim(width - 1), channels});
  require_contiguous(call, 3);
  require_dtype(call, 4, DType::kI32);
  require_rank(call, 4, 1);
  require_contiguous(call, 4);
  require_sequences(call, x.shape()[0], call.inputs[4].shape()[0]);
  outputs[0] = TensorMeta(x.dtype(), x.shape());
}

/// One sequence and channel: `first` is its first row.
void convolve(const OpCall& call, int64_t first, int64_t rows, bool starts, int32_t slot, int64_t channel) {
  const RowReader x(call.inputs[0]);
  const RowReader weight(call.inputs[1]);
  const RowReader state(call.inputs[3]);
  RowWriter state_writer(call.inputs[3]);
  RowWriter y(call.outputs[0]);
  const int64_t kept = call.inputs[1].size(1) - 1;
  const bool has_slot = slot >= 0 && slot < call.inputs[3].size(0);

  std::vector<float> history;  // the kept inputs, then those of this step
  for (int64_t i = 0; i < kept; ++i) history.push_back(starts || !has_slot ? 0.0f : state(slot * kept + i, channel));
  for (int64_t row = 0; row < rows; ++row) history.push_back(x(first + row, channel));
  for (int64_t row = 0; row < rows; ++row) {
    double sum = call.inputs[2].defined() ? call.inputs[2].data_as<float>()[channel] : 0.0;
    for (int64_t w = 0; w <= kept; ++w) {
      sum += static_cast<double>(weight(channel, w)) * history[static_cast<size_t>(row + w)];
    }
    y.set(first + row, channel, static_cast<float>(sum));
  }
  for (int64_t i = 0; i < kept && has_slot; ++i) {
    state_writer.set(slot * kept + i, channel, history[static_cast<size_t>(rows + i)]);
  }
}

void reference_causal_conv1d(const OpCall& call) {
  const int64_t channels = call.inputs[0].size(1);
  RowWriter y(call.outputs[0]);
  int64_t first = 0;
  for (size_t s = 0; s < call.lists[0].values.size(); ++s) {
    const int64_t rows = call.lists[0].values[s];
    const int64_t kv_length = call.lists[1].values[s];
    for (int64_t channel = 0; channel < channels; ++channel) {
      if (kv_length == 0) {
        for (int64_t row = 0; row < rows; ++row) y.set(first + row, channel, 0.0f);
      } else {
        convolve(call, first, rows, kv_length == rows, call.inputs[4].data_as<int32_t>()[s], channel);
      }
    }
    first += rows;
  }
}

}  // namespace

void check_convolution_lists(const OpCall& call) {
  const std::span<const int32_t> queries = call.lists[0].values;
  const std::span<const int32_t> keys = call.lists[1].values;
  const int64_t sequences = call.inputs[4].size(0);
  if (static_cast<int64_t>(queries.size()) != sequences || static_cast<int64_t>(keys.size()) != sequences) {
    throw Error(ErrorCode::kInvalidArgument, "causal_conv1d: host lists of {} and {} entries for {} sequences",
                queries.size(), keys.size(), sequences);
  }
  int64_t rows = 0;
  for (size_t s = 0; s < queries.size(); ++s) {
    if (queries[s] < 0 || keys[s] < 0 || (keys[s] != 0 && keys[s] < queries[s])) {
      throw Error(ErrorCode::kInvalidArgument, "causal_conv1d: sequence {} has {} rows and a length of {}", s,
                  queries[s], keys[s]);
    }
    rows += queries[s];
  }
  if (rows > call.inputs[0].size(0)) {
    throw Error(ErrorCode::kInvalidArgument, "causal_conv1d: {} rows in all, but {} tokens", rows,
                call.inputs[0].size(0));
  }
}

Tensor causal_conv1d(ForwardContext& context, const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const Tensor& state, std::source_location where) {
  return dispatch_call(context, "causal_conv1d", {x, weight, bias, state, context.sequence_slots},
                       {context.query_lengths, context.kv_lengths}, {}, where);
}

void register_convolution(Registry& registry) {
  registry.add(
      OpDef("causal_conv1d(Tensor x, Tensor weight, Tensor? bias, Tensor! state, Tensor sequence_slots, "
            "int[]^ query_lengths, int[]^ kv_lengths) -> Tensor y",
            {.host_tiled = true, .rowwise = false}, infer_causal_conv1d, reference_causal_conv1d));
}

}  // namespace reprise::ops
