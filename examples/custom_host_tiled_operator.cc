// An operator of the program's own whose launch depends on a host list: replays take new values without a capture.
#include <cstdio>

#include "reprise/cpu_kernel.h"
#include "reprise/reprise.h"

using namespace reprise;

// prefix_mean: the mean of the first lengths[b] rows of each sequence. x float32 [B, L, D] -> [B, D].
namespace prefix_mean {

// Gives the results' shapes and checks the arguments, when a call is traced or run. Sizes may be symbols.
void infer(const ops::OpCall& call, std::span<TensorMeta> outputs) {
  const Shape& shape = call.inputs[0].shape();
  if (shape.rank() != 3) throw Error(ErrorCode::kInvalidArgument, "prefix_mean: x has {} axes, not 3", shape.rank());
  if (call.lists[0].length != shape[0]) throw Error(ErrorCode::kInvalidArgument, "prefix_mean: one length a sequence");
  outputs[0] = TensorMeta(DType::kF32, {shape[0], shape[2]});
}

// Host values to a tiling: outside of the graph, at every call. What it puts into `values` travels with the launch.
void plan(const ops::OpCall& call, ops::Tiling& tiling) {
  const std::span<const int32_t> lengths = call.lists[0].values;
  for (const int32_t length : lengths) {
    if (length >= 1 && length <= call.inputs[0].size(1)) continue;
    throw Error(ErrorCode::kInvalidArgument, "prefix_mean: a length of {} for {} rows", length, call.inputs[0].size(1));
  }
  tiling.values.assign(lengths.begin(), lengths.end());
  tiling.tiles = static_cast<int64_t>(lengths.size());  // the device deals them to its threads
}

struct Arguments {
  const float* x;
  float* y;
  int64_t rows, width;
};

void run_tiles(const void* block, int64_t first, int64_t last) {
  const Arguments& a = *static_cast<const Arguments*>(block);
  const int32_t* lengths = tail_of<Arguments>(block);
  for (int64_t b = first; b < last; ++b) {
    for (int64_t column = 0; column < a.width; ++column) {
      float sum = 0;
      for (int64_t row = 0; row < lengths[b]; ++row) sum += a.x[(b * a.rows + row) * a.width + column];
      a.y[b * a.width + column] = sum / static_cast<float>(lengths[b]);
    }
  }
}

// Launches; safe in a capture, which freezes the addresses and keeps the tiling replaceable.
void run(const ops::OpCall& call) {
  static constexpr CpuKernel kKernel = {"prefix_mean.f32", run_tiles};
  const Tensor& x = call.inputs[0];
  const Arguments arguments = {x.data_as<float>(), call.outputs[0].data_as<float>(), x.size(1), x.size(2)};
  launch_cpu_kernel(call, kKernel, call.tiling->tiles, arguments, call.tiling->values);
}

}  // namespace prefix_mean

int main() {
  Library library = Library::open("cpu", 2);
  // `int[]^` is a host list that a replay may update. The naive reference, for tests, is left out.
  library
      .register_operator(ops::OpDef("prefix_mean(Tensor x, int[]^ lengths) -> Tensor y", {.host_tiled = true},
                                    prefix_mean::infer, nullptr))
      .set_kernel("cpu", {.run = prefix_mean::run, .plan = prefix_mean::plan});

  MethodOptions options;
  options.name = "pool";
  options.argument_names = {"x", "lengths"};
  auto pool = library.compile(
      [](Context& context, Tensor x, HostList lengths) {
        const Tensor mean =
            ops::dispatch_call(context, "prefix_mean", {x}, {lengths}, {}, std::source_location::current());
        return ops::silu(context, mean);
      },
      options);

  const Tensor x = library.from_floats({2, 4, 1}, std::vector<float>{1, 2, 3, 4, 10, 20, 30, 40});
  for (const std::vector<int32_t>& lengths : {std::vector{1, 1}, std::vector{4, 2}, std::vector{2, 3}}) {
    const std::vector<float> y = library.to_floats(pool(x, lengths));
    std::printf("lengths %d, %d: %.4f %.4f  traces %d, captures %d, replays %d\n", lengths[0], lengths[1], y[0], y[1],
                static_cast<int>(pool.counters().traces), static_cast<int>(pool.counters().captures),
                static_cast<int>(pool.counters().replays));
  }
  try {
    pool(x, std::vector{5, 1});
  } catch (const Error& error) {
    std::printf("lengths 5, 1: %s\n", error.what());
  }
  std::printf("\n%s", pool.explain().c_str());
}
