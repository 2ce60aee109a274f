#include "kernels/ascend/aclnn_table.h"

namespace reprise::kernels::ascend {

AclnnTable::AclnnTable(const device::ascend::AclLibrary& library) {
// NOLINTBEGIN(bugprone-macro-parentheses): an operator's name is a name
#define REPRISE_ACLNN_LOAD(operator_name)                                                                        \
  operator_name.first = reinterpret_cast<decltype(operator_name.first)>(library.find(operator_name.first_name)); \
  operator_name.second = reinterpret_cast<decltype(operator_name.second)>(library.find(operator_name.name));
  REPRISE_ACLNN_OPERATORS(REPRISE_ACLNN_LOAD)
#undef REPRISE_ACLNN_LOAD
  // NOLINTEND(bugprone-macro-parentheses)
  attention_max_workspace = reinterpret_cast<decltype(attention_max_workspace)>(
      library.find("aclnnFusedInferAttentionScoreV3GetMaxWorkspaceSize"));
  attention_max_workspace_v5 = reinterpret_cast<decltype(attention_max_workspace_v5)>(
      library.find("aclnnFusedInferAttentionScoreV5GetMaxWorkspaceSize"));
}

}  // namespace reprise::kernels::ascend
