// Methods with side streams, events and core limits through the compiler: traced, optimised, planned, run, captured.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "base/error.h"
#include "compile/executable.h"
#include "compile/pass_manager.h"
#include "compile/replacement.h"
#include "compile/test_methods.h"
#include "device/cpu/cpu_device.h"
#include "graph/stream_order.h"
#include "graph/text_parser.h"
#include "graph/text_writer.h"
#include "kernels/cpu/register_cpu_kernels.h"
#include "ops/eager_dispatcher.h"
#include "ops/scopes.h"

namespace reprise::compile {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The Error that a call throws.
template <typename Call>
Error error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::kInternal, "no error"};
}

class Streams : public ::testing::Test {
 protected:
  Streams() { kernels::cpu::register_cpu_kernels(registry_); }

  graph::Graph parse(const std::string& lines) const {
    const std::string head =
        "graph method {\n  symbol s0 tokens [1, 8]\n  symbol s1 sequences [1, 8]\n  input %x : float32[s0, 4]\n"
        "  input %w : float32[4]\n  stream a\n  stream b\n";
    return graph::parse(head + lines + "}\n", registry_);
  }
  /// The text behind one pass alone, and its refusals.
  std::string after(const std::string& pass, const std::string& lines) const {
    PassOptions options;
    for (const std::string& other : PassManager::standard(registry_).names()) {
      if (other != pass) options.disabled_passes.push_back(other);
    }
    graph::Graph graph = parse(lines);
    const std::vector<PassReport> reports = PassManager::standard(registry_, options).run(graph);
    std::string text = graph::to_text(graph);
    for (const std::string& refusal : reports[0].refusals) text += refusal + "\n";
    return text;
  }
  graph::Graph lowered(graph::Graph graph) const {
    PassManager::lowering(registry_).run(graph);
    return graph;
  }

  ops::Registry registry_ = ops::make_catalogue();
};

// Tracing.

TEST_F(Streams, TheTraceHoldsStreamsEventsAndLimitsWithTheirLines) {
  TracedStep step(registry_);
  Tensor y;
  {
    const auto side = ops::stream(step.context, "side");
    const auto limit = ops::limit_core_num(step.context, 2, 1);
    y = ops::silu(step.context, step.x);
    ops::record_event(step.context, "y");
  }
  ops::wait_event(step.context, "y");
  const Tensor z = ops::mul(step.context, y, y);
  std::string text = graph::to_text(step.tracer.finish({&z, 1}));
  EXPECT_THAT(text, HasSubstr("  stream side\n  %silu = silu(%x) : float32[s0, 4] on side limit(2, 1)  # stream_test"));
  EXPECT_THAT(text, HasSubstr("  record_event() {event = \"y\"} on side  # stream_test.cc:"));
  EXPECT_THAT(text, HasSubstr("  wait_event() {event = \"y\"}  # stream_test.cc:"));
}

TEST_F(Streams, AScopeThatIsOpenAtTheEndIsAGraphBreakWithItsLine) {
  std::unique_ptr<ops::StreamScope> late;
  {
    TracedStep step(registry_);
    late = std::make_unique<ops::StreamScope>(step.context, "side", std::source_location::current());
    const Tensor y = ops::silu(step.context, step.x);
    const Error error = error_of([&] { step.tracer.finish({&y, 1}); });
    EXPECT_EQ(error.code(), ErrorCode::kGraphBreak);
    EXPECT_THAT(error.what(), HasSubstr("stream_test.cc:"));
    EXPECT_THAT(error.what(), HasSubstr("still open"));
  }
  late->close();  // behind the tracer's end
}

TEST_F(Streams, ARaceInAMethodIsRefusedWithBothPlacesAndTheRemedy) {
  TracedStep step(registry_);
  const Tensor y = ops::silu(step.context, step.x);
  Tensor z;
  {
    const auto side = ops::stream(step.context, "side");
    z = ops::mul(step.context, y, y);
  }
  const Error error = error_of([&] { step.tracer.finish({&z, 1}); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("silu on the method's own stream makes"));
  EXPECT_THAT(error.what(), HasSubstr("mul on stream 'side' reads"));
  EXPECT_THAT(error.what(), HasSubstr("ops::wait_event"));
}

TEST_F(Streams, AWaitWithoutARecordIsRefused) {
  TracedStep step(registry_);
  ops::wait_event(step.context, "never");
  const Error error = error_of([&] { step.tracer.finish({&step.x, 1}); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("'never'"));
}

// Passes.

TEST_F(Streams, DeadCodeGoesAndEventsStay) {
  EXPECT_EQ(after("eliminate_dead_code",
                  "  %y = silu(%x) : float32[s0, 4] on a\n"
                  "  record_event() {event = \"y\"} on a\n"
                  "  wait_event() {event = \"y\"}\n"
                  "  return %x\n"),
            graph::to_text(parse("  record_event() {event = \"y\"} on a\n"
                                 "  wait_event() {event = \"y\"}\n"
                                 "  return %x\n")));
}

TEST_F(Streams, WhatRunsInPlaceIsProtectedByEventsFromOtherStreams) {
  const auto lines = [](const std::string& record, const std::string& wait, const std::string& use) {
    return "  %y = silu(%x) : float32[s0, 4]\n"
           "  record_event() {event = \"y\"}\n"
           "  wait_event() {event = \"y\"} on a\n"
           "  %z = mul(%y, %x) : float32[s0, 4] on a  # m.cc:4\n" +
           record + wait + "  %r = silu(%y) : float32[s0, 4]  # m.cc:7\n" + use + "  return %z, %r\n";
  };
  const std::string record = "  record_event() {event = \"z\"} on a\n";
  const std::string wait = "  wait_event() {event = \"z\"}\n";
  // The other stream's read may come at any time.
  EXPECT_THAT(after("in_place", lines("", "", "")),
              HasSubstr("m.cc:7: silu: m.cc:4: mul on stream 'a' touches %y with no event between them"));
  EXPECT_THAT(after("in_place", lines(record, "", "")), HasSubstr("with no event between them"));
  EXPECT_THAT(after("in_place", lines(record, "", wait)), HasSubstr("with no event between them"));
  EXPECT_THAT(after("in_place", lines(record, wait, "")), HasSubstr("silu_(%y)"));
  // Over a third stream.
  EXPECT_THAT(after("in_place", lines(record,
                                      "  wait_event() {event = \"z\"} on b\n"
                                      "  record_event() {event = \"further\"} on b\n"
                                      "  wait_event() {event = \"further\"}\n",
                                      "")),
              HasSubstr("silu_(%y)"));
}

TEST_F(Streams, AnInPlaceVariantStaysOnItsStreamUnderItsLimit) {
  EXPECT_THAT(after("in_place",
                    "  %y = silu(%x) : float32[s0, 4] on a\n"
                    "  %z = silu(%y) : float32[s0, 4] on a limit(2, 1)  # m.cc:2\n"
                    "  %r = mul(%z, %x) : float32[s0, 4] on a\n"
                    "  return %r\n"),
              HasSubstr("silu_(%y) on a limit(2, 1)  # m.cc:2"));
}

TEST_F(Streams, AnInputIsOverwrittenEarlierOnlyWhereNoOtherStreamLooks) {
  const auto lines = [](const std::string& before_the_result, const std::string& before_the_copy) {
    return "  %s = mul(%x, %x) : float32[s0, 4] on a  # m.cc:1\n"
           "  record_event() {event = \"s\"} on a\n" +
           before_the_result + "  %y = silu(%x) : float32[s0, 4]\n" + before_the_copy +
           "  copy_(%x, %y)\n  return %s\n";
  };
  const std::string wait = "  wait_event() {event = \"s\"}\n";
  EXPECT_THAT(after("input_in_place", lines(wait, "")), HasSubstr("silu_(%x)"));
  EXPECT_THAT(after("input_in_place", lines("", wait)),
              HasSubstr("m.cc:1: mul on stream 'a' touches %x with no event between them"));
}

TEST_F(Streams, PatternsMatchOnOneStreamUnderOneLimit) {
  const auto lines = [](const std::string& add, const std::string& between, const std::string& norm) {
    return "  %h = add(%x, %x) : float32[s0, 4]" + add + "  # m.cc:1\n" + between +
           "  %n = rms_norm(%h, %w) {epsilon = 1e-06} : float32[s0, 4]" + norm + "  # m.cc:3\n  return %n, %h\n";
  };
  const std::string record = "  record_event() {event = \"h\"}\n";
  EXPECT_THAT(after("add_rms_norm", lines("", "", "")), HasSubstr("add_rms_norm("));
  EXPECT_THAT(after("add_rms_norm", lines(" on a limit(2, 1)", "", " on a limit(2, 1)")),
              HasSubstr(" on a limit(2, 1)  # m.cc:3"));
  EXPECT_THAT(after("add_rms_norm", lines("", record + "  wait_event() {event = \"h\"} on a\n", " on a")),
              HasSubstr("m.cc:1: add is on the method's own stream, m.cc:3: rms_norm on stream 'a'"));
  EXPECT_THAT(after("add_rms_norm", lines("", "", " limit(2, 1)")), HasSubstr("have different core limits"));
  // Who waits for the event would wait for less, or the event for more.
  EXPECT_THAT(after("add_rms_norm", lines("", record, "")), HasSubstr("record_event on its stream stands between"));
}

TEST_F(Streams, ANoOperationGoesOnlyWhereItsUsersAreStillOrderedWithWrites) {
  const auto lines = [](const std::string& wait) {
    return "  %y = silu(%x) : float32[s0, 4]\n"
           "  record_event() {event = \"y\"}\n"
           "  wait_event() {event = \"y\"} on a\n"
           "  %c = copy(%y) : float32[s0, 4] on a  # m.cc:4\n"
           "  record_event() {event = \"c\"} on a\n"
           "  %z = mul(%c, %x) : float32[s0, 4] on a  # m.cc:6\n" +
           wait +
           "  silu_(%y)  # m.cc:9\n"
           "  return %z, %y\n";
  };
  // The copy is what keeps the product away from the write.
  EXPECT_THAT(after("remove_noop_ops", lines("  wait_event() {event = \"c\"}\n")),
              HasSubstr("m.cc:9: silu_ on the method's own stream overwrites %y with no event between them"));
  EXPECT_THAT(after("remove_noop_ops", lines("  record_event() {event = \"z\"} on a\n"
                                             "  wait_event() {event = \"z\"}\n")),
              HasSubstr("mul(%y, %x)"));
}

TEST_F(Streams, PartsOfACatMayComeFromSeveralStreams) {
  const std::string text = after("remove_cat_ops",
                                 "  %y = silu(%x) : float32[s0, 4] on a\n"
                                 "  record_event() {event = \"y\"} on a\n"
                                 "  %z = mul(%x, %x) : float32[s0, 4] on b\n"
                                 "  record_event() {event = \"z\"} on b\n"
                                 "  wait_event() {event = \"y\"}\n"
                                 "  wait_event() {event = \"z\"}\n"
                                 "  %c = cat(%y, %z, none, none, none, none, none, none) {axis = 0, placed = false} : "
                                 "float32[2*s0, 4]\n"
                                 "  return %c\n");
  EXPECT_THAT(text, HasSubstr("placed = true"));
}

TEST_F(Streams, PartsAreNotPlacedInACatThatIsOverwrittenWhileAnotherStreamMayLookAtThem) {
  EXPECT_THAT(after("remove_cat_ops",
                    "  %y = silu(%x) : float32[s0, 4]\n"
                    "  record_event() {event = \"y\"}\n"
                    "  wait_event() {event = \"y\"} on a\n"
                    "  %s = silu(%y) : float32[s0, 4] on a\n"
                    "  %z = mul(%x, %x) : float32[s0, 4]\n"
                    "  %c = cat(%y, %z, none, none, none, none, none, none) {axis = 0, placed = false} : "
                    "float32[2*s0, 4]\n"
                    "  silu_(%c)\n"
                    "  return %c, %s\n"),
              HasSubstr("the result is overwritten, and other streams may use an argument meanwhile"));
}

TEST_F(Streams, ReplacementsDoNotUseScopes) {
  ReplacementSet set(registry_);
  ReplacementRule rule;
  rule.name = "scoped";
  rule.tensors = {{"x", TensorMeta(DType::kF32, {4, 4})}};
  const auto plain = [](PatternContext& p) { return std::vector{ops::silu(p.context(), p["x"])}; };
  const auto scoped = [](PatternContext& p) {
    const auto limit = ops::limit_core_num(p.context(), 1);
    return std::vector{ops::silu(p.context(), p["x"])};
  };
  rule.pattern = scoped;
  rule.replacement = plain;
  const Error error = error_of([&] { set.add(rule); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("uses streams, events or core limits"));
  rule.pattern = plain;
  rule.replacement = scoped;
  set.add(rule);
  graph::Graph graph = parse("  %y = silu(%x) : float32[s0, 4]\n  return %y\n");
  EXPECT_THAT(set.run(graph).refusals, ElementsAre(HasSubstr("the replacement uses streams, events or core limits")));
}

TEST_F(Streams, APassThatMakesARaceIsFoundOut) {
  PassManager manager;
  manager.add({"drop_events", [](graph::Graph& graph) {
                 std::vector<graph::NodeId> events;
                 for (const graph::NodeId id : graph.order()) {
                   if (!graph::event_name(graph.node(id)).empty()) events.push_back(id);
                 }
                 graph.erase_nodes(events);
                 return PassResult{};
               }});
  graph::Graph graph = parse(
      "  %y = silu(%x) : float32[s0, 4]\n"
      "  record_event() {event = \"y\"}\n"
      "  wait_event() {event = \"y\"} on a\n"
      "  %z = silu(%y) : float32[s0, 4] on a\n"
      "  return %z\n");
  EXPECT_THAT(error_of([&] { manager.run(graph); }).what(), HasSubstr("drop_events"));
}

// Memory.

/// Two intermediates of the own stream and two of a side stream that no event orders with them.
constexpr const char* kBeside =
    "  %p = silu(%x) : float32[s0, 4]\n"
    "  %q = silu(%p) : float32[s0, 4]\n"
    "  %r = silu(%q) : float32[s0, 4]\n"
    "  %s = silu(%x) : float32[s0, 4] on a\n"
    "  %t = silu(%s) : float32[s0, 4] on a\n"
    "  record_event() {event = \"t\"} on a\n"
    "  wait_event() {event = \"t\"}\n"
    "  %y = add(%r, %t) : float32[s0, 4]\n"
    "  return %y\n";

TEST_F(Streams, WhatASideStreamTouchesSharesNoMemoryAndTheRestStillDoes) {
  const graph::Graph graph = lowered(parse(kBeside));
  const Executable executable(graph.clone(), "cpu", {8, 8});
  const auto device = device::cpu::create_cpu_device({.threads = 1});
  const auto arena = device->allocate(executable.arena_bytes());
  const Tensor inputs[] = {Tensor(TensorMeta(DType::kF32, {8, 4}), device->allocate(128)),
                           Tensor(TensorMeta(DType::kF32, {4}), device->allocate(16))};
  const int64_t symbols[] = {8, 1};
  // By the order of the list alone, s could lie where p was: both are done with by then.
  const std::vector<size_t>& offsets = executable.memory_plan().offsets;  // of p, q, r, s, t, y
  ASSERT_EQ(offsets.size(), 6u);
  EXPECT_EQ(std::count(offsets.begin(), offsets.end(), offsets[3]), 1);
  EXPECT_EQ(std::count(offsets.begin(), offsets.end(), offsets[4]), 1);
  EXPECT_EQ(executable.arena_bytes(), 4 * 128u);
  const auto bound = executable.bind(symbols, arena, inputs);
  EXPECT_EQ(bound->size(), 12);  // six launches, and record and wait of fork, event and join
  graph::Graph sequential = graph.clone();
  for (const graph::NodeId id : sequential.order()) sequential.mutable_node(id).stream = 0;
  EXPECT_EQ(Executable(std::move(sequential), "cpu", {8, 8}).arena_bytes(), 3 * 128u);
}

TEST_F(Streams, AGraphThatWasNotLoweredIsRefused) {
  const Error open = error_of([&] { Executable(parse(kBeside), "cpu", {8, 8}); });
  EXPECT_EQ(open.code(), ErrorCode::kFailedPrecondition);
  EXPECT_THAT(open.what(), HasSubstr("stream 'a' is not forked"));
  graph::Graph limited = parse("  %y = silu(%x) : float32[s0, 4] limit(1, 0)  # m.cc:1\n  return %y\n");
  EXPECT_THAT(error_of([&] { Executable(limited.clone(), "cpu", {8, 8}); }).what(),
              HasSubstr("m.cc:1: silu has a core limit that nothing sets"));
}

// Running.

/// Every result of a method, bit by bit, each way of running it.
class RunStreams : public Streams, public ::testing::WithParamInterface<int> {
 protected:
  using Method = std::function<Tensor(ops::ForwardContext&, const Tensor&)>;

  RunStreams() : device_(device::cpu::create_cpu_device({.threads = GetParam()})) {
    stream_ = device_->create_stream({0, "main"});
    const TensorMeta meta(DType::kF32, {8, 4});
    x_ = Tensor(meta, device_->allocate(meta.contiguous_bytes()));
    for (int i = 0; i < 32; ++i) x_.data_as<float>()[i] = static_cast<float>(i * 37 % 29) / 7.0f - 2.0f;
  }

  std::vector<float> values(const Tensor& tensor) {
    stream_->synchronize();
    return {tensor.data_as<float>(), tensor.data_as<float>() + tensor.shape().elements()};
  }
  std::vector<float> eager(const Method& method) {
    ops::EagerDispatcher dispatcher(registry_, *device_, *stream_);
    ops::ForwardContext context(dispatcher);
    const Tensor y = method(context, x_);
    dispatcher.finish_method();
    return values(y);
  }
  graph::Graph trace(const Method& method) {
    TracedStep step(registry_);
    const Tensor y = method(step.context, step.x);
    return step.tracer.finish({&y, 1});
  }
  std::unique_ptr<BoundGraph> bind(graph::Graph graph) {
    executable_ = std::make_unique<Executable>(std::move(graph), "cpu", std::vector<int64_t>{8, 8});
    arena_ = device_->allocate(std::max<size_t>(executable_->arena_bytes(), kAlignment));
    device_->fill(arena_->data(), 0xFF, arena_->bytes());
    const int64_t symbols[] = {8, 1};
    return executable_->bind(symbols, arena_, {&x_, 1});
  }
  std::vector<float> run(BoundGraph& bound) {
    device_->fill(arena_->data(), 0xFF, arena_->bytes());
    bound.run(*stream_, {});
    return values(bound.outputs()[0]);
  }
  std::unique_ptr<device::CapturedGraph> capture(BoundGraph& bound) {
    stream_->begin_capture(device::CaptureMode::kThreadLocal);
    bound.run(*stream_, {});
    return stream_->end_capture();
  }
  std::vector<float> replay(device::CapturedGraph& captured, BoundGraph& bound) {
    device_->fill(arena_->data(), 0xFF, arena_->bytes());
    captured.replay(*stream_);
    return values(bound.outputs()[0]);
  }

  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<Executable> executable_;
  std::shared_ptr<Storage> arena_;
  Tensor x_;
};

/// Streams that hand values to each other, one that is never joined by the method, and core limits on both.
Tensor two_streams(ops::ForwardContext& context, const Tensor& x) {
  Tensor a = ops::silu(context, x);
  ops::record_event(context, "a");
  Tensor side_sum, unjoined;
  {
    const auto side = ops::stream(context, "side");
    const auto limit = ops::limit_core_num(context, 1);
    ops::wait_event(context, "a");
    Tensor s = ops::mul(context, a, x);
    for (int i = 0; i < 5; ++i) s = ops::silu(context, ops::add(context, s, a));
    side_sum = s;
    ops::record_event(context, "side_sum");
    const auto third = ops::stream(context, "third");
    unjoined = ops::silu(context, x);
    ops::record_event(context, "third");
  }
  const auto limit = ops::limit_core_num(context, 1);
  Tensor b = a;
  for (int i = 0; i < 5; ++i) b = ops::mul(context, ops::silu(context, b), x);
  ops::wait_event(context, "side_sum");
  b = ops::add(context, b, side_sum);
  ops::wait_event(context, "third");
  const Tensor parts[] = {b, unjoined};
  return ops::cat(context, parts, 0);
}

TEST_P(RunStreams, EagerNodeByNodeCapturedAndReplayedGiveTheSameBits) {
  const std::vector<float> expected = eager(two_streams);
  ASSERT_EQ(expected.size(), 64u);
  for (const float value : expected) ASSERT_TRUE(std::isfinite(value));
  EXPECT_EQ(eager(two_streams), expected);
  for (const bool optimised : {false, true}) {
    graph::Graph graph = trace(two_streams);
    (optimised ? PassManager::standard(registry_, {.device = "cpu"}) : PassManager::lowering(registry_)).run(graph);
    const auto bound = bind(std::move(graph));
    EXPECT_EQ(run(*bound), expected);
    const auto captured = capture(*bound);
    EXPECT_EQ(captured->statistics().streams, 3);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(replay(*captured, *bound), expected);
      EXPECT_EQ(run(*bound), expected);
    }
    // Two captures of one graph differ in nothing.
    EXPECT_EQ(capture(*bound)->hash(true), captured->hash(true));
  }
}

TEST_P(RunStreams, AStreamThatTheMethodDoesNotJoinIsJoined) {
  const Method method = [](ops::ForwardContext& context, const Tensor& x) {
    const auto side = ops::stream(context, "side");
    return ops::silu(context, x);
  };
  const auto bound = bind(lowered(trace(method)));
  const auto captured = capture(*bound);
  EXPECT_EQ(replay(*captured, *bound), eager(method));
}

TEST_P(RunStreams, LimitsAreFrozenIntoLaunchesAndTheStreamKeepsItsOwn) {
  const Method method = [](ops::ForwardContext& context, const Tensor& x) {
    Tensor y = ops::silu(context, x);
    {
      const auto limit = ops::limit_core_num(context, 1);
      y = ops::mul(context, y, x);
    }
    return ops::silu(context, y);
  };
  const std::vector<float> expected = eager(method);
  const auto bound = bind(lowered(trace(method)));
  stream_->set_core_limit({GetParam(), 0});
  const auto captured = capture(*bound);
  EXPECT_EQ(stream_->core_limit(), (device::CoreLimit{GetParam(), 0}));
  EXPECT_EQ(replay(*captured, *bound), expected);
  EXPECT_EQ(run(*bound), expected);
  EXPECT_EQ(stream_->core_limit(), (device::CoreLimit{GetParam(), 0}));
  std::vector<std::string> limits;
  const std::string text = captured->to_text();
  for (size_t place = text.find("threads="); place != std::string::npos; place = text.find("threads=", place + 1)) {
    limits.push_back(text.substr(place + 8, text.find_first_of(" \n,)", place) - place - 8));
  }
  const std::string own = std::to_string(GetParam());
  EXPECT_THAT(limits, ElementsAre(own, "1", own)) << text;
}

TEST_P(RunStreams, ALimitAboveTheDevicesCoresIsRefusedWithItsLineWhenItRuns) {
  const auto bound = bind(lowered(trace([](ops::ForwardContext& context, const Tensor& x) {
    const auto limit = ops::limit_core_num(context, 99);
    return ops::silu(context, x);
  })));
  const Error error = error_of([&] { bound->run(*stream_, {}); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("stream_test.cc:"));
  EXPECT_THAT(error.what(), HasSubstr("99"));
  // During a capture as well; the stream is usable again.
  stream_->begin_capture(device::CaptureMode::kThreadLocal);
  EXPECT_EQ(error_of([&] { bound->run(*stream_, {}); }).code(), ErrorCode::kInvalidArgument);
  stream_->end_capture();
  stream_->synchronize();
}

TEST_P(RunStreams, APieceOfAGraphWithSideStreamsIsRefused) {
  const auto bound = bind(lowered(trace(two_streams)));
  const Error error = error_of([&] { bound->run(*stream_, {}, nullptr, 0, 2); });
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(error.what(), HasSubstr("side streams ('side')"));
}

TEST_P(RunStreams, BehindAFailedRunTheStreamWaitsForWhatTheSideStreamsHaveQueued) {
  registry_.get("mul").set_kernel(
      "cpu", {.run = [](const ops::OpCall&) { throw Error(ErrorCode::kInternal, "a fault half way"); }});
  const auto bound = bind(lowered(trace([](ops::ForwardContext& context, const Tensor& x) {
    const auto side = ops::stream(context, "side");
    const Tensor y = ops::silu(context, x);
    ops::copy_(context, x, ops::mul(context, x, x));
    return y;
  })));
  EXPECT_EQ(error_of([&] { bound->run(*stream_, {}); }).message(), "a fault half way");
  for (const float value : values(bound->outputs()[0])) EXPECT_TRUE(std::isfinite(value));
}

TEST_P(RunStreams, APieceBeginsUnderTheLimitThatIsInForce) {
  graph::Graph graph = lowered(trace([](ops::ForwardContext& context, const Tensor& x) {
    const auto limit = ops::limit_core_num(context, 1);
    return ops::silu(context, ops::mul(context, x, x));
  }));
  const auto bound = bind(std::move(graph));
  ASSERT_EQ(bound->size(), 4);  // set, mul, silu, set back
  stream_->begin_capture(device::CaptureMode::kThreadLocal);
  bound->run(*stream_, {}, nullptr, 2, 4);
  const std::string text = stream_->end_capture()->to_text();
  EXPECT_THAT(text, HasSubstr("threads=1"));
  EXPECT_EQ(stream_->core_limit(), device::CoreLimit{});
}

INSTANTIATE_TEST_SUITE_P(Threads, RunStreams, ::testing::Values(1, 2, 5));

}  // namespace
}  // namespace reprise::compile
