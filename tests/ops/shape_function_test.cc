// Shape functions: what they infer for symbolic dimensions, and what they say about arguments that do not fit.

#include <gtest/gtest.h>

#include "base/error.h"
#include "ops/checks.h"
#include "ops/host_tensor.h"
#include "ops/registry.h"

namespace reprise::ops {
namespace {

constexpr DType kBF16 = DType::kBF16;
constexpr DType kI32 = DType::kI32;
constexpr Dim kT = Dim::symbolic(Symbol::kTokens);
constexpr Dim kB = Dim::symbolic(Symbol::kSequences);

Tensor traced(DType dtype, const Shape& shape, Format format = Format()) {
  return Tensor::traced(TensorMeta(dtype, shape, format), 0);
}

/// Runs the checks and the shape function of one call.
std::vector<TensorMeta> infer(std::string_view op_name, const std::vector<Tensor>& inputs,
                              const std::vector<Attribute>& attributes = {}, const std::vector<HostList>& lists = {}) {
  const Registry registry = make_catalogue();
  const OpDef& op = registry.get(op_name);
  const OpCall call{.op = op, .inputs = inputs, .lists = lists, .attributes = attributes, .outputs = {}};
  check_call(call);
  std::vector<TensorMeta> outputs(op.schema().outputs.size());
  op.infer(call, outputs);
  return outputs;
}

void expect_refused(const std::string& text, std::string_view op, const std::vector<Tensor>& inputs,
                    const std::vector<Attribute>& attributes = {}, const std::vector<HostList>& lists = {}) {
  try {
    infer(op, inputs, attributes, lists);
    ADD_FAILURE() << op << " took what it should refuse with: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(error.message(), text);
  }
}

TEST(ShapeFunction, SymbolicDimensionsPassThrough) {
  EXPECT_EQ(infer("linear", {traced(kBF16, {kT, 64}), traced(kBF16, {96, 64}, Format("n16k2")), Tensor()},
                  {Attribute(kF32)})[0],
            TensorMeta(kF32, {kT, 96}));
  EXPECT_EQ(infer("reshape", {traced(kBF16, {kT, 96})}, {Attribute(Shape{kT, 6, 16})})[0],
            TensorMeta(kBF16, {kT, 6, 16}));
  EXPECT_EQ(infer("reshape", {traced(kBF16, {kT, 6, 16})}, {Attribute(Shape{kT * 6, 16})})[0],
            TensorMeta(kBF16, {kT * 6, 16}));
  const TensorMeta cut = infer("slice", {traced(kBF16, {kT, 6, 16})}, {int64_t{1}, int64_t{4}, int64_t{6}})[0];
  EXPECT_EQ(cut.shape, (Shape{kT, 2, 16}));
  EXPECT_EQ(cut.strides[0], 96);
  EXPECT_EQ(infer("rms_norm", {Tensor::traced(cut, 0), traced(kF32, {16})}, {1e-6})[0], TensorMeta(kBF16, {kT, 2, 16}));
  EXPECT_EQ(infer("embedding", {traced(kI32, {kT}), traced(kBF16, {100, 64})}, {Attribute(kBF16)})[0],
            TensorMeta(kBF16, {kT, 64}));
  EXPECT_EQ(infer("gather_rows", {traced(kBF16, {kT, 64}), traced(kI32, {kB})})[0], TensorMeta(kBF16, {kB, 64}));
  EXPECT_EQ(infer("rope", {traced(kF32, {kT, 2, 16}), traced(kI32, {kT}), traced(kF32, {40, 16})})[0],
            TensorMeta(kF32, {kT, 2, 16}));
  EXPECT_EQ(infer("paged_attention",
                  {traced(kBF16, {kT, 4, 16}), traced(kBF16, {8, 16, 2, 16}), traced(kBF16, {8, 16, 2, 16}),
                   traced(kI32, {kB, 5}), Tensor(), Tensor()},
                  {0.25}, {HostList::traced(kB, 1), HostList::traced(kB, 2)})[0],
            TensorMeta(kBF16, {kT, 4, 16}));
  EXPECT_EQ(infer("causal_conv1d",
                  {traced(kF32, {kT, 7}), traced(kF32, {7, 4}), Tensor(), traced(kF32, {3, 3, 7}), traced(kI32, {kB})},
                  {}, {HostList::traced(kB, 1), HostList::traced(kB, 2)})[0],
            TensorMeta(kF32, {kT, 7}));
  EXPECT_TRUE(infer("store_kv", {traced(kF32, {kT, 2, 4}), traced(kF32, {kT, 2, 4}), traced(kI32, {kT}),
                                 traced(kF32, {8, 16, 2, 4}), traced(kF32, {8, 16, 2, 4}), Tensor(), Tensor()})
                  .empty());
}

TEST(ShapeFunction, RefusesByNameWhatTheSchemaDoesNotTake) {
  expect_refused("add: called with 1 tensors, 0 host lists and 0 attributes, expected 2, 0 and 0", "add",
                 {traced(kF32, {1})});
  expect_refused("add: argument 'b' is absent", "add", {traced(kF32, {1}), Tensor()});
  expect_refused("cast: attribute 'dtype' is 3, expected a dtype", "cast", {traced(kF32, {1})}, {int64_t{3}});
}

TEST(ShapeFunction, RefusesViewsThatDoNotFit) {
  const Tensor x = traced(kF32, {kT, 6});
  expect_refused("reshape: argument 'x' of shape [s0, 6] has not as many elements as [s0, 7]", "reshape", {x},
                 {Attribute(Shape{kT, 7})});
  expect_refused("reshape: argument 'x' of shape [s0, 6] has not as many elements as [6]", "reshape", {x},
                 {Attribute(Shape{6})});
  expect_refused("reshape: attribute 'shape' is [6, s0]: sizes are not negative, and only the first may be symbolic",
                 "reshape", {x}, {Attribute(Shape{6, kT})});
  const TensorMeta cut = infer("slice", {x}, {int64_t{1}, int64_t{0}, int64_t{2}})[0];
  expect_refused("reshape: argument 'x' is float32[s0, 2]{6,1}, expected contiguous memory", "reshape",
                 {Tensor::traced(cut, 0)}, {Attribute(Shape{kT * 2})});
  expect_refused("slice: argument 'x' of shape [s0, 6] cannot be cut along its symbolic axis", "slice", {x},
                 {int64_t{0}, int64_t{0}, int64_t{1}});
  expect_refused("slice: attribute 'axis' is 2, expected less than 2", "slice", {x},
                 {int64_t{2}, int64_t{0}, int64_t{1}});
  expect_refused("slice: [4, 7) is not within the 6 elements of axis 1 of [s0, 6]", "slice", {x},
                 {int64_t{1}, int64_t{4}, int64_t{7}});
}

TEST(ShapeFunction, RefusesElementsAndShapesThatDoNotFit) {
  expect_refused("add: argument 'a' has dtype int32, expected float32 or bfloat16", "add",
                 {traced(kI32, {4}), traced(kI32, {4})});
  expect_refused("add: argument 'b' has dtype bfloat16, expected float32 as argument 'a'", "add",
                 {traced(kF32, {4}), traced(kBF16, {4})});
  expect_refused("mul: argument 'b' has shape [5], expected [4]", "mul", {traced(kF32, {4}), traced(kF32, {5})});
  expect_refused("silu: argument 'x' has format 'n16', expected plain memory", "silu",
                 {traced(kF32, {4, 4}, Format("n16"))});
  expect_refused("cast: attribute 'dtype' is int8, expected float32 or bfloat16", "cast", {traced(kF32, {4})},
                 {Attribute(DType::kI8)});
  expect_refused("rms_norm: argument 'weight' has shape [3], expected [4]", "rms_norm",
                 {traced(kF32, {kT, 4}), traced(kF32, {3})}, {1e-6});
  expect_refused("linear: argument 'weight' has shape [8, 5], expected 4 columns as argument 'x' of shape [s0, 4]",
                 "linear", {traced(kF32, {kT, 4}), traced(kF32, {8, 5}), Tensor()}, {Attribute(kF32)});
  expect_refused("linear: argument 'bias' has dtype bfloat16, expected float32", "linear",
                 {traced(kF32, {kT, 4}), traced(kF32, {8, 4}), traced(kBF16, {8})}, {Attribute(kF32)});
  expect_refused("linear: attribute 'out' is int32, expected float32 or bfloat16", "linear",
                 {traced(kF32, {kT, 4}), traced(kF32, {8, 4}), Tensor()}, {Attribute(kI32)});
  const Tensor bytes = traced(DType::kI8, {kT, 4});
  const Tensor weight = traced(DType::kI8, {8, 4});
  const Tensor scale = traced(kF32, {8});
  const Tensor none;
  expect_refused("int8_linear: argument 'x' has dtype float32, expected int8", "int8_linear",
                 {traced(kF32, {kT, 4}), weight, scale, none, none, none}, {Attribute(kF32)});
  expect_refused("int8_linear: argument 'weight' has 131072 columns, expected at most 131071", "int8_linear",
                 {traced(DType::kI8, {kT, 131072}), traced(DType::kI8, {8, 131072}), scale, none, none, none},
                 {Attribute(kF32)});
  expect_refused("int8_linear: argument 'scale' has shape [7], expected [8]", "int8_linear",
                 {bytes, weight, traced(kF32, {7}), none, none, none}, {Attribute(kF32)});
  expect_refused("int8_linear: argument 'row_scales' has shape [8], expected [s0]", "int8_linear",
                 {bytes, weight, scale, traced(kF32, {8}), none, none}, {Attribute(kF32)});
  expect_refused("int8_linear: argument 'quant_bias' has dtype float32, expected int32", "int8_linear",
                 {bytes, weight, scale, none, traced(kF32, {8}), none}, {Attribute(kF32)});
  expect_refused("int8_linear: attribute 'out' is int8, expected float32 or bfloat16", "int8_linear",
                 {bytes, weight, scale, none, none, none}, {Attribute(DType::kI8)});
  expect_refused("pack_linear_weight: argument 'weight' has shape [8], expected 2 dimensions", "pack_linear_weight",
                 {traced(kF32, {8})}, {Attribute(std::string())});
  expect_refused("embedding: argument 'ids' has dtype float32, expected int32", "embedding",
                 {traced(kF32, {kT}), traced(kF32, {8, 4})}, {Attribute(kF32)});
  expect_refused("gather_rows: argument 'x' has shape [s0, 2, 4], expected 2 dimensions", "gather_rows",
                 {traced(kF32, {kT, 2, 4}), traced(kI32, {kB})});
  expect_refused("rope: argument 'x' has shape [s0, 2, 5], expected an even last axis", "rope",
                 {traced(kF32, {kT, 2, 5}), traced(kI32, {kT}), traced(kF32, {9, 5})});
  expect_refused("rope: argument 'table' has shape [9, 4], expected [9, 6]", "rope",
                 {traced(kF32, {kT, 2, 6}), traced(kI32, {kT}), traced(kF32, {9, 4})});
}

TEST(ShapeFunction, RefusesCachesThatDoNotFit) {
  const Tensor k = traced(kBF16, {kT, 2, 4});
  const Tensor slots = traced(kI32, {kT});
  const Tensor cache = traced(kBF16, {8, 16, 2, 4});
  const Tensor none;
  expect_refused("store_kv: argument 'slots' has shape [s1], expected [s0]", "store_kv",
                 {k, k, traced(kI32, {kB}), cache, cache, none, none});
  expect_refused("store_kv: argument 'k_cache' has shape [8, 16, 3, 4], expected [8, 16, 2, 4]", "store_kv",
                 {k, k, slots, traced(kBF16, {8, 16, 3, 4}), cache, none, none});
  expect_refused("store_kv: argument 'v_cache' has shape [9, 16, 2, 4], expected [8, 16, 2, 4]", "store_kv",
                 {k, k, slots, cache, traced(kBF16, {9, 16, 2, 4}), none, none});
  expect_refused("store_kv: argument 'v_cache' has dtype float32, expected bfloat16 as argument 'k'", "store_kv",
                 {k, k, slots, cache, traced(kF32, {8, 16, 2, 4}), none, none});
  const Tensor int8 = traced(DType::kI8, {8, 16, 2, 4});
  const Tensor scales = traced(kF32, {8, 16, 2});
  EXPECT_TRUE(infer("store_kv", {k, k, slots, int8, int8, scales, scales}).empty());
  expect_refused("store_kv: argument 'k_cache' has dtype int8, expected bfloat16 as argument 'k'", "store_kv",
                 {k, k, slots, int8, int8, none, none});
  expect_refused("store_kv: argument 'k_cache' has dtype bfloat16, expected int8", "store_kv",
                 {k, k, slots, cache, cache, scales, scales});
  expect_refused("store_kv: argument 'v_scales' is absent, expected both scales or none", "store_kv",
                 {k, k, slots, int8, int8, scales, none});
  expect_refused("store_kv: argument 'v_scales' has shape [8, 16, 1], expected [8, 16, 2]", "store_kv",
                 {k, k, slots, int8, int8, scales, traced(kF32, {8, 16, 1})});
  expect_refused("paged_attention: argument 'k_scales' is absent, expected both scales or none", "paged_attention",
                 {k, cache, cache, traced(kI32, {kB, 5}), none, scales}, {0.25},
                 {HostList::traced(kB, 1), HostList::traced(kB, 2)});
}

TEST(ShapeFunction, RefusesHostListsThatDoNotFit) {
  const Tensor q = traced(kF32, {4, 2, 4});
  const Tensor cache = traced(kF32, {8, 16, 2, 4});
  const Tensor tables = traced(kI32, {2, 3});
  const auto refused = [&](const std::string& text, const std::vector<int32_t>& queries,
                           const std::vector<int32_t>& keys) {
    expect_refused(text, "paged_attention", {q, cache, cache, tables, Tensor(), Tensor()}, {1.0},
                   {HostList(queries), HostList(keys)});
  };
  refused("paged_attention: host list 'query_lengths' has 1 entries, expected 2", {4}, {4, 4});
  refused("paged_attention: host list 'kv_lengths' has 3 entries, expected 2", {2, 2}, {4, 4, 4});
  refused("paged_attention: host list 'query_lengths' has the sum 3, expected one entry for each of 4 rows", {2, 1},
          {4, 4});
  refused("paged_attention: host list 'query_lengths' has the entry -1 at 1", {5, -1}, {5, 4});
  refused(
      "paged_attention: host list 'kv_lengths' has the entry 1 at 0, expected 0 or at least the 2 rows of the sequence",
      {2, 2}, {1, 4});
  refused(
      "paged_attention: host list 'kv_lengths' has the entry 49, more than the 48 keys that a block table of 3 pages "
      "of "
      "16 holds",
      {2, 2}, {49, 4});
  expect_refused(
      "paged_attention: argument 'k_cache' has shape [8, 16, 3, 4], which does not go with argument 'q' of "
      "shape [4, 2, 4]",
      "paged_attention", {q, traced(kF32, {8, 16, 3, 4}), traced(kF32, {8, 16, 3, 4}), tables, Tensor(), Tensor()},
      {1.0}, {HostList::traced(2, 1), HostList::traced(2, 2)});
}

TEST(ShapeFunction, FusedOperatorsKeepSymbolicRows) {
  const Tensor x = traced(kBF16, {kT, 64});
  const Tensor weight = traced(kF32, {64});
  const std::vector<TensorMeta> norm = infer("add_rms_norm_dynamic_quantize", {x, x, weight, Tensor()}, {1e-6});
  EXPECT_EQ(norm[0], TensorMeta(DType::kI8, {kT, 64}));
  EXPECT_EQ(norm[1], TensorMeta(kF32, {kT}));
  EXPECT_EQ(norm[2], TensorMeta(kBF16, {kT, 64}));
  const Tensor head = traced(kF32, {16});
  const std::vector<TensorMeta> heads =
      infer("split_qkv_rms_norm_rope",
            {traced(kBF16, {kT, 128}), head, head, Tensor(), Tensor(), traced(kI32, {kT}), traced(kF32, {100, 16})},
            {int64_t{4}, int64_t{2}, 1e-6});
  EXPECT_EQ(heads[0], TensorMeta(kBF16, {kT, 4, 16}));
  EXPECT_EQ(heads[1], TensorMeta(kBF16, {kT, 2, 16}));
  EXPECT_EQ(infer("transpose_batch_matmul", {traced(kBF16, {kT, 4, 16}), traced(kBF16, {4, 16, 8})}, {true})[0],
            TensorMeta(kBF16, {kT, 4, 8}));
  const Tensor none;
  EXPECT_EQ(infer("cat", {x, traced(kBF16, {kT, 64}), traced(kBF16, {3, 64}), none, none, none, none, none},
                  {int64_t{0}, false})[0],
            TensorMeta(kBF16, {kT * 2 + 3, 64}));
}

TEST(ShapeFunction, FusedAndInPlaceOperatorsSayWhatDoesNotFit) {
  const Tensor x = traced(kF32, {4, 8});
  const Tensor none;
  const Tensor weight = traced(kF32, {8});
  expect_refused("add_rms_norm: argument 'residual' has dtype bfloat16, expected float32 as argument 'x'",
                 "add_rms_norm", {x, traced(kBF16, {4, 8}), weight}, {1e-6});
  expect_refused("add_rms_norm_quantize: argument 'scale' has shape [4], expected [8]", "add_rms_norm_quantize",
                 {x, x, weight, traced(kF32, {4}), none}, {1e-6});
  expect_refused("dynamic_quantize: argument 'x' has shape [8], expected at least 2 dimensions", "dynamic_quantize",
                 {weight, none});
  expect_refused("cast: attribute 'dtype' is int8, expected float32 or bfloat16", "cast", {x}, {DType::kI8});
  expect_refused("transpose: attribute 'axis_b' is 2, expected 0 to 1", "transpose", {x}, {int64_t{0}, int64_t{2}});
  expect_refused("transpose: attribute 'axis_a' is -1, expected 0 to 1", "transpose", {x}, {int64_t{-1}, int64_t{0}});
  expect_refused("transpose: argument 'x' of shape [s0, 8] cannot move its symbolic axis", "transpose",
                 {traced(kF32, {kT, 8})}, {int64_t{0}, int64_t{1}});
  const Tensor head = traced(kF32, {4});
  const Tensor positions = traced(kI32, {4});
  const Tensor table = traced(kF32, {9, 4});
  expect_refused("split_qkv_rms_norm_rope: argument 'qkv' has shape [4, 8], expected [4, 12]",
                 "split_qkv_rms_norm_rope", {x, head, head, none, none, positions, table},
                 {int64_t{1}, int64_t{1}, 1e-6});
  expect_refused("split_qkv_rms_norm_rope_store: argument 'v_cache' has shape [3, 2, 2, 4], expected [3, 2, 1, 4]",
                 "split_qkv_rms_norm_rope_store",
                 {traced(kF32, {4, 12}), head, head, none, none, positions, table, positions,
                  traced(kF32, {3, 2, 1, 4}), traced(kF32, {3, 2, 2, 4}), none, none},
                 {int64_t{1}, int64_t{1}, 1e-6});
  expect_refused("split_qkv_rms_norm_rope: argument 'k_bias' is absent, expected both biases or none",
                 "split_qkv_rms_norm_rope", {traced(kF32, {4, 12}), head, head, head, none, positions, table},
                 {int64_t{1}, int64_t{1}, 1e-6});
  expect_refused("cat: argument 'b' is absent, but a later one is given", "cat",
                 {x, none, x, none, none, none, none, none}, {int64_t{0}, false});
  expect_refused("scatter_rows_: argument 'updates' has shape [3, 8], expected [4, 8]", "scatter_rows_",
                 {x, positions, traced(kF32, {3, 8})});
}

}  // namespace
}  // namespace reprise::ops
