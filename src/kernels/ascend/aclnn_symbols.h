#pragma once

/// Every operator of aclnn that kernels are made of: "aclnnX" and "aclnnXGetWorkspaceSize" of the operators' libraries.
/// The only list: the table's members and their loading follow from it.
#define REPRISE_ACLNN_OPERATORS(OPERATOR)   \
  OPERATOR(aclnnAdd)                        \
  OPERATOR(aclnnInplaceAdd)                 \
  OPERATOR(aclnnSub)                        \
  OPERATOR(aclnnMul)                        \
  OPERATOR(aclnnInplaceMul)                 \
  OPERATOR(aclnnMuls)                       \
  OPERATOR(aclnnAdds)                       \
  OPERATOR(aclnnDiv)                        \
  OPERATOR(aclnnInplaceDiv)                 \
  OPERATOR(aclnnFloorDivides)               \
  OPERATOR(aclnnMinimum)                    \
  OPERATOR(aclnnMaximum)                    \
  OPERATOR(aclnnBitwiseAndScalar)           \
  OPERATOR(aclnnBitwiseXorTensor)           \
  OPERATOR(aclnnRightShift)                 \
  OPERATOR(aclnnGeTensor)                   \
  OPERATOR(aclnnLtTensor)                   \
  OPERATOR(aclnnInplaceMaskedFillScalar)    \
  OPERATOR(aclnnArange)                     \
  OPERATOR(aclnnCumsum)                     \
  OPERATOR(aclnnSilu)                       \
  OPERATOR(aclnnReciprocal)                 \
  OPERATOR(aclnnCast)                       \
  OPERATOR(aclnnInplaceCopy)                \
  OPERATOR(aclnnInplaceFillScalar)          \
  OPERATOR(aclnnCat)                        \
  OPERATOR(aclnnEmbedding)                  \
  OPERATOR(aclnnIndexSelect)                \
  OPERATOR(aclnnRmsNorm)                    \
  OPERATOR(aclnnAddRmsNorm)                 \
  OPERATOR(aclnnAddRmsNormCast)             \
  OPERATOR(aclnnAddRmsNormDynamicQuant)     \
  OPERATOR(aclnnMatmul)                     \
  OPERATOR(aclnnMatmulWeightNz)             \
  OPERATOR(aclnnBatchMatMul)                \
  OPERATOR(aclnnQuantMatmulV4)              \
  OPERATOR(aclnnQuantMatmulWeightNz)        \
  OPERATOR(aclnnGroupedMatmulV5)            \
  OPERATOR(aclnnDynamicQuant)               \
  OPERATOR(aclnnAscendQuantV3)              \
  OPERATOR(aclnnSwiGlu)                     \
  OPERATOR(aclnnDequantSwigluQuant)         \
  OPERATOR(aclnnSwiGluQuant)                \
  OPERATOR(aclnnRopeWithSinCosCache)        \
  OPERATOR(aclnnCausalConv1d)               \
  OPERATOR(aclnnScatterPaKvCache)           \
  OPERATOR(aclnnFusedInferAttentionScoreV3) \
  OPERATOR(aclnnFusedInferAttentionScoreV5) \
  OPERATOR(aclnnMoeGatingTopKSoftmaxV2)     \
  OPERATOR(aclnnMoeInitRoutingV3)           \
  OPERATOR(aclnnMoeFinalizeRoutingV2)       \
  OPERATOR(aclnnNpuFormatCast)
