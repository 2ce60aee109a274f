#include "emulator/operators/chip_support.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "emulator/operators/exported.h"
#include "emulator/operators/operator_error.h"

namespace reprise::emulator {
namespace {

enum class Chip { k910B, k310P, k950 };

std::string_view soc_name() {
  const char* name = aclrtGetSocName();
  return name == nullptr ? std::string_view() : std::string_view(name);
}

Chip chip_of(std::string_view soc) {
  if (soc.starts_with("Ascend310P")) return Chip::k310P;
  if (soc.starts_with("Ascend950")) return Chip::k950;
  return Chip::k910B;
}

// The tables "supported products" of the operators' documents, as far as they say no. The 310P is in them as the
// Atlas inference products.
constexpr std::string_view kNotOn310P[] = {
    "aclnnAddRmsNormCast",
    "aclnnAddRmsNormDynamicQuant",
    "aclnnAddRmsNormDynamicQuantV2",
    "aclnnCausalConv1d",
    "aclnnDequantSwigluQuant",
    "aclnnDynamicQuantV3",
    "aclnnFusedInferAttentionScoreV2",
    "aclnnFusedInferAttentionScoreV3",
    "aclnnFusedInferAttentionScoreV4",
    "aclnnFusedInferAttentionScoreV5",
    "aclnnMoeFinalizeRouting",
    "aclnnMoeGatingTopK",
    "aclnnMoeGatingTopKSoftmax",
    "aclnnMoeGatingTopKSoftmaxV2",
    "aclnnMoeInitRouting",
    "aclnnMoeInitRoutingV3",
    "aclnnNpuFormatCast",
    "aclnnRopeWithSinCosCache",
    "aclnnScatterPaKvCache",
};
constexpr std::string_view kNotOn950[] = {"aclnnAscendQuant", "aclnnFusedInferAttentionScoreV2",
                                          "aclnnFusedInferAttentionScoreV3", "aclnnFusedInferAttentionScoreV4"};
constexpr std::string_view kNotOn910B[] = {"aclnnDynamicQuantV3", "aclnnFusedInferAttentionScoreV5"};

template <size_t kCount>
bool is_in(const std::string_view (&names)[kCount], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

/// "Ascend310P3" is of the kind Ascend310P.
std::string_view kind_of(std::string_view soc) {
  if (chip_of(soc) == Chip::k310P) return soc.substr(0, std::string_view("Ascend310P").size());
  if (chip_of(soc) == Chip::k950) return soc.substr(0, std::string_view("Ascend950").size());
  return "Ascend910B";
}

}  // namespace

void require_operator(const char* name) {
  const std::string_view soc = soc_name();
  const Chip chip = chip_of(soc);
  const bool missing = chip == Chip::k310P  ? is_in(kNotOn310P, name)
                       : chip == Chip::k950 ? is_in(kNotOn950, name)
                                            : is_in(kNotOn910B, name);
  // The words of the operators' sources, most of which answer so.
  require(!missing, "support for {} is not implemented", kind_of(soc));
}

void require_dtype(aclDataType dtype) {
  if (dtype != ACL_BF16) return;
  const std::string_view soc = soc_name();
  require(chip_of(soc) != Chip::k310P, "tensors of DT_BFLOAT16 are not supported on {}", kind_of(soc));
}

}  // namespace reprise::emulator
