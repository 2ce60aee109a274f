#include <cstdio>
#include <vector>

#include "reprise/reprise.h"

int main() {
  reprise::Library library = reprise::Library::open();
  auto method = library.compile([](reprise::Context& context, reprise::Tensor x, reprise::Parameter weight) {
    return reprise::ops::rms_norm(context, reprise::ops::add(context, x, x), weight, 1e-6);
  });

  const reprise::Tensor weight = library.from_floats({2}, std::vector<float>{1, 10});
  const reprise::Tensor x = library.from_floats({1, 2}, std::vector<float>{3, 4});
  for (int call = 0; call < 3; ++call) {
    const std::vector<float> y = library.to_floats(method(x, weight));
    std::printf("%.4f %.4f\n", y[0], y[1]);
  }
  std::printf("%s", method.counters().to_text().c_str());
}
