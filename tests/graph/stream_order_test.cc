#include "graph/stream_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/alias.h"
#include "graph/dot.h"
#include "graph/hash.h"
#include "graph/text_parser.h"
#include "graph/text_writer.h"
#include "graph/verify.h"

namespace reprise::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StreamOrderTest : public ::testing::Test {
 protected:
  /// A graph of two inputs and two side streams.
  Graph graph_of(const std::string& lines) const {
    const std::string head =
        "graph method {\n  input %x : float32[4, 4]\n  input %cache : float32[4, 4]\n  stream a\n  stream b\n";
    return parse(head + lines + "}\n", registry_);
  }
  std::string fault_of(const std::string& lines) const {
    try {
      graph_of(lines);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  ops::Registry registry_ = ops::make_catalogue();
};

constexpr const char* kProtected =
    "  %y = silu(%x) : float32[4, 4]  # m.cc:1\n"
    "  record_event() {event = \"y\"}  # m.cc:2\n"
    "  wait_event() {event = \"y\"} on a  # m.cc:3\n"
    "  %z = mul(%y, %y) : float32[4, 4] on a limit(2, 1)  # m.cc:4\n"
    "  return %z\n";

TEST_F(StreamOrderTest, TextKeepsStreamsAndLimits) {
  const Graph graph = graph_of(kProtected);
  EXPECT_EQ(to_text(parse(to_text(graph), registry_)), to_text(graph));
  EXPECT_THAT(to_text(graph), HasSubstr("  %z = mul(%y, %y) : float32[4, 4] on a limit(2, 1)  # m.cc:4\n"));
  EXPECT_THAT(to_dot(graph), HasSubstr("on stream 'a'\\nlimit(2, 1)"));
  EXPECT_EQ(to_text(graph.clone()), to_text(graph));
}

TEST_F(StreamOrderTest, TextWithFaultsInStreamsIsRefusedWithThePlace) {
  EXPECT_THAT(fault_of("  %y = silu(%x) : float32[4, 4] on c\n  return\n"), HasSubstr("6:36: stream 'c'"));
  EXPECT_THAT(fault_of("  stream a\n  return\n"), HasSubstr("6:10: there is a stream 'a' already"));
  EXPECT_THAT(fault_of("  %y = silu(%x) : float32[4, 4] limit(0, 1)\n  return\n"), HasSubstr("6:39"));
  EXPECT_THAT(fault_of("  %y = silu(%x) : float32[4, 4] limit(1)\n  return\n"), HasSubstr("expected ','"));
}

TEST_F(StreamOrderTest, TheHashKnowsStreamsAndLimitsButNotTheNamesOfStreams) {
  const auto hash = [&](const std::string& lines) { return structural_hash(graph_of(lines)); };
  const auto node = [](const std::string& end) { return "  %y = silu(%x) : float32[4, 4]" + end + "\n  return %y\n"; };
  EXPECT_NE(hash(node("")), hash(node(" on a")));
  EXPECT_NE(hash(node("")), hash(node(" limit(1, 0)")));
  EXPECT_NE(hash(node(" limit(1, 0)")), hash(node(" limit(2, 0)")));
  EXPECT_EQ(hash(node(" on a")), hash(node(" on b")));
  const auto two = [](const std::string& first, const std::string& second) {
    return "  %y = silu(%x) : float32[4, 4] on " + first + "\n  %z = silu(%x) : float32[4, 4] on " + second +
           "\n  return %y, %z\n";
  };
  EXPECT_NE(hash(two("a", "b")), hash(two("a", "a")));
  EXPECT_EQ(hash(two("a", "b")), hash(two("b", "a")));
}

TEST_F(StreamOrderTest, AnEventOrdersWhatIsBeforeItsRecordWithWhatIsBehindItsWait) {
  const Graph graph = graph_of(kProtected);
  const StreamOrder order(graph);
  const std::vector<NodeId>& nodes = graph.order();
  EXPECT_TRUE(order.before(nodes[0], nodes[3]));
  EXPECT_FALSE(order.before(nodes[3], nodes[0]));
  EXPECT_FALSE(order.before(nodes[0], nodes[0]));
  EXPECT_TRUE(order.before(nodes[2], nodes[3]));
}

TEST_F(StreamOrderTest, EventsAreFollowedOverSeveralStreams) {
  EXPECT_EQ(fault_of("  %y = silu(%x) : float32[4, 4]\n"
                     "  record_event() {event = \"y\"}\n"
                     "  wait_event() {event = \"y\"} on a\n"
                     "  record_event() {event = \"further\"} on a\n"
                     "  wait_event() {event = \"further\"} on b\n"
                     "  %z = mul(%y, %y) : float32[4, 4] on b\n"
                     "  return %z\n"),
            "");
}

TEST_F(StreamOrderTest, AValueOfAnotherStreamWithoutAnEventIsARace) {
  const std::string race = fault_of(
      "  %y = silu(%x) : float32[4, 4]  # m.cc:1\n"
      "  %z = mul(%y, %y) : float32[4, 4] on a  # m.cc:2\n"
      "  return %z\n");
  EXPECT_THAT(race,
              HasSubstr("m.cc:1: silu on the method's own stream makes %y, and m.cc:2: mul on stream 'a' reads it "
                        "with no event between them"));
  // A record in front of the value, or a wait behind its use, does not help.
  EXPECT_NE(fault_of("  record_event() {event = \"y\"}\n"
                     "  %y = silu(%x) : float32[4, 4]\n"
                     "  wait_event() {event = \"y\"} on a\n"
                     "  %z = mul(%y, %y) : float32[4, 4] on a\n"
                     "  return %z\n"),
            "");
  EXPECT_NE(fault_of("  %y = silu(%x) : float32[4, 4]\n"
                     "  record_event() {event = \"y\"}\n"
                     "  %z = mul(%y, %y) : float32[4, 4] on a\n"
                     "  wait_event() {event = \"y\"} on a\n"
                     "  return %z\n"),
            "");
}

TEST_F(StreamOrderTest, AWaitMeansTheLastRecordInFrontOfIt) {
  EXPECT_NE(fault_of("  %y = silu(%x) : float32[4, 4]\n"
                     "  record_event() {event = \"e\"}\n"
                     "  record_event() {event = \"e\"} on b\n"
                     "  wait_event() {event = \"e\"} on a\n"
                     "  %z = mul(%y, %y) : float32[4, 4] on a\n"
                     "  return %z\n"),
            "");
}

TEST_F(StreamOrderTest, WritesRaceWithReadsOnOtherStreamsUserBeforeOrBehind) {
  const std::string head = "  copy_(%cache, %x)  # m.cc:1\n";
  EXPECT_THAT(fault_of(head + "  %z = silu(%cache) : float32[4, 4] on a  # m.cc:2\n  return %z\n"),
              HasSubstr("copy_ on the method's own stream writes %cache, and m.cc:2"));
  EXPECT_THAT(fault_of("  %z = silu(%cache) : float32[4, 4] on a  # m.cc:2\n" + head + "  return %z\n"),
              HasSubstr("reads %cache, and m.cc:1: copy_ on the method's own stream writes it"));
  EXPECT_EQ(fault_of("  %z = silu(%cache) : float32[4, 4] on a\n"
                     "  record_event() {event = \"read\"} on a\n"
                     "  wait_event() {event = \"read\"}\n" +
                     head + "  return %z\n"),
            "");
  // Reading together is fine.
  EXPECT_EQ(fault_of("  %y = silu(%x) : float32[4, 4] on a\n  %z = silu(%x) : float32[4, 4]\n  return %y, %z\n"), "");
}

TEST_F(StreamOrderTest, ViewsTouchNothingButWhatUsesThemDoes) {
  const std::string view =
      "  %y = silu(%x) : float32[4, 4]\n"
      "  %v = reshape(%y) {shape = [16]} : float32[16] on a\n";
  EXPECT_EQ(fault_of(view + "  return %v\n"), "");
  EXPECT_THAT(fault_of(view + "  %z = silu(%v) : float32[16] on a\n  return %z\n"),
              HasSubstr("reads it with no event"));
}

TEST_F(StreamOrderTest, AnEventThatNothingRecordsIsNamed) {
  EXPECT_THAT(fault_of("  wait_event() {event = \"never\"}  # m.cc:7\n  return\n"),
              HasSubstr("m.cc:7: wait_event waits for the event 'never', which is not recorded before it"));
}

TEST_F(StreamOrderTest, TheErrorForMethodsHasTheRemedy) {
  Graph graph("method");
  const ValueId x = graph.add_input("x", TensorMeta(DType::kF32, {4}));
  const NodeId y = graph.add_node(registry_.get("silu"), {{x}, {}, {}, "m.cc:1"});
  graph.add_node(registry_.get("silu"), {{graph.output_of(y)}, {}, {}, "m.cc:2", graph.add_stream("a")});
  try {
    check_streams(graph);
    ADD_FAILURE() << "a race was not found";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("ops::record_event"));
  }
  EXPECT_THAT(faults(graph), ElementsAre(HasSubstr("no event")));
  graph.mutable_node(y).stream = 3;
  EXPECT_THAT(faults(graph), ElementsAre(HasSubstr("is on stream 3, the graph has 1 side streams")));
}

TEST_F(StreamOrderTest, NothingMovesAcrossAnEventOfItsStream) {
  Graph graph = graph_of(
      "  %y = silu(%x) : float32[4, 4]\n"
      "  record_event() {event = \"y\"}\n"
      "  %p = mul(%x, %x) : float32[4, 4]\n"
      "  %q = mul(%x, %x) : float32[4, 4] on a\n"
      "  return %y, %p, %q\n");
  const std::vector<NodeId> nodes = graph.order();
  EXPECT_THAT(move_hazard(graph, nodes[2], nodes[0]), HasSubstr("record_event on its stream stands between"));
  EXPECT_EQ(move_hazard(graph, nodes[3], nodes[0]), "");
  graph.move_before(nodes[3], nodes[0]);
  EXPECT_THAT(faults(graph), IsEmpty());
}

}  // namespace
}  // namespace reprise::graph
