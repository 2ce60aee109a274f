// Rotary position embeddings.
#include <algorithm>
#include <string_view>
#include <vector>

#include "emulator/operators/kernel_call.h"
#include "emulator/operators/plan.h"
#include "emulator/operators/rows.h"

namespace reprise::emulator {
namespace {

enum class Rotation : int64_t { kHalf, kInterleave, kQuarter, kInterleaveHalf };

struct RotationParameters {
  Rotation rotation = Rotation::kHalf;
};

/// x * cos + (x turned by a quarter in each pair) * sin; pairs are elements half a row apart, neighbours, or a quarter
/// of a row apart. kInterleaveHalf takes neighbours and writes them half a row apart.
void rotate(Rotation rotation, const float* x, const float* cosine, const float* sine, int64_t columns, float* y) {
  const int64_t half = columns / 2;
  for (int64_t i = 0; i < half; ++i) {
    int64_t a = i;
    int64_t b = half + i;
    if (rotation == Rotation::kInterleave || rotation == Rotation::kInterleaveHalf) {
      a = 2 * i;
      b = a + 1;
    } else if (rotation == Rotation::kQuarter) {
      a = i < half / 2 ? i : half / 2 + i;
      b = a + half / 2;
    }
    const bool apart = rotation == Rotation::kInterleaveHalf;
    const int64_t to_a = apart ? i : a;
    const int64_t to_b = apart ? half + i : b;
    y[to_a] = x[a] * cosine[to_a] - x[b] * sine[to_a];
    y[to_b] = x[b] * cosine[to_b] + x[a] * sine[to_b];
  }
}

/// x and out are contiguous; cos and sin are broadcast over x's axes but the last.
void rotate_rows(Rotation rotation, const HostTensor& in, const HostTensor& cosines, const HostTensor& sines,
                 const HostTensor& out) {
  const int64_t columns = out->columns();
  const TensorArgument cosine_seen = broadcast_to(*cosines, *out);
  const TensorArgument sine_seen = broadcast_to(*sines, *out);
  const RowOffsets cosine_rows(cosine_seen);
  const RowOffsets sine_rows(sine_seen);
  const auto size = static_cast<size_t>(columns);
  std::vector<float> x(size);
  std::vector<float> cosine(size);
  std::vector<float> sine(size);
  std::vector<float> y(size);
  for (int64_t row = 0; row < out->rows(); ++row) {
    read_row(in, row * columns, columns, x.data());
    read_row(cosines, cosine_rows[row], columns, cosine.data());
    read_row(sines, sine_rows[row], columns, sine.data());
    rotate(rotation, x.data(), cosine.data(), sine.data(), columns, y.data());
    write_row(out, row * columns, columns, y.data());
  }
}

bool run_rotation(const KernelCall<RotationParameters>& call) {
  rotate_rows(call.parameters().rotation, call[0], call[1], call[2], call[3]);
  return true;
}

/// Queries and keys with the same tables.
bool run_both_rotations(const KernelCall<RotationParameters>& call) {
  rotate_rows(call.parameters().rotation, call[0], call[2], call[3], call[4]);
  rotate_rows(call.parameters().rotation, call[1], call[2], call[3], call[5]);
  return true;
}

constexpr Kernel kRotaryPositionEmbedding = make_kernel<RotationParameters, run_rotation>("RotaryPositionEmbedding");
constexpr Kernel kApplyRotaryPosEmb = make_kernel<RotationParameters, run_both_rotations>("ApplyRotaryPosEmb");

void check_rotation(const TensorArgument& x, const TensorArgument& cosine, const TensorArgument& sine,
                    Rotation rotation) {
  require(is_float(x.dtype) && cosine.dtype == x.dtype && sine.dtype == x.dtype,
          "x, cos and sin have dtypes {}, {}, {}", static_cast<int>(x.dtype), static_cast<int>(cosine.dtype),
          static_cast<int>(sine.dtype));
  require(x.rank >= 3 && x.columns() % (rotation == Rotation::kQuarter ? 4 : 2) == 0, "x's last axis has {} elements",
          x.columns());
  for (const TensorArgument* table : {&cosine, &sine}) {
    bool fits = table->rank == x.rank && table->columns() == x.columns();
    for (int32_t axis = 2; fits && axis <= x.rank; ++axis) {
      fits = table->size_back(axis) == 1 || table->size_back(axis) == x.size_back(axis);
    }
    require(fits, "cos or sin cannot be broadcast to x");
  }
}

Rotation rotation_of(const char* mode) {
  const std::string_view name = mode == nullptr ? "half" : mode;
  if (name == "half") return Rotation::kHalf;
  if (name == "interleave") return Rotation::kInterleave;
  require(name == "quarter", "rotaryMode is \"{}\"", name);
  return Rotation::kQuarter;
}

/// Turns queries and keys where they lie; gives the queries.
TensorArgument build_apply(Plan& plan, aclTensor* query, aclTensor* key, const aclTensor* cos, const aclTensor* sin,
                           int64_t layout, Rotation rotation) {
  const std::array tensors = {plan.in_place(query, "queryRef"), plan.in_place(key, "keyRef")};
  const TensorArgument cosine = plan.input(cos, "cos");
  const TensorArgument sine = plan.input(sin, "sin");
  require(layout >= 1 && layout <= 4, "layout is {}, expected 1 to 4", layout);
  const TensorArgument cosine_read = plan.contiguous(cosine);
  const TensorArgument sine_read = plan.contiguous(sine);
  for (const TensorArgument& x : tensors) {
    check_rotation(x, cosine, sine, rotation);
    require(x.rank == (layout == 4 ? 3 : 4), "a tensor of {} dimensions in layout {}", x.rank, layout);
  }
  plan.launch(kApplyRotaryPosEmb, {plan.contiguous(tensors[0]), plan.contiguous(tensors[1]), cosine_read, sine_read},
              {plan.staged(tensors[0]), plan.staged(tensors[1])}, RotationParameters{rotation});
  return tensors[0];
}

struct CacheParameters {
  int64_t head_size = 0;
  int32_t neox = 1;
  int32_t reserved = 0;
};

/// Positions outside of the cache leave zeros; what the device would read there is not defined.
void rotate_with_cache(const CacheParameters& parameters, const HostTensor& positions, const HostTensor& cache,
                       const HostTensor& in, const HostTensor& out) {
  const auto& [head_size, neox, reserved] = parameters;
  const int64_t turned = cache->columns();
  const auto rotation = neox != 0 ? Rotation::kHalf : Rotation::kInterleave;
  std::vector<float> table(static_cast<size_t>(turned));
  std::vector<float> cosine(table.size());
  std::vector<float> sine(table.size());
  std::vector<float> x(static_cast<size_t>(head_size));
  std::vector<float> y(x.size());
  for (int64_t row = 0; row < in->rows(); ++row) {
    const int64_t position = integer_at(positions.at(0), positions->dtype, row);
    const bool inside = position >= 0 && position < cache->rows();
    if (inside) read_row(cache, position * turned, turned, table.data());
    for (int64_t i = 0; i < turned; ++i) {
      const int64_t pair = neox != 0 ? i % (turned / 2) : i / 2;
      cosine[static_cast<size_t>(i)] = table[static_cast<size_t>(pair)];
      sine[static_cast<size_t>(i)] = table[static_cast<size_t>(turned / 2 + pair)];
    }
    for (int64_t first = 0; first < in->columns(); first += head_size) {
      const int64_t at = row * in->columns() + first;
      read_row(in, at, head_size, x.data());
      std::copy(x.begin(), x.end(), y.begin());
      rotate(rotation, x.data(), cosine.data(), sine.data(), turned, y.data());
      if (!inside) std::fill(y.begin(), y.end(), 0.0F);
      write_row(out, at, head_size, y.data());
    }
  }
}

bool run_with_cache(const KernelCall<CacheParameters>& call) {
  rotate_with_cache(call.parameters(), call[0], call[1], call[2], call[4]);
  rotate_with_cache(call.parameters(), call[0], call[1], call[3], call[5]);
  return true;
}

KernelCost cache_cost(const ArgumentReader& arguments) {
  const auto tensors = arguments.tensors();
  KernelCost cost = plain_cost(arguments);
  // The positions' rows only.
  const uint64_t row = static_cast<uint64_t>(tensors[1].columns()) * size_of(tensors[1].dtype);
  cost.bytes_read -=
      tensors[1].bytes() - std::min(tensors[1].bytes(), tensors[0].bytes() / size_of(tensors[0].dtype) * row);
  return cost;
}

constexpr Kernel kRopeWithSinCosCache = make_kernel<CacheParameters, run_with_cache, cache_cost>("RopeWithSinCosCache");

void build_with_cache(Plan& plan, const aclTensor* positions, const aclTensor* query, const aclTensor* key,
                      const aclTensor* cache, const aclIntArray* mrope, int64_t head_size, bool neox,
                      aclTensor* query_out, aclTensor* key_out) {
  const TensorArgument index = plan.contiguous(plan.input(positions, "positions"));
  const std::array inputs = {plan.input(query, "queryIn"), plan.input(key, "keyIn")};
  const TensorArgument table = plan.contiguous(plan.input(cache, "cosSinCache"));
  const std::array outputs = {plan.output(query_out, "queryOut"), plan.output(key_out, "keyOut")};
  require(index.dtype == ACL_INT32 || index.dtype == ACL_INT64, "positions have dtype {}",
          static_cast<int>(index.dtype));
  require_live(mrope, "mropeSection");
  require(mrope == nullptr || mrope->values.empty(), "mropeSection is not supported");
  require(head_size > 0 && table.rank == 2 && table.columns() % 2 == 0 && table.columns() <= head_size,
          "headSize is {} with rows of {} in the cache", head_size, table.columns());
  const CacheParameters parameters{.head_size = head_size, .neox = neox ? 1 : 0};
  for (size_t i = 0; i < inputs.size(); ++i) {
    require(is_float(inputs[i].dtype) && inputs[i].dtype == table.dtype && outputs[i].dtype == table.dtype,
            "queryIn, keyIn and cosSinCache have different dtypes");
    require(inputs[i].rank == 2 && inputs[i].dims[0] == index.elements() && inputs[i].dims[1] % head_size == 0 &&
                std::ranges::equal(inputs[i].shape(), outputs[i].shape()),
            "queryIn or keyIn has the wrong shape");
  }
  plan.launch(kRopeWithSinCosCache, {index, table, plan.contiguous(inputs[0]), plan.contiguous(inputs[1])},
              {plan.staged(outputs[0]), plan.staged(outputs[1])}, parameters);
}

}  // namespace
}  // namespace reprise::emulator

using namespace reprise::emulator;

extern "C" {

aclnnStatus aclnnRotaryPositionEmbeddingGetWorkspaceSize(const aclTensor* x, const aclTensor* cos, const aclTensor* sin,
                                                         int64_t mode, const aclTensor* out, uint64_t* workspaceSize,
                                                         aclOpExecutor** executor) {
  return phase_one(
      "aclnnRotaryPositionEmbedding", EMULATOR_GIVEN(x, cos, sin, mode, out), workspaceSize, executor, [&](Plan& plan) {
        const TensorArgument from = plan.input(x, "x");
        const TensorArgument cosine = plan.input(cos, "cos");
        const TensorArgument sine = plan.input(sin, "sin");
        const TensorArgument to = plan.output(out, "out");
        require(mode >= 0 && mode <= 3, "mode is {}, expected 0 to 3", mode);
        check_rotation(from, cosine, sine, static_cast<Rotation>(mode));
        require(from.dtype == to.dtype && std::ranges::equal(from.shape(), to.shape()),
                "out has another dtype or shape");
        plan.launch(kRotaryPositionEmbedding, {plan.contiguous(from), plan.contiguous(cosine), plan.contiguous(sine)},
                    {plan.staged(to)}, RotationParameters{static_cast<Rotation>(mode)});
      });
}

aclnnStatus aclnnApplyRotaryPosEmbGetWorkspaceSize(aclTensor* queryRef, aclTensor* keyRef, const aclTensor* cos,
                                                   const aclTensor* sin, int64_t layout, uint64_t* workspaceSize,
                                                   aclOpExecutor** executor) {
  return phase_one("aclnnApplyRotaryPosEmb", EMULATOR_GIVEN(queryRef, keyRef, cos, sin, layout), workspaceSize,
                   executor, [&](Plan& plan) {
                     require(layout == 1 || layout == 4, "layout is {}, expected 1 or 4", layout);
                     const TensorArgument x = build_apply(plan, queryRef, keyRef, cos, sin, layout, Rotation::kHalf);
                     require(x.columns() == 64 || x.columns() == 128, "heads of {} columns, expected 64 or 128",
                             x.columns());
                   });
}

aclnnStatus aclnnApplyRotaryPosEmbV2GetWorkspaceSize(aclTensor* queryRef, aclTensor* keyRef, const aclTensor* cos,
                                                     const aclTensor* sin, int64_t layout, char* rotaryMode,
                                                     uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnApplyRotaryPosEmbV2", EMULATOR_GIVEN(queryRef, keyRef, cos, sin, layout, rotaryMode),
                   workspaceSize, executor,
                   [&](Plan& plan) { build_apply(plan, queryRef, keyRef, cos, sin, layout, rotation_of(rotaryMode)); });
}

aclnnStatus aclnnRopeWithSinCosCacheGetWorkspaceSize(const aclTensor* positions, const aclTensor* queryIn,
                                                     const aclTensor* keyIn, const aclTensor* cosSinCache,
                                                     const aclIntArray* mropeSection, int64_t headSize,
                                                     bool isNeoxStyle, aclTensor* queryOut, aclTensor* keyOut,
                                                     uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one(
      "aclnnRopeWithSinCosCache",
      EMULATOR_GIVEN(positions, queryIn, keyIn, cosSinCache, mropeSection, headSize, isNeoxStyle, queryOut, keyOut),
      workspaceSize, executor, [&](Plan& plan) {
        build_with_cache(plan, positions, queryIn, keyIn, cosSinCache, mropeSection, headSize, isNeoxStyle, queryOut,
                         keyOut);
      });
}

}  // extern "C"

EMULATOR_PHASE_TWO(aclnnRotaryPositionEmbedding)
EMULATOR_PHASE_TWO(aclnnApplyRotaryPosEmb)
EMULATOR_PHASE_TWO(aclnnApplyRotaryPosEmbV2)
EMULATOR_PHASE_TWO(aclnnRopeWithSinCosCache)
