// aclnnMoeInitRoutingV2 and V3: the rows of tokens, once for each expert that a token takes, in the order of experts.
#include <algorithm>
#include <vector>

#include "emulator/operators/kernel_call.h"
#include "emulator/operators/plan.h"
#include "emulator/operators/quantize_rows.h"
#include "emulator/operators/rows.h"

namespace reprise::emulator {
namespace {

// What the first numbers of tokens in each expert look like.
enum class TokenList : int64_t { kNone, kPrefixSums, kCounts, kPairs };

// The tensors of the kernel; absent ones are undefined.
enum RoutingTensor : size_t {
  kX,
  kExperts,
  kScale,
  kExpandedX,
  kRowIndex,
  kTokens,
  kBeforeCapacity,
  kScaleOut,
  kOrder
};

struct RoutingParameters {
  int64_t chosen = 1;
  int64_t begin = 0;  ///< experts that count
  int64_t end = 0;
  int64_t rows_out = 0;  ///< most rows that are expanded
  int64_t capacity = 0;  ///< of an expert; 0: whatever it takes
  TokenList list = TokenList::kNone;
  int32_t sorted_index = 0;  ///< kRowIndex says for each expanded row where it comes from, not the other way around
  int32_t quantize = 0;
  int32_t refuses_others = 0;  ///< experts outside of [begin, end) are an error
  int32_t reserved = 0;
};

class Routing {
 public:
  explicit Routing(const KernelCall<RoutingParameters>& call)
      : call_(call), p_(call.parameters()), columns_(call[kX]->columns()), scales_(read_all(call[kScale])) {}

  bool run() {
    if (!sort()) return false;
    if (call_[kRowIndex]->elements() > 0 && p_.sorted_index == 0) {
      std::fill_n(call_[kRowIndex].data<int32_t>(), call_[kRowIndex]->elements(), -1);
    }
    if (p_.capacity > 0) std::memset(call_[kExpandedX].at(0), 0, call_[kExpandedX]->bytes());
    const auto* order = call_[kOrder].data<int32_t>();
    int64_t place = 0;
    for (int64_t expert = p_.begin; expert < p_.end; ++expert) {
      const int64_t count = counts_[static_cast<size_t>(expert - p_.begin)];
      for (int64_t i = 0; i < count; ++i, ++place) {
        int64_t to = place;
        if (p_.capacity > 0) to = i < p_.capacity ? (expert - p_.begin) * p_.capacity + i : -1;
        write(order[place], to, expert);
      }
    }
    write_tokens();
    return true;
  }

 private:
  /// Sorts by expert, of one expert in the order of tokens; the order goes through the workspace.
  bool sort() {
    const HostTensor& experts = call_[kExperts];
    const auto* chosen = experts.data<int32_t>();
    counts_.assign(static_cast<size_t>(p_.end - p_.begin), 0);
    for (int64_t i = 0; i < experts->elements(); ++i) {
      const bool inside = chosen[i] >= p_.begin && chosen[i] < p_.end;
      if (!inside && p_.refuses_others != 0) return false;
      if (inside) ++counts_[static_cast<size_t>(chosen[i] - p_.begin)];
    }
    std::vector<int64_t> next(counts_.size());
    int64_t sum = 0;
    for (size_t expert = 0; expert < counts_.size(); ++expert) {
      next[expert] = sum;
      sum += counts_[expert];
    }
    auto* order = call_[kOrder].data<int32_t>();
    for (int64_t i = 0; i < experts->elements(); ++i) {
      if (chosen[i] < p_.begin || chosen[i] >= p_.end) continue;
      order[next[static_cast<size_t>(chosen[i] - p_.begin)]++] = static_cast<int32_t>(i);
    }
    return true;
  }

  /// Row `to` (-1: dropped) comes from choice `from` of all tokens.
  void write(int32_t from, int64_t to, int64_t expert) {
    if (to < 0) return;
    auto* index = call_[kRowIndex].data<int32_t>();
    index[p_.sorted_index != 0 ? to : from] = p_.sorted_index != 0 ? from : static_cast<int32_t>(to);
    if (to >= p_.rows_out) return;
    const int64_t token = from / p_.chosen;
    if (p_.quantize == 0) {
      std::memcpy(call_[kExpandedX].at(to * columns_), call_[kX].at(token * columns_),
                  static_cast<size_t>(columns_) * size_of(call_[kX]->dtype));
      if (call_[kScaleOut].defined() && !scales_.empty()) {
        call_[kScaleOut].data<float>()[to] = scales_[static_cast<size_t>(token)];
      }
      return;
    }
    row_.resize(static_cast<size_t>(columns_));
    read_row(call_[kX], token * columns_, columns_, row_.data());
    for (int64_t i = 0; i < columns_ && !scales_.empty(); ++i) {
      row_[static_cast<size_t>(i)] *= scales_[static_cast<size_t>((expert - p_.begin) * columns_ + i)];
    }
    call_[kScaleOut].data<float>()[to] =
        dynamic_quantize_row(row_.data(), columns_, call_[kExpandedX].data<int8_t>() + to * columns_);
  }

  void write_tokens() {
    const HostTensor& tokens = call_[kTokens];
    int64_t sum = 0;
    int64_t pair = 0;
    if (p_.list == TokenList::kPairs) std::memset(tokens.at(0), 0, tokens->bytes());
    for (size_t expert = 0; expert < counts_.size(); ++expert) {
      const int64_t count = counts_[expert];
      sum += count;
      const auto at = static_cast<int64_t>(expert);
      if (p_.list == TokenList::kPrefixSums) set_integer(tokens.at(0), tokens->dtype, at, sum);
      if (p_.list == TokenList::kCounts) set_integer(tokens.at(0), tokens->dtype, at, count);
      if (p_.list == TokenList::kPairs && count > 0) {
        set_integer(tokens.at(0), tokens->dtype, pair++, p_.begin + at);
        set_integer(tokens.at(0), tokens->dtype, pair++, count);
      }
      if (call_[kBeforeCapacity].defined()) {
        set_integer(call_[kBeforeCapacity].at(0), call_[kBeforeCapacity]->dtype, at, count);
      }
    }
  }

  const KernelCall<RoutingParameters>& call_;
  const RoutingParameters& p_;
  int64_t columns_;
  std::vector<float> scales_;
  std::vector<float> row_;
  std::vector<int64_t> counts_;
};

bool run_routing(const KernelCall<RoutingParameters>& call) { return Routing(call).run(); }

constexpr Kernel kInitRoutingV2 = make_kernel<RoutingParameters, run_routing>("MoeInitRoutingV2");
constexpr Kernel kInitRoutingV3 = make_kernel<RoutingParameters, run_routing>("MoeInitRoutingV3");

struct RoutingArguments {
  TensorArgument x, experts, scale, expanded_x, row_index, tokens, before_capacity, scale_out;
};

/// What both versions check: x [tokens, columns], experts [tokens, k].
void check_routing(const RoutingArguments& a) {
  require(a.x.rank == 2 && a.experts.rank == 2 && a.experts.dims[0] == a.x.dims[0],
          "x or expertIdx has the wrong shape");
  require(is_float(a.x.dtype) || a.x.dtype == ACL_INT8, "x has dtype {}", static_cast<int>(a.x.dtype));
  require(a.experts.dtype == ACL_INT32 && a.row_index.dtype == ACL_INT32, "expertIdx or expandedRowIdx is not int32");
  require(a.row_index.elements() == a.experts.elements(), "expandedRowIdx has {} elements, expected {}",
          a.row_index.elements(), a.experts.elements());
  require(a.expanded_x.columns() == a.x.columns(), "expandedX has {} columns, expected {}", a.expanded_x.columns(),
          a.x.columns());
}

void add_routing(Plan& plan, const Kernel& kernel, const RoutingArguments& a, RoutingParameters parameters) {
  parameters.chosen = a.experts.dims[1];
  const TensorArgument order = plan.scratch({std::max<int64_t>(a.experts.elements(), 1)}, ACL_INT32);
  plan.launch(kernel, {plan.contiguous(a.x), plan.contiguous(a.experts), plan.contiguous(a.scale)},
              {plan.staged(a.expanded_x), plan.staged(a.row_index), plan.staged(a.tokens),
               plan.staged(a.before_capacity), plan.staged(a.scale_out), order},
              parameters, {}, a.experts.elements());
}

void build_v2(Plan& plan, RoutingArguments a, int64_t active, int64_t capacity, int64_t experts, int64_t drop_pad,
              int64_t list, bool before_capacity) {
  check_routing(a);
  require(drop_pad == 0 || drop_pad == 1, "dropPadMode is {}, expected 0 or 1", drop_pad);
  require(experts > 0 && list >= 0 && list <= 2 && active >= 0, "expertNum or expertTokensCountOrCumsumFlag is wrong");
  require(a.expanded_x.dtype == a.x.dtype, "expandedX has another dtype than x");
  RoutingParameters parameters{.end = experts, .refuses_others = 1};
  const int64_t all = a.experts.elements();
  parameters.rows_out = active == 0 ? all : std::min(active, all);
  if (drop_pad == 1) {
    require(
        capacity > 0 && a.expanded_x.rank == 3 && a.expanded_x.dims[0] == experts && a.expanded_x.dims[1] == capacity,
        "expandedX has the wrong shape for a capacity of {}", capacity);
    parameters.capacity = capacity;
    parameters.rows_out = experts * capacity;
  } else {
    require(a.expanded_x.rank == 2 && a.expanded_x.dims[0] == parameters.rows_out, "expandedX has {} rows, expected {}",
            a.expanded_x.dims[0], parameters.rows_out);
  }
  if (drop_pad == 1 || list == 0) a.tokens = {};
  if (drop_pad == 0 || !before_capacity) a.before_capacity = {};
  if (a.tokens.defined()) parameters.list = list == 1 ? TokenList::kPrefixSums : TokenList::kCounts;
  for (const TensorArgument* counts : {&a.tokens, &a.before_capacity}) {
    require(!counts->defined() || (counts->dtype == ACL_INT32 && counts->elements() == experts),
            "a list of tokens has {} elements, expected {} of int32", counts->elements(), experts);
  }
  add_routing(plan, kInitRoutingV2, a, parameters);
}

struct V3Attributes {
  int64_t active, experts, drop_pad, list;
  bool wants_list;
  int64_t quant_mode, index_type;
  const aclIntArray* range;
};

void build_v3(Plan& plan, RoutingArguments a, const V3Attributes& v) {
  check_routing(a);
  const int64_t all = a.experts.elements();
  require(v.active == all, "activeNum is {}, expected {}", v.active, all);
  require(v.drop_pad == 0 && (v.list == 1 || v.list == 2) && v.wants_list,
          "dropPadMode is {}, expertTokensNumType {}: expected 0, and 1 or 2 with the flag", v.drop_pad, v.list);
  require(v.quant_mode == -1 || v.quant_mode == 1, "quantMode is {}, expected -1 or 1", v.quant_mode);
  require(v.index_type == 0 || v.index_type == 1, "rowIdxType is {}, expected 0 or 1", v.index_type);
  RoutingParameters parameters{.end = v.experts, .rows_out = all};
  require_live(v.range, "activeExpertRange");
  if (v.range != nullptr) {
    require(v.range->values.size() == 2, "activeExpertRange has {} elements, expected 2", v.range->values.size());
    parameters.begin = v.range->values[0];
    parameters.end = v.range->values[1];
  }
  require(parameters.begin >= 0 && parameters.begin < parameters.end && parameters.end <= v.experts,
          "activeExpertRange is [{}, {}) of {} experts", parameters.begin, parameters.end, v.experts);
  const int64_t experts = parameters.end - parameters.begin;
  parameters.quantize = v.quant_mode == 1 ? 1 : 0;
  parameters.sorted_index = v.index_type == 1 ? 1 : 0;
  parameters.list = v.list == 1 ? TokenList::kCounts : TokenList::kPairs;
  require(a.expanded_x.dtype == (v.quant_mode == 1 ? ACL_INT8 : a.x.dtype), "expandedX has dtype {}",
          static_cast<int>(a.expanded_x.dtype));
  require(v.quant_mode == -1 || a.x.dtype != ACL_INT8, "int8 cannot be quantised again");
  require(a.expanded_x.rank == 2 && a.expanded_x.dims[0] == all, "expandedX has {} rows, expected {}",
          a.expanded_x.dims[0], all);
  require(a.tokens.dtype == ACL_INT64 && a.tokens.elements() == (v.list == 1 ? experts : 2 * v.experts),
          "the list of tokens has {} elements of dtype {}", a.tokens.elements(), static_cast<int>(a.tokens.dtype));
  const int64_t scales = v.quant_mode == 1 ? experts * a.x.columns() : a.x.rows();
  require(!a.scale.defined() || (a.scale.dtype == ACL_FLOAT && a.scale.elements() == scales),
          "scale has {} elements, expected {}", a.scale.elements(), scales);
  if (v.quant_mode == -1 && !a.scale.defined()) a.scale_out = {};
  require(!a.scale_out.defined() || (a.scale_out.dtype == ACL_FLOAT && a.scale_out.elements() == all),
          "expandedScale has {} elements, expected {}", a.scale_out.elements(), all);
  require(v.quant_mode == -1 || a.scale_out.defined(), "expandedScale is a null pointer");
  add_routing(plan, kInitRoutingV3, a, parameters);
}

}  // namespace
}  // namespace reprise::emulator

using namespace reprise::emulator;

extern "C" {

aclnnStatus aclnnMoeInitRoutingV2GetWorkspaceSize(
    const aclTensor* x, const aclTensor* expertIdx, int64_t activeNum, int64_t expertCapacity, int64_t expertNum,
    int64_t dropPadMode, int64_t expertTokensCountOrCumsumFlag, bool expertTokensBeforeCapacityFlag,
    const aclTensor* expandedXOut, const aclTensor* expandedRowIdxOut, const aclTensor* expertTokensCountOrCumsumOut,
    const aclTensor* expertTokensBeforeCapacityOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one("aclnnMoeInitRoutingV2",
                   EMULATOR_GIVEN(x, expertIdx, activeNum, expertCapacity, expertNum, dropPadMode,
                                  expertTokensCountOrCumsumFlag, expertTokensBeforeCapacityFlag, expandedXOut,
                                  expandedRowIdxOut, expertTokensCountOrCumsumOut, expertTokensBeforeCapacityOut),
                   workspaceSize, executor, [&](Plan& plan) {
                     RoutingArguments a;
                     a.x = plan.input(x, "x");
                     a.experts = plan.input(expertIdx, "expertIdx");
                     a.expanded_x = plan.output(expandedXOut, "expandedXOut");
                     a.row_index = plan.output(expandedRowIdxOut, "expandedRowIdxOut");
                     a.tokens = plan.optional_output(expertTokensCountOrCumsumOut);
                     a.before_capacity = plan.optional_output(expertTokensBeforeCapacityOut);
                     build_v2(plan, a, activeNum, expertCapacity, expertNum, dropPadMode, expertTokensCountOrCumsumFlag,
                              expertTokensBeforeCapacityFlag);
                   });
}

aclnnStatus aclnnMoeInitRoutingV3GetWorkspaceSize(
    const aclTensor* x, const aclTensor* expertIdx, const aclTensor* scaleOptional, const aclTensor* offsetOptional,
    int64_t activeNum, int64_t expertCapacity, int64_t expertNum, int64_t dropPadMode, int64_t expertTokensNumType,
    bool expertTokensNumFlag, int64_t quantMode, const aclIntArray* activeExpertRangeOptional, int64_t rowIdxType,
    const aclTensor* expandedXOut, const aclTensor* expandedRowIdxOut, const aclTensor* expertTokensCountOrCumsumOut,
    const aclTensor* expandedScaleOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return phase_one(
      "aclnnMoeInitRoutingV3",
      EMULATOR_GIVEN(x, expertIdx, scaleOptional, offsetOptional, activeNum, expertCapacity, expertNum, dropPadMode,
                     expertTokensNumType, expertTokensNumFlag, quantMode, activeExpertRangeOptional, rowIdxType,
                     expandedXOut, expandedRowIdxOut, expertTokensCountOrCumsumOut, expandedScaleOut),
      workspaceSize, executor, [&](Plan& plan) {
        RoutingArguments a;
        a.x = plan.input(x, "x");
        a.experts = plan.input(expertIdx, "expertIdx");
        a.scale = plan.optional_input(scaleOptional);
        require(offsetOptional == nullptr && expertCapacity >= 0, "offset is not supported");
        a.expanded_x = plan.output(expandedXOut, "expandedXOut");
        a.row_index = plan.output(expandedRowIdxOut, "expandedRowIdxOut");
        a.tokens = plan.output(expertTokensCountOrCumsumOut, "expertTokensCountOrCumsumOut");
        a.scale_out = plan.optional_output(expandedScaleOut);
        build_v3(plan, a,
                 {activeNum, expertNum, dropPadMode, expertTokensNumType, expertTokensNumFlag, quantMode, rowIdxType,
                  activeExpertRangeOptional});
      });
}

}  // extern "C"

EMULATOR_PHASE_TWO(aclnnMoeInitRoutingV2)
EMULATOR_PHASE_TWO(aclnnMoeInitRoutingV3)
