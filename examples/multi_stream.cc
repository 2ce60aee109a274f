// Two branches of a method on two streams, with events between them and a limit on cores.
#include <cmath>
#include <cstdio>

#include "graph/text_writer.h"
#include "reprise/reprise.h"

using namespace reprise;

struct Experts {
  Tensor shared_up, shared_down, routed_up, routed_down;

  Tensor feed_forward(Context& context, const Tensor& x, const Tensor& up, const Tensor& down) const {
    const Tensor wide = ops::silu(context, ops::linear(context, x, {.weight = up}));
    return ops::linear(context, wide, {.weight = down});
  }

  // The shared expert of a layer beside the routed one. `two_streams` is a value of the host: two graphs of one code.
  Tensor operator()(Context& context, Tensor x, bool two_streams) const {
    const Tensor input = ops::add(context, x, x);
    Tensor shared;
    if (two_streams) {
      // An event marks what the other stream must wait for; a graph in which a value crosses without one is refused.
      ops::record_event(context, "input_ready");
      // Operators that are called while the scope lives run on the stream "side" ...
      const auto side = ops::stream(context, "side");
      // ... and use one core at most, which leaves the others to the method's own stream.
      const auto limit = ops::limit_core_num(context, 1);
      ops::wait_event(context, "input_ready");
      shared = feed_forward(context, input, shared_up, shared_down);
      ops::record_event(context, "shared_ready");
    } else {
      shared = feed_forward(context, input, shared_up, shared_down);
    }
    const Tensor routed = feed_forward(context, input, routed_up, routed_down);
    if (two_streams) ops::wait_event(context, "shared_ready");
    return ops::add(context, routed, shared);
  }
};

Tensor numbers(const Library& library, const Shape& shape, float seed) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(seed + static_cast<float>(i));
  return library.from_floats(shape, values);
}

int main() {
  Library library = Library::open("cpu", 2);
  ops::ForwardContext eager = library.eager();
  const auto weight = [&](int64_t rows, int64_t columns, float seed) {
    return ops::pack_linear_weight(eager, numbers(library, {rows, columns}, seed));
  };
  MethodOptions options;
  options.name = "experts";
  options.argument_names = {"x", "two_streams"};
  options.compile.clone_output = true;  // results are compared, so the next call must leave them
  auto experts =
      library.compile(Experts{weight(32, 16, 1), weight(16, 32, 2), weight(32, 16, 3), weight(16, 32, 4)}, options);

  const Tensor x = numbers(library, {2, 16}, 0);
  const Tensor one = experts(x, false);
  const Tensor two = experts(x, true);
  std::printf("two streams give %s bits\n", library.to_floats(one) == library.to_floats(two) ? "the same" : "other");

  // A scope of the library limits everything that is queued while it lives; captured graphs are captured again for it.
  {
    const Scope limit = library.limit_core_num(1);
    experts(x, false);
  }
  std::printf("captured again for another core limit: %d\n\n",
              static_cast<int>(experts.counters().recaptured(RecaptureReason::kCoreLimitChanged)));

  // The graph of the second trace: what a pass has added forks the side stream at the start and joins it at the end.
  std::printf("%s\n%s", graph::to_text(experts.graph(1)).c_str(), experts.counters().to_text().c_str());
}
