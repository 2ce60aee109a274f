// Random methods run from an executable, in a poisoned arena, give the bits that they give eagerly. RapidCheck makes
// the decisions of which a method consists, and leaves out what it can when one fails.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdlib>
#include <map>

#include "base/error.h"
#include "compile/executable.h"
#include "compile/pass_manager.h"
#include "compile/tracer.h"
#include "device/cpu/cpu_device.h"
#include "graph/hash.h"
#include "graph/text_writer.h"
#include "graph/verify.h"
#include "kernels/cpu/register_cpu_kernels.h"
#include "ops/copies.h"
#include "ops/eager_dispatcher.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/linear_merge.h"
#include "ops/norm.h"
#include "ops/views.h"

namespace reprise::compile {
namespace {

constexpr int64_t kMaxTokens = 16;
constexpr int64_t kColumns = 16;

/// What a random method does, decision by decision; behind the last one everything is decided with 0.
using Decisions = std::vector<uint32_t>;

class Decider {
 public:
  explicit Decider(const Decisions& decisions) : decisions_(decisions) {}
  size_t operator()(size_t count) { return next_ < decisions_.size() ? decisions_[next_++] % count : 0; }

 private:
  const Decisions& decisions_;
  size_t next_ = 0;
};

constexpr size_t kDecisionsPerNode = 7;

rc::Gen<Decisions> any_decisions() {
  const auto decision = rc::gen::resize(rc::kNominalSize, rc::gen::inRange<uint32_t>(0, 1 << 16));
  return rc::gen::resize(28 * kDecisionsPerNode, rc::gen::container<Decisions>(decision));
}

/// What is tested is the order of writes and the memory under them; these kernels write where they are told to.
ops::OpKernel add_kernel, silu_kernel;
void over_first_input(const ops::OpCall& call, const ops::OpKernel& kernel) {
  Tensor result = call.inputs[0];
  ops::OpCall inner = call;
  inner.outputs = {&result, 1};
  kernel.run(inner);
}

class RandomGraph : public ::testing::Test {
 protected:
  RandomGraph() : registry_(ops::make_catalogue()) {
    kernels::cpu::register_cpu_kernels(registry_);
    add_kernel = *registry_.get("add").kernel("cpu");
    silu_kernel = *registry_.get("silu").kernel("cpu");
    registry_.get("add_").set_kernel("cpu",
                                     {.run = [](const ops::OpCall& call) { over_first_input(call, add_kernel); }});
    registry_.get("silu_").set_kernel("cpu",
                                      {.run = [](const ops::OpCall& call) { over_first_input(call, silu_kernel); }});
    device_ = device::cpu::create_cpu_device({.threads = 2});
    stream_ = device_->create_stream();
    for (const int64_t columns : {4, 8, 16}) norms_.push_back(upload({columns}, 3));
    ops::EagerDispatcher dispatcher(registry_, *device_, *stream_);
    ops::ForwardContext context(dispatcher);
    for (const int64_t columns : {4, 8, 16}) {
      projections_.emplace_back().weight = ops::pack_linear_weight(context, upload({8, columns}, 5));
    }
    for (const int64_t columns : {4, 8, 16}) {
      std::vector<ops::LinearWeights> pair(2);
      for (int32_t i = 0; i < 2; ++i) {
        pair[static_cast<size_t>(i)].weight = ops::pack_linear_weight(context, upload({16, columns}, 7 + i));
      }
      stream_->synchronize();
      pairs_.push_back(ops::merge_linear_weights(registry_, *device_, pair).parts);
    }
    stream_->synchronize();
  }

  Tensor upload(const Shape& shape, int32_t seed) {
    const TensorMeta meta(DType::kF32, shape);
    Tensor tensor(meta, device_->allocate(std::max<size_t>(meta.contiguous_bytes(), 64)));
    write(tensor, seed);
    return tensor;
  }
  void write(const Tensor& tensor, int32_t seed) {
    std::vector<float> values(static_cast<size_t>(tensor.shape().elements()));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>((static_cast<int64_t>(i) * 37 + seed * 101) % 97) / 48.0f - 1.0f;
    }
    device_->copy(tensor.data(), values.data(), values.size() * sizeof(float), device::CopyKind::kHostToDevice);
  }
  Tensor reversed_rows(int64_t tokens) {
    std::vector<int32_t> numbers;
    for (int64_t row = tokens; row-- > 0;) numbers.push_back(static_cast<int32_t>(row));
    const TensorMeta meta(DType::kI32, {tokens});
    Tensor rows(meta, device_->allocate(meta.contiguous_bytes()));
    device_->copy(rows.data(), numbers.data(), meta.contiguous_bytes(), device::CopyKind::kHostToDevice);
    return rows;
  }
  /// Elements of a tensor that may be strided, in order.
  std::vector<float> read(const Tensor& tensor) {
    std::vector<float> values;
    for (int64_t row = 0; row < tensor.size(0); ++row) {
      for (int64_t column = 0; column < tensor.size(1); ++column)
        values.push_back(tensor.data_as<const float>()[row * tensor.stride(0) + column * tensor.stride(1)]);
    }
    return values;
  }

  /// A tensor [tokens, columns], whose memory it shows, and whether its rows lie side by side (a cut of one row always
  /// does; what is done must not depend on that).
  struct Entry {
    Tensor tensor;
    int root;
    bool dense = true;
  };

  size_t width_index(const Tensor& tensor) const {
    const int64_t columns = tensor.size(1);
    return columns == 4 ? 0 : columns == 8 ? 1 : 2;
  }

  /// The method of some decisions: the same operators whatever the dispatcher and the number of tokens.
  std::vector<Tensor> method(const Decisions& decisions, ops::ForwardContext& context, Dim tokens, const Tensor& x,
                             const Tensor& y, const Tensor& rows) const {
    Decider choose(decisions);
    int roots = 2;
    std::vector<Entry> pool = {{x, 0}, {y, 1}};
    std::vector<Tensor> concatenated;  // of twice as many rows, so that nothing is done with them
    const size_t nodes = 1 + decisions.size() / kDecisionsPerNode;
    for (size_t i = 0; i < nodes; ++i) {
      const Entry a = pool[choose(pool.size())];
      const Tensor& t = a.tensor;
      // A partner of the same shape that does not share memory with it, as operators in place demand.
      const Entry* b = nullptr;
      for (size_t tries = 0; tries < 8; ++tries) {
        const Entry& candidate = pool[choose(pool.size())];
        if (candidate.tensor.shape() == t.shape() && candidate.root != a.root) b = &candidate;
      }
      const auto made = [&](Tensor tensor) { pool.push_back({std::move(tensor), roots++}); };
      const auto viewed = [&](Tensor tensor, bool dense) { pool.push_back({std::move(tensor), a.root, dense}); };
      switch (choose(18)) {
        case 0:
          made(ops::add(context, t, b != nullptr ? b->tensor : t));
          break;
        case 1:
          made(ops::mul(context, t, b != nullptr ? b->tensor : t));
          break;
        case 2:
          made(ops::silu(context, t));
          break;
        case 3:
          made(ops::rms_norm(context, t, norms_[width_index(t)], 1e-3));
          break;
        case 4:
          made(ops::linear(context, t, projections_[width_index(t)]));
          break;
        case 5:
          if (t.size(1) > 4) {
            const int64_t half = t.size(1) / 2;
            const int64_t begin = choose(2) == 0 ? 0 : half;
            viewed(ops::slice(context, t, 1, begin, begin + half), false);
          }
          break;
        case 6:
          if (a.dense) {
            const Tensor cut = ops::reshape(context, t, {tokens, t.size(1) / 2, 2});
            viewed(ops::reshape(context, cut, {tokens, t.size(1)}), true);
          }
          break;
        case 7:
          made(ops::copy(context, t));
          break;
        case 8:  // does nothing, and may be removed
          made(ops::cast(context, t, DType::kF32));
          break;
        case 9:
          made(ops::cast(context, ops::cast(context, t, DType::kBF16), DType::kF32));
          break;
        case 10:
          if (b != nullptr && a.dense) ops::add_(context, t, b->tensor);
          break;
        case 11: {  // the idioms that fusions look for
          const Tensor sum = ops::add(context, t, b != nullptr ? b->tensor : t);
          made(ops::rms_norm(context, sum, norms_[width_index(t)], 1e-3));
          if (choose(2) == 0) made(sum);
          break;
        }
        case 12: {
          const Tensor gate = ops::silu(context, t);
          made(ops::mul(context, b != nullptr ? b->tensor : t, gate));
          if (choose(4) == 0) made(gate);
          break;
        }
        case 13:
          for (const ops::LinearWeights& weights : pairs_[width_index(t)]) made(ops::linear(context, t, weights));
          break;
        case 14:
          made(ops::gather_rows(context, t, rows));
          break;
        case 15:  // an input that the method overwrites in the end, or in its middle
          if (const Entry& input = pool[choose(2)]; b != nullptr && input.tensor.shape() == t.shape()) {
            const Tensor moved = ops::add(context, input.tensor, ops::silu(context, t));
            ops::copy_(context, input.tensor, moved);
            if (choose(2) == 0) made(moved);
          }
          break;
        case 16: {
          const Tensor parts[] = {ops::silu(context, t), b != nullptr && b->dense ? b->tensor : ops::copy(context, t)};
          concatenated.push_back(ops::cat(context, parts, 0));
          break;
        }
        default:
          if (a.dense) ops::silu_(context, t);
          break;
      }
    }
    std::vector<Tensor> outputs = concatenated;
    const size_t count = 1 + choose(4);
    for (size_t i = 0; i < count; ++i)
      outputs.push_back(pool[pool.size() - 1 - choose(std::min<size_t>(pool.size(), 6))].tensor);
    return outputs;
  }

  graph::Graph trace(const Decisions& decisions) {
    Tracer tracer(registry_, "random");
    const Dim tokens = Dim::symbolic(tracer.symbol("tokens", 1, kMaxTokens));
    ops::ForwardContext context(tracer);
    const Tensor x = tracer.input("x", TensorMeta(DType::kF32, {tokens, kColumns}));
    const Tensor y = tracer.input("y", TensorMeta(DType::kF32, {tokens, 8}));
    const Tensor rows = tracer.input("rows", TensorMeta(DType::kI32, {tokens}));
    const std::vector<Tensor> outputs = method(decisions, context, tokens, x, y, rows);
    return tracer.finish(outputs);
  }

  /// The graph in a poisoned arena against the method's own calls, for several numbers of tokens.
  void check_bits(const Decisions& decisions, graph::Graph graph) {
    const std::string text = graph::to_text(graph);
    const Executable executable(std::move(graph), "cpu", {kMaxTokens});
    const auto arena = device_->allocate(std::max<size_t>(executable.arena_bytes(), 64));
    for (const int64_t tokens : {int64_t{1}, int64_t{5}, kMaxTokens}) {
      const Tensor x = upload({tokens, kColumns}, 1);
      const Tensor y = upload({tokens, 8}, 2);
      const Tensor rows = reversed_rows(tokens);
      ops::EagerDispatcher dispatcher(registry_, *device_, *stream_);
      ops::ForwardContext context(dispatcher);
      const std::vector<Tensor> expected = method(decisions, context, tokens, x, y, rows);
      stream_->synchronize();
      std::vector<std::vector<float>> eager = {read(x), read(y)};
      for (const Tensor& output : expected) eager.push_back(read(output));

      write(x, 1);
      write(y, 2);
      device_->fill(arena->data(), 0xFF, arena->bytes());
      const int64_t symbols[] = {tokens};
      const Tensor inputs[] = {x, y, rows};
      const auto bound = executable.bind(symbols, arena, inputs);
      bound->run(*stream_, {});
      stream_->synchronize();
      std::vector<std::vector<float>> got = {read(x), read(y)};
      for (const Tensor& output : bound->outputs()) got.push_back(read(output));
      if (got != eager) RC_FAIL(fmt::format("{} tokens:\n{}", tokens, text));
    }
  }

  ops::Registry registry_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  std::vector<Tensor> norms_;
  std::vector<ops::LinearWeights> projections_;
  std::vector<std::vector<ops::LinearWeights>> pairs_;  ///< of two whose weights lie one after the other
};

TEST_F(RandomGraph, GivesTheEagerBitsFromAPoisonedArenaWithAndWithoutPasses) {
  // The same methods on every run; RC_PARAMS asks for others, or more.
  setenv("RC_PARAMS", "seed=20 max_success=1000", 0);
  int64_t removed = 0;
  std::map<std::string, int64_t> matches;
  const bool holds = rc::check("optimised and planned graphs give the eager bits", [&] {
    const Decisions decisions = *any_decisions();
    for (const bool optimised : {false, true}) {
      graph::Graph graph = trace(decisions);
      RC_ASSERT(graph::structural_hash(graph) == graph::structural_hash(trace(decisions)));
      const size_t nodes = graph.order().size();
      if (optimised) {
        for (const PassReport& report : PassManager::standard(registry_, {.device = "cpu"}).run(graph)) {
          matches[report.pass] += report.matches;
        }
      }
      removed += static_cast<int64_t>(nodes - graph.order().size());
      check_bits(decisions, std::move(graph));
    }
  });
  EXPECT_TRUE(holds);
  EXPECT_GT(removed, 300) << "the passes found something to do";
  for (const char* pass : {"remove_noop_ops", "merge_linears", "gather_early", "add_rms_norm", "swiglu",
                           "remove_cat_ops", "eliminate_dead_code", "in_place", "input_in_place"}) {
    EXPECT_GT(matches[pass], 4) << pass;
  }
}

}  // namespace
}  // namespace reprise::compile
