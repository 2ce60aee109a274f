#include "reprise/library.h"

#include "api/library_test_support.h"

namespace reprise {
namespace {

TEST(Library, EagerCallsPrepareWhatMethodsUse) {
  Library library = Library::open("cpu", 2);
  ops::ForwardContext eager = library.eager();
  const Tensor weight = random_tensor(library, {16, 8}, 1);
  const Tensor packed = ops::pack_linear_weight(eager, weight);
  EXPECT_FALSE(packed.format().is_plain());
  const auto product = [](Context& context, Tensor x, Parameter w) { return ops::linear(context, x, {.weight = w}); };
  auto method = library.compile(product);
  const Tensor x = random_tensor(library, {3, 8}, 2);
  const Tensor expected = ops::linear(eager, x, {.weight = packed});
  EXPECT_EQ(bits(library, method(x, packed)), bits(library, expected));
}

TEST(Library, ALaterOperatorIsKnownToEagerCalls) {
  Library library = Library::open("cpu", 1);
  ops::ForwardContext eager = library.eager();
  const Tensor x = random_tensor(library, {2, 4});
  ops::silu(eager, x);
  const ops::OpDef& silu = library.registry().get("silu");
  const ops::OpKernel kernel = *silu.kernel("cpu");
  const auto infer = [](const ops::OpCall& call, std::span<TensorMeta> outputs) { outputs[0] = call.inputs[0].meta(); };
  library.register_operator(ops::OpDef("swish(Tensor x) -> Tensor y", {}, infer, silu.reference()))
      .set_kernel("cpu", kernel);
  const Tensor y = ops::dispatch_call(eager, "swish", {x}, {}, {}, std::source_location::current());
  EXPECT_EQ(bits(library, y), bits(library, ops::silu(eager, x)));
}

TEST(Library, IntegersComeBackAsTheyWereGiven) {
  const Library library = Library::open("cpu", 1);
  const std::vector<int32_t> values = {3, -1, 0, 7, 2147483647, 5};
  const Tensor tensor = library.from_integers({2, 3}, values);
  EXPECT_EQ(tensor.dtype(), DType::kI32);
  EXPECT_EQ(library.to_integers(tensor), values);
  const std::string wrong = error_of(ErrorCode::kInvalidArgument, [&] { library.to_floats(tensor); });
  EXPECT_NE(wrong.find("int32[2, 3] is not float32"), std::string::npos) << wrong;
  error_of(ErrorCode::kInvalidArgument, [&] { library.from_integers({2, 4}, values); });
}

TEST(Library, ExplainGivesGuardsOfEveryTraceOnce) {
  Library library = Library::open("cpu", 1);
  MethodOptions options;
  options.argument_names = {"x", "twice"};
  auto method = library.compile(
      [](Context& context, Tensor x, bool twice) { return twice ? ops::add(context, x, x) : ops::silu(context, x); },
      options);
  method(random_tensor(library, {2, 4}), false);
  method(random_tensor(library, {2, 4}), true);
  const std::string text = method.explain();
  const size_t shared = text.find("x.dtype == float32");
  ASSERT_NE(shared, std::string::npos) << text;
  EXPECT_EQ(text.find("x.dtype == float32", shared + 1), std::string::npos) << text;
  EXPECT_LT(text.find("guards of every trace:"), shared);
  EXPECT_LT(text.find("trace 0:"), text.find("twice == false"));
  EXPECT_LT(text.find("trace 1:"), text.find("twice == true"));
}

TEST(Library, ASizeThatIsAskedForWhileSymbolicIsAGraphBreakWithItsPlace) {
  Library library = Library::open("cpu", 1);
  auto method = library.compile(
      [](Context& context, Tensor x) {
        const Tensor y = ops::silu(context, x);
        return y.size(0) > 3 ? ops::add(context, y, y) : y;
      },
      {.name = "asks", .dynamic = Dynamic::kAlways});
  const std::string text = error_of(ErrorCode::kGraphBreak, [&] { method(random_tensor(library, {2, 4})); });
  EXPECT_EQ(text.find("method 'asks' of library_test.cc:"), 0u) << text;
  EXPECT_NE(text.find(", behind library_test.cc:"), std::string::npos) << text;
  EXPECT_NE(text.find("silu: s0 is a0.size(0): the value of the symbolic dimension s0"), std::string::npos) << text;
}

TEST(Library, ACallThatFailsIsNotCountedAsReplayed) {
  Library library = Library::open("cpu", 1);
  const Tensor keys = constant_tensor(library, {2, 4, 1, 8}, 0.5f);
  const Tensor tables = library.from_integers({1, 2}, std::vector{0, 1});
  auto method = library.compile([&](Context& context, Tensor q, HostList queries, HostList lengths) {
    context.block_tables = tables;
    context.query_lengths = queries;
    context.kv_lengths = lengths;
    return ops::paged_attention(context, q, keys, keys, 1.0);
  });
  const Tensor q = random_tensor(library, {1, 1, 8});
  const std::vector<int32_t> one = {1}, fits = {8}, too_many = {9};
  const std::vector<float> expected = library.to_floats(method(q, one, fits));
  error_of(ErrorCode::kInvalidArgument, [&] { method(q, one, too_many); });
  EXPECT_EQ(method.counters().calls, 2);
  EXPECT_EQ(method.counters().replays, 1);
  EXPECT_EQ(library.to_floats(method(q, one, fits)), expected);
}

}  // namespace
TEST(Library, ContentsThatDoNotFitTheShapeAreCounted) {
  Library library = Library::open("cpu", 1);
  expect_text(error_of(ErrorCode::kInvalidArgument, [&] { library.from_floats({2, 3}, numbers(5)); }),
              "5 values for a tensor of shape [2, 3], which has 6");
  expect_text(error_of(ErrorCode::kInvalidArgument, [&] { library.from_floats({-1, 3}, {}); }),
              "a tensor of shape [-1, 3]: sizes are constants from 0 on");
  expect_text(error_of(ErrorCode::kInvalidArgument, [&] { library.empty(TensorMeta(DType::kF32, {4, -2})); }),
              "[4, -2]");
}

TEST(Library, ADebugDirectoryThatCannotBeMadeIsAnErrorBeforeAnythingRuns) {
  Library library = Library::open("cpu", 1);
  MethodOptions options;
  options.debug_directory = "/proc/none";
  expect_text(
      error_of(ErrorCode::kIo,
               [&] { library.compile([](Context& context, Tensor x) { return ops::silu(context, x); }, options); }),
      "/proc/none");
}

}  // namespace reprise
