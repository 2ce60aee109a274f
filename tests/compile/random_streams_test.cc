// Random methods of three streams: eager, node by node, captured and replayed they give the same bits, with and without
// the passes; and whatever two launches may run at the same time by streams and events share no memory that one of them
// writes.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "compile/executable.h"
#include "compile/pass_manager.h"
#include "compile/tracer.h"
#include "device/cpu/cpu_device.h"
#include "graph/alias.h"
#include "graph/stream_order.h"
#include "graph/text_writer.h"
#include "kernels/cpu/register_cpu_kernels.h"
#include "ops/copies.h"
#include "ops/eager_dispatcher.h"
#include "ops/elementwise.h"
#include "ops/scopes.h"
#include "ops/views.h"

namespace reprise::compile {
namespace {

constexpr int64_t kStreamRows = 8;
constexpr int64_t kStreamColumns = 16;
constexpr int kStreams = 3;
const TensorMeta kMeta(DType::kF32, {kStreamRows, kStreamColumns});

/// One method, the same each time it is called: which operators, on which streams, with the events that they need.
class RandomMethod {
 public:
  RandomMethod(uint32_t seed, int operators) : seed_(seed), operators_(operators) {}

  /// `x` is overwritten now and then.
  std::vector<Tensor> operator()(ops::ForwardContext& context, const Tensor& x) {
    random_.seed(seed_);
    memories_ = {Memory{}};
    values_ = {{x, 0}};
    events_ = 0;
    for (int i = 0; i < operators_; ++i) step(context);
    // What is returned must not share memory with anything else that is returned.
    std::vector<Tensor> results;
    on_stream(context, 0, [&] {
      for (int i = 0; i < 2; ++i) {
        const Value value = pick();
        wait_for(context, memories_[value.memory].writer, 0);
        results.push_back(ops::add(context, value.tensor, value.tensor));
      }
    });
    return results;
  }

 private:
  /// An event behind an operator, and the stream that it was recorded on.
  struct Done {
    int stream = 0;
    std::string event;
  };
  /// What was done to the memory of one or several values.
  struct Memory {
    Done writer;
    std::vector<Done> readers;
  };
  struct Value {
    Tensor tensor;
    size_t memory;
  };

  size_t below(size_t count) { return random_() % count; }
  /// The newest ones more often.
  Value pick() { return values_[values_.size() - 1 - std::min(below(values_.size()), below(values_.size()))]; }

  template <typename Body>
  void on_stream(ops::ForwardContext& context, int stream, Body&& body) {
    if (stream == 0) return body();
    const auto scope = ops::stream(context, stream == 1 ? "one" : "two");
    body();
  }
  void wait_for(ops::ForwardContext& context, const Done& done, int stream) const {
    if (!done.event.empty() && done.stream != stream) ops::wait_event(context, done.event);
  }
  Done record(ops::ForwardContext& context, int stream) {
    const Done done{stream, "e" + std::to_string(events_++)};
    ops::record_event(context, done.event);
    return done;
  }
  void read(ops::ForwardContext& context, const Value& value, int stream) const {
    wait_for(context, memories_[value.memory].writer, stream);
  }
  void add_value(Tensor tensor, const Done& done) {
    memories_.push_back({done, {}});
    values_.push_back({std::move(tensor), memories_.size() - 1});
  }

  void step(ops::ForwardContext& context) {
    const int stream = static_cast<int>(below(kStreams));
    on_stream(context, stream, [&] {
      if (below(4) == 0) {
        const auto limit = ops::limit_core_num(context, 1);
        operate(context, stream);
      } else {
        operate(context, stream);
      }
    });
  }

  void operate(ops::ForwardContext& context, int stream) {
    const Value a = pick();
    const Value b = pick();
    const size_t kind = below(8);
    if (kind == 0) {  // a view, which needs no event
      values_.push_back({ops::reshape(context, a.tensor, {kStreamRows, kStreamColumns}), a.memory});
      return;
    }
    if (kind == 1 && a.memory != b.memory) return overwrite(context, stream, a, b);
    read(context, a, stream);
    if (kind != 2 && kind != 3) read(context, b, stream);
    Tensor result;
    if (kind == 2) {
      result = ops::copy(context, a.tensor);
    } else if (kind == 3) {
      result = ops::silu(context, a.tensor);
    } else if (kind == 4) {
      const Tensor parts[] = {a.tensor, b.tensor};
      result = ops::slice(context, ops::cat(context, parts, 0), 0, kStreamRows / 2, kStreamRows / 2 + kStreamRows);
    } else if (kind == 5) {
      result = ops::mul(context, a.tensor, b.tensor);
    } else {
      result = ops::silu(context, ops::add(context, a.tensor, b.tensor));
    }
    const Done done = record(context, stream);
    memories_[a.memory].readers.push_back(done);
    memories_[b.memory].readers.push_back(done);
    add_value(result, done);
  }

  void overwrite(ops::ForwardContext& context, int stream, const Value& a, const Value& b) {
    read(context, a, stream);
    read(context, b, stream);
    Memory& memory = memories_[a.memory];
    for (const Done& reader : memory.readers) wait_for(context, reader, stream);
    if (below(2) == 0) {
      ops::add_(context, a.tensor, b.tensor);
    } else {
      ops::copy_(context, a.tensor, b.tensor);
    }
    memory.writer = record(context, stream);
    memory.readers.clear();
    memories_[b.memory].readers.push_back(memory.writer);
  }

  uint32_t seed_;
  int operators_;
  std::mt19937 random_;
  std::vector<Memory> memories_;
  std::vector<Value> values_;
  int events_ = 0;
};

/// What a launch reads and writes.
struct Launch {
  std::string op;
  std::vector<graph::MemoryRange> reads, writes;
};
std::vector<Launch> launches;

void note_launch(const ops::OpCall& call) {
  Launch launch{call.op.name(), {}, {}};
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const auto range = graph::memory_range(call.inputs[i]);
    if (!range) continue;
    (call.op.schema().tensors[i].mutated ? launch.writes : launch.reads).push_back(*range);
  }
  for (const Tensor& output : call.outputs) launch.writes.push_back(*graph::memory_range(output));
  launches.push_back(std::move(launch));
}

bool overlap(const std::vector<graph::MemoryRange>& a, const std::vector<graph::MemoryRange>& b) {
  for (const graph::MemoryRange& one : a) {
    for (const graph::MemoryRange& other : b) {
      if (one.begin < other.end && other.begin < one.end) return true;
    }
  }
  return false;
}

class RandomStreams : public ::testing::TestWithParam<int> {
 protected:
  RandomStreams() : device_(device::cpu::create_cpu_device({.threads = GetParam()})) {
    kernels::cpu::register_cpu_kernels(registry_);
    for (const ops::OpDef* op : registry_.list()) {
      if (op->kernel("cpu") == nullptr) continue;
      ops::OpKernel kernel = *op->kernel("cpu");
      kernel.run = note_launch;
      registry_.get(op->name()).set_kernel("notes", kernel);
    }
    stream_ = device_->create_stream();
    x_ = Tensor(kMeta, device_->allocate(kMeta.contiguous_bytes()));
  }

  void reset_input() {
    for (int64_t i = 0; i < kStreamRows * kStreamColumns; ++i) {
      x_.data_as<float>()[i] = static_cast<float>(i * 37 % 101) / 32.0f - 1.5f;
    }
  }
  /// Bits of the results and of the input.
  std::vector<std::byte> seen(std::span<const Tensor> results) {
    stream_->synchronize();
    std::vector<std::byte> bytes;
    const auto add = [&](const Tensor& tensor) {
      const auto* data = static_cast<const std::byte*>(tensor.data());
      bytes.insert(bytes.end(), data, data + tensor.meta().contiguous_bytes());
    };
    for (const Tensor& result : results) add(result);
    add(x_);
    return bytes;
  }
  std::vector<std::byte> eager(RandomMethod& method) {
    reset_input();
    ops::EagerDispatcher dispatcher(registry_, *device_, *stream_);
    ops::ForwardContext context(dispatcher);
    const std::vector<Tensor> results = method(context, x_);
    dispatcher.finish_method();
    return seen(results);
  }
  graph::Graph trace(RandomMethod& method) {
    Tracer tracer(registry_, "method");
    const Tensor x = tracer.input("x", kMeta);
    ops::ForwardContext context(tracer);
    return tracer.finish(method(context, x));
  }
  /// Node by node, then replayed twice.
  std::vector<std::vector<std::byte>> runs(const graph::Graph& graph) {
    const Executable executable(graph.clone(), "cpu", {});
    const auto arena = device_->allocate(std::max<size_t>(executable.arena_bytes(), kAlignment));
    const auto bound = executable.bind({}, arena, {&x_, 1});
    std::vector<std::vector<std::byte>> result;
    std::unique_ptr<device::CapturedGraph> captured;
    for (int i = 0; i < 3; ++i) {
      reset_input();
      device_->fill(arena->data(), 0xFF, arena->bytes());
      if (i == 0) {
        bound->run(*stream_, {});
      } else {
        captured->replay(*stream_);
      }
      result.push_back(seen(bound->outputs()));
      if (i > 0) continue;
      stream_->begin_capture(device::CaptureMode::kThreadLocal);
      bound->run(*stream_, {});
      captured = stream_->end_capture();
    }
    return result;
  }
  /// Pairs of launches that share memory. Each must be ordered.
  size_t check_memory(const graph::Graph& graph) {
    const Executable executable(graph.clone(), "notes", {});
    const auto arena = device_->allocate(std::max<size_t>(executable.arena_bytes(), kAlignment));
    launches.clear();
    executable.bind({}, arena, {&x_, 1})->run(*stream_, {});
    stream_->synchronize();
    std::vector<graph::NodeId> nodes;
    const auto placed = placements(graph);
    for (const graph::NodeId id : graph.order()) {
      const graph::Node& node = graph.node(id);
      if (node.op->traits().view || node.op->traits().control) continue;
      if (is_placed_cat(node) && placed[static_cast<size_t>(node.inputs[0])].value_or(Placement{}).cat == id) continue;
      nodes.push_back(id);
    }
    EXPECT_EQ(nodes.size(), launches.size());
    const graph::StreamOrder order(graph);
    size_t shared = 0;
    for (size_t j = 0; j < launches.size(); ++j) {
      EXPECT_EQ(graph.node(nodes[j]).op->name(), launches[j].op);
      for (size_t i = 0; i < j; ++i) {
        if (!overlap(launches[i].writes, launches[j].writes) && !overlap(launches[i].writes, launches[j].reads) &&
            !overlap(launches[i].reads, launches[j].writes)) {
          continue;
        }
        ++shared;
        EXPECT_TRUE(order.before(nodes[i], nodes[j]))
            << graph::to_text(graph, nodes[i]) << " and " << graph::to_text(graph, nodes[j]);
      }
    }
    return shared;
  }

  ops::Registry registry_ = ops::make_catalogue();
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  Tensor x_;
};

TEST_P(RandomStreams, GiveTheSameBitsInEveryWayOfRunningThem) {
  int64_t rewrites = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    RandomMethod method(seed, 6 + static_cast<int>(seed % 20));
    const std::vector<std::byte> expected = eager(method);
    for (const bool optimised : {false, true}) {
      graph::Graph graph = trace(method);
      const auto reports =
          (optimised ? PassManager::standard(registry_, {.device = "cpu"}) : PassManager::lowering(registry_))
              .run(graph);
      for (const PassReport& report : reports) {
        if (report.pass == "in_place" || report.pass == "remove_cat_ops" || report.pass == "remove_noop_ops") {
          rewrites += report.matches;
        }
      }
      SCOPED_TRACE(fmt::format("seed {}\n{}", seed, graph::to_text(graph)));
      for (const auto& got : runs(graph)) ASSERT_TRUE(got == expected);
      check_memory(graph);
      if (HasFailure()) return;
    }
  }
  // The passes have had something to do, and memory is shared where it may be.
  EXPECT_GT(rewrites, 40);
}

INSTANTIATE_TEST_SUITE_P(Threads, RandomStreams, ::testing::Values(1, 2, 5));

}  // namespace
}  // namespace reprise::compile
