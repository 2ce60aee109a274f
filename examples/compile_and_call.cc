// A method is compiled and called: what is traced, captured and replayed, and what is not.
#include <cstdio>
#include <numeric>

#include "reprise/reprise.h"

using namespace reprise;

// A method is anything that can be called with a Context and arguments. It is written in operator calls, and runs only
// to be traced: what it does besides them happens once. `x` may differ from call to call; `weight` is a Parameter,
// which stays where it is; `gated` is a value of the host, so the method may branch on it.
Tensor gated_norm(Context& context, Tensor x, Parameter weight, bool gated) {
  Tensor y = ops::rms_norm(context, x, weight, 1e-6);
  // A branch on a size that may be symbolic is asked of the context, which guards the answer.
  if (context.is_less(8, x.shape()[0])) y = ops::add(context, y, x);
  return gated ? ops::mul(context, y, ops::silu(context, x)) : y;
}

int main() {
  Library library = Library::open("cpu", /*threads=*/2);
  const Tensor weight = library.from_floats({4}, std::vector<float>(4, 1.0f));
  const auto rows = [&](int64_t count) {
    std::vector<float> values(static_cast<size_t>(count) * 4);
    std::iota(values.begin(), values.end(), 1.0f);
    return library.from_floats({count, 4}, values);
  };

  MethodOptions options;
  options.name = "gated_norm";
  options.argument_names = {"x", "weight", "gated"};
  auto method = library.compile(gated_norm, options);

  // Nothing has happened so far. Each call says why it did more than replay a graph.
  struct Call {
    const char* what;
    int64_t rows;
    bool gated;
  };
  const Call calls[] = {{"the first call traces and captures", 4, false},
                        {"the same sizes replay", 4, false},
                        {"another size makes the rows symbolic", 6, false},
                        {"so a third one needs a capture, but no trace", 3, false},
                        {"beyond 8 rows the method branches otherwise", 12, false},
                        {"another value of the host is another graph", 6, true},
                        {"and what was seen before replays", 6, false}};
  for (const Call& call : calls) {
    const Tensor y = method(rows(call.rows), weight, call.gated);
    // Calls are queued; to_floats() waits for the result.
    const std::vector<float> values = library.to_floats(y);
    const MethodCounters& counters = method.counters();
    std::printf("%-45s y[0] = %.4f  traces %d, captures %d, replays %d\n", call.what, values[0],
                static_cast<int>(counters.traces), static_cast<int>(counters.captures),
                static_cast<int>(counters.replays));
  }

  // Everything that is known about the method, for people; the counters are there for programs.
  std::printf("\n%s", method.explain().c_str());
}
