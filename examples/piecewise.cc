// Mode piecewise: attention runs eagerly with each step's lengths; what lies between its calls is captured.
#include <cmath>
#include <cstdio>

#include "reprise/reprise.h"

using namespace reprise;

constexpr int64_t kSequences = 2, kHeads = 2, kHeadDim = 8, kWidth = kHeads * kHeadDim, kPageSize = 4, kPages = 2;

// A method may be an object. The tensors that it holds are constants of its graph: weights, and the caches of keys and
// values, which are written in place.
struct Layer {
  Tensor norm, query, key, value, output;
  Tensor keys, values;
};

struct Decoder {
  std::vector<Layer> layers;

  // One new token x [sequences, width] for each sequence.
  Tensor operator()(Context& context, Tensor x, Tensor slots, Tensor block_tables, HostList query_lengths,
                    HostList kv_lengths) const {
    // What attention must know of the step.
    context.slots = slots;
    context.block_tables = block_tables;
    context.query_lengths = query_lengths;
    context.kv_lengths = kv_lengths;
    for (const Layer& layer : layers) {
      const Tensor y = ops::rms_norm(context, x, layer.norm, 1e-6);
      const auto heads = [&](const Tensor& weight) {
        return ops::reshape(context, ops::linear(context, y, {.weight = weight}), {x.shape()[0], kHeads, kHeadDim});
      };
      const Tensor q = heads(layer.query);
      ops::store_kv(context, heads(layer.key), heads(layer.value), layer.keys, layer.values);
      const Tensor mixed = ops::paged_attention(context, q, layer.keys, layer.values, 0.35);
      const Tensor flat = ops::reshape(context, mixed, {x.shape()[0], kWidth});
      x = ops::add(context, x, ops::linear(context, flat, {.weight = layer.output}));
    }
    return x;
  }
};

Tensor numbers(const Library& library, const Shape& shape, float seed) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(seed + static_cast<float>(i));
  return library.from_floats(shape, values);
}

Decoder make_decoder(const Library& library) {
  Decoder decoder;
  // Products read their weights in a format of the device; eager() is for operator calls outside of any method.
  ops::ForwardContext eager = library.eager();
  for (float seed = 1; seed <= 2; ++seed) {
    const auto weight = [&](float part) {
      return ops::pack_linear_weight(eager, numbers(library, {kWidth, kWidth}, seed + part));
    };
    const Shape cache = {kSequences * kPages, kPageSize, kHeads, kHeadDim};
    decoder.layers.push_back({numbers(library, {kWidth}, seed), weight(.1f), weight(.2f), weight(.3f), weight(.4f),
                              numbers(library, cache, 0), numbers(library, cache, 0)});
  }
  return decoder;
}

int main() {
  Library library = Library::open("cpu", 2);
  MethodOptions options;
  options.name = "decode";
  options.argument_names = {"x", "slots", "block_tables", "query_lengths", "kv_lengths"};
  auto full = library.compile(make_decoder(library), options);
  options.mode = Mode::kPiecewise;
  options.splitting_ops = {"paged_attention"};
  auto piecewise = library.compile(make_decoder(library), options);

  const Tensor tables = library.from_integers({kSequences, kPages}, std::vector{0, 1, 2, 3});
  for (int step = 0; step < 5; ++step) {
    const Tensor x = numbers(library, {kSequences, kWidth}, static_cast<float>(step));
    // Sequence b writes position `step` into its own pages.
    const Tensor slots = library.from_integers({kSequences}, std::vector{step, step + 8});
    const std::vector<int32_t> one_token = {1, 1}, lengths = {step + 1, step + 1};
    const std::vector<float> y = library.to_floats(piecewise(x, slots, tables, one_token, lengths));
    const bool same = y == library.to_floats(full(x, slots, tables, one_token, lengths));
    std::printf("step %d: y[0] = %.4f, %s in mode full\n", step, y[0], same ? "the same bits" : "other bits");
  }
  std::printf("\n%s\n%s", piecewise.explain().c_str(), full.counters().to_text().c_str());
}
