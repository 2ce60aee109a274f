#pragma once

#include "device/ascend/acl_library.h"
#include "device/ascend/interface/acl_operators.h"
#include "kernels/ascend/aclnn_symbols.h"

namespace reprise::kernels::ascend {

/// An operator of aclnn: its first phase, which checks and tiles, and its second one, which launches. Both are null
/// when the installed libraries do not have it.
template <typename FirstPhase>
struct AclnnOperator {
  using SecondPhase = aclnnStatus (*)(void* workspace, uint64_t bytes, aclOpExecutor* executor, aclrtStream stream);

  const char* name;
  const char* first_name;
  FirstPhase first = nullptr;
  SecondPhase second = nullptr;

  bool available() const { return first != nullptr && second != nullptr; }
};

/// The operators of aclnn, a member of the operator's own name each.
class AclnnTable {
 public:
  explicit AclnnTable(const device::ascend::AclLibrary& library);

// NOLINTBEGIN(bugprone-macro-parentheses): an operator's name is a name
#define REPRISE_ACLNN_MEMBER(operator_name)                                                 \
  AclnnOperator<decltype(&::operator_name##GetWorkspaceSize)> operator_name{#operator_name, \
                                                                            #operator_name "GetWorkspaceSize"};
  REPRISE_ACLNN_OPERATORS(REPRISE_ACLNN_MEMBER)
#undef REPRISE_ACLNN_MEMBER
  // NOLINTEND(bugprone-macro-parentheses)

  /// The workspace of attention for whatever lengths; null in older libraries.
  decltype(&::aclnnFusedInferAttentionScoreV3GetMaxWorkspaceSize) attention_max_workspace = nullptr;
  decltype(&::aclnnFusedInferAttentionScoreV5GetMaxWorkspaceSize) attention_max_workspace_v5 = nullptr;
};

}  // namespace reprise::kernels::ascend
