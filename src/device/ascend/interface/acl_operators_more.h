/* Operators (libopapi) that Reprise's device does not call, and other programs do: acl_operators.h includes this. What
 * it says of arguments and phases holds here too. */
#ifndef REPRISE_ACL_OPERATORS_MORE_H
#define REPRISE_ACL_OPERATORS_MORE_H

#include "device/ascend/interface/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Along one axis. */
aclnnStatus aclnnSoftmaxGetWorkspaceSize(const aclTensor* self, int64_t dim, aclTensor* out, uint64_t* workspaceSize,
                                         aclOpExecutor** executor);
aclnnStatus aclnnSoftmax(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
/* The indices are int64. */
aclnnStatus aclnnTopkGetWorkspaceSize(const aclTensor* self, int64_t k, int64_t dim, bool largest, bool sorted,
                                      aclTensor* valuesOut, aclTensor* indicesOut, uint64_t* workspaceSize,
                                      aclOpExecutor** executor);
aclnnStatus aclnnTopk(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
/* The indices are int32. */
aclnnStatus aclnnMaxDimGetWorkspaceSize(const aclTensor* self, int64_t dim, bool keepdim, aclTensor* out,
                                        aclTensor* indices, uint64_t* workspaceSize, aclOpExecutor** executor);
aclnnStatus aclnnMaxDim(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
/* As IndexSelect, with an index of any shape, which takes the axis's place in out. */
aclnnStatus aclnnGatherV2GetWorkspaceSize(const aclTensor* self, int64_t dim, const aclTensor* index, aclTensor* out,
                                          uint64_t* workspaceSize, aclOpExecutor** executor);
aclnnStatus aclnnGatherV2(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);

/* Norms that quantise. */
aclnnStatus aclnnRmsNormQuantGetWorkspaceSize(const aclTensor* x, const aclTensor* gamma, const aclTensor* beta,
                                              const aclTensor* scale, const aclTensor* offset, double epsilon,
                                              aclTensor* y, uint64_t* workspaceSize, aclOpExecutor** executor);
aclnnStatus aclnnRmsNormQuant(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
aclnnStatus aclnnAddRmsNormQuantV2GetWorkspaceSize(const aclTensor* x1, const aclTensor* x2, const aclTensor* gamma,
                                                   const aclTensor* scales1, const aclTensor* scales2Optional,
                                                   const aclTensor* zeroPoints1Optional,
                                                   const aclTensor* zeroPoints2Optional, const aclTensor* betaOptional,
                                                   int64_t axis, double epsilon, bool divMode, aclTensor* y1Out,
                                                   aclTensor* y2Out, aclTensor* xOut, aclTensor* rmsNormOut,
                                                   uint64_t* workspaceSize, aclOpExecutor** executor);
aclnnStatus aclnnAddRmsNormQuantV2(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                   aclrtStream stream);
/* outputMask: null, or which of the two results are wanted. */
aclnnStatus aclnnAddRmsNormDynamicQuantV2GetWorkspaceSize(
    const aclTensor* x1, const aclTensor* x2, const aclTensor* gamma, const aclTensor* smoothScale1Optional,
    const aclTensor* smoothScale2Optional, const aclTensor* betaOptional, double epsilon,
    const aclBoolArray* outputMask, aclTensor* y1Out, aclTensor* y2Out, aclTensor* xOut, aclTensor* scale1Out,
    aclTensor* scale2Out, uint64_t* workspaceSize, aclOpExecutor** executor);
aclnnStatus aclnnAddRmsNormDynamicQuantV2(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                          aclrtStream stream);

/* Products. */
aclnnStatus aclnnMmGetWorkspaceSize(const aclTensor* self, const aclTensor* mat2, aclTensor* out, int8_t cubeMathType,
                                    uint64_t* workspaceSize, aclOpExecutor** executor);
aclnnStatus aclnnMm(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
aclnnStatus aclnnQuantMatmulV3GetWorkspaceSize(const aclTensor* x1, const aclTensor* x2, const aclTensor* scale,
                                               const aclTensor* offset, const aclTensor* bias, bool transposeX1,
                                               bool transposeX2, const aclTensor* out, uint64_t* workspaceSize,
                                               aclOpExecutor** executor);
aclnnStatus aclnnQuantMatmulV3(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
/* Rewrites the weight, and what the tensor says of it, as FRACTAL_NZ where it lies. Its memory must have room for as
 * many elements as aclnnCalculateMatmulWeightSize() tells, which is for 16 bits; V2 for any dtype. */
aclnnStatus aclnnTransMatmulWeightGetWorkspaceSize(aclTensor* mmWeightRef, uint64_t* workspaceSize,
                                                   aclOpExecutor** executor);
aclnnStatus aclnnTransMatmulWeight(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                   aclrtStream stream);
aclnnStatus aclnnCalculateMatmulWeightSize(const aclIntArray* tensorShape, uint64_t* weightTensorSize);
aclnnStatus aclnnCalculateMatmulWeightSizeV2(const aclIntArray* tensorShape, aclDataType dataType,
                                             uint64_t* weightTensorSize);

/* Quantisation. With offsetOut: asymmetric. groupIndexOptional: where the rows of each expert end; smoothScales then
 * has a row for each. */
aclnnStatus aclnnDynamicQuantV2GetWorkspaceSize(const aclTensor* x, const aclTensor* smoothScalesOptional,
                                                const aclTensor* groupIndexOptional, int64_t dstType,
                                                const aclTensor* yOut, const aclTensor* scaleOut,
                                                const aclTensor* offsetOut, uint64_t* workspaceSize,
                                                aclOpExecutor** executor);
aclnnStatus aclnnDynamicQuantV2(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
/* Ascend 950 only. quantMode: "pertoken", "pertensor" or "perchannel". */
aclnnStatus aclnnDynamicQuantV3GetWorkspaceSize(const aclTensor* x, const aclTensor* smoothScalesOptional,
                                                const aclTensor* groupIndexOptional, int64_t dstType,
                                                bool isSymmetrical, const char* quantMode, const aclTensor* yOut,
                                                const aclTensor* scaleOut, const aclTensor* offsetOut,
                                                uint64_t* workspaceSize, aclOpExecutor** executor);
aclnnStatus aclnnDynamicQuantV3(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
/* Not for Ascend 950. */
aclnnStatus aclnnAscendQuantGetWorkspaceSize(const aclTensor* x, const aclTensor* scale, const aclTensor* offset,
                                             bool sqrtMode, const char* roundMode, int32_t dstType, const aclTensor* y,
                                             uint64_t* workspaceSize, aclOpExecutor** executor);
aclnnStatus aclnnAscendQuant(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);

/* Positions and attention. */
aclnnStatus aclnnApplyRotaryPosEmbGetWorkspaceSize(aclTensor* queryRef, aclTensor* keyRef, const aclTensor* cos,
                                                   const aclTensor* sin, int64_t layout, uint64_t* workspaceSize,
                                                   aclOpExecutor** executor);
aclnnStatus aclnnApplyRotaryPosEmb(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                   aclrtStream stream);
/* Of the releases whose V4 has learnableSinkOptional; one document lacks it. Not for Ascend 950. */
aclnnStatus aclnnFusedInferAttentionScoreV4GetWorkspaceSize(
    const aclTensor* query, const aclTensorList* key, const aclTensorList* value, const aclTensor* pseShiftOptional,
    const aclTensor* attenMaskOptional, const aclIntArray* actualSeqLengthsOptional,
    const aclIntArray* actualSeqLengthsKvOptional, const aclTensor* deqScale1Optional,
    const aclTensor* quantScale1Optional, const aclTensor* deqScale2Optional, const aclTensor* quantScale2Optional,
    const aclTensor* quantOffset2Optional, const aclTensor* antiquantScaleOptional,
    const aclTensor* antiquantOffsetOptional, const aclTensor* blockTableOptional,
    const aclTensor* queryPaddingSizeOptional, const aclTensor* kvPaddingSizeOptional,
    const aclTensor* keyAntiquantScaleOptional, const aclTensor* keyAntiquantOffsetOptional,
    const aclTensor* valueAntiquantScaleOptional, const aclTensor* valueAntiquantOffsetOptional,
    const aclTensor* keySharedPrefixOptional, const aclTensor* valueSharedPrefixOptional,
    const aclIntArray* actualSharedPrefixLenOptional, const aclTensor* queryRopeOptional,
    const aclTensor* keyRopeOptional, const aclTensor* keyRopeAntiquantScaleOptional,
    const aclTensor* dequantScaleQueryOptional, const aclTensor* learnableSinkOptional, int64_t numHeads,
    double scaleValue, int64_t preTokens, int64_t nextTokens, char* inputLayout, int64_t numKeyValueHeads,
    int64_t sparseMode, int64_t innerPrecise, int64_t blockSize, int64_t antiquantMode, bool softmaxLseFlag,
    int64_t keyAntiquantMode, int64_t valueAntiquantMode, int64_t queryQuantMode, const aclTensor* attentionOut,
    const aclTensor* softmaxLse, uint64_t* workspaceSize, aclOpExecutor** executor);
aclnnStatus aclnnFusedInferAttentionScoreV4(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                            aclrtStream stream);
aclnnStatus aclnnFusedInferAttentionScoreV4GetMaxWorkspaceSize(
    const aclTensor* query, const aclTensorList* key, const aclTensorList* value, const aclTensor* pseShiftOptional,
    const aclTensor* attenMaskOptional, const aclIntArray* actualSeqLengthsOptional,
    const aclIntArray* actualSeqLengthsKvOptional, const aclTensor* deqScale1Optional,
    const aclTensor* quantScale1Optional, const aclTensor* deqScale2Optional, const aclTensor* quantScale2Optional,
    const aclTensor* quantOffset2Optional, const aclTensor* antiquantScaleOptional,
    const aclTensor* antiquantOffsetOptional, const aclTensor* blockTableOptional,
    const aclTensor* queryPaddingSizeOptional, const aclTensor* kvPaddingSizeOptional,
    const aclTensor* keyAntiquantScaleOptional, const aclTensor* keyAntiquantOffsetOptional,
    const aclTensor* valueAntiquantScaleOptional, const aclTensor* valueAntiquantOffsetOptional,
    const aclTensor* keySharedPrefixOptional, const aclTensor* valueSharedPrefixOptional,
    const aclIntArray* actualSharedPrefixLenOptional, const aclTensor* queryRopeOptional,
    const aclTensor* keyRopeOptional, const aclTensor* keyRopeAntiquantScaleOptional,
    const aclTensor* dequantScaleQueryOptional, const aclTensor* learnableSinkOptional, int64_t numHeads,
    double scaleValue, int64_t preTokens, int64_t nextTokens, char* inputLayout, int64_t numKeyValueHeads,
    int64_t sparseMode, int64_t innerPrecise, int64_t blockSize, int64_t antiquantMode, bool softmaxLseFlag,
    int64_t keyAntiquantMode, int64_t valueAntiquantMode, int64_t queryQuantMode, const aclTensor* attentionOut,
    const aclTensor* softmaxLse, uint64_t* workspaceSize, aclOpExecutor** executor);

/* Mixture of experts. */
/* rowIdxOut numbers the choices, the first ones of all rows first. */
aclnnStatus aclnnMoeGatingTopKSoftmaxGetWorkspaceSize(const aclTensor* x, const aclTensor* finishedOptional, int64_t k,
                                                      const aclTensor* yOut, const aclTensor* expertIdxOut,
                                                      const aclTensor* rowIdxOut, uint64_t* workspaceSize,
                                                      aclOpExecutor** executor);
aclnnStatus aclnnMoeGatingTopKSoftmax(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                      aclrtStream stream);
/* groupSelectMode 0: a group counts as its best expert, 1: as its best two. normType 0: softmax, 1: sigmoid. */
aclnnStatus aclnnMoeGatingTopKGetWorkspaceSize(const aclTensor* x, const aclTensor* biasOptional, int64_t k,
                                               int64_t kGroup, int64_t groupCount, int64_t groupSelectMode,
                                               int64_t renorm, int64_t normType, bool outFlag,
                                               double routedScalingFactor, double eps, const aclTensor* yOut,
                                               const aclTensor* expertIdxOut, const aclTensor* outOut,
                                               uint64_t* workspaceSize, aclOpExecutor** executor);
aclnnStatus aclnnMoeGatingTopK(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
aclnnStatus aclnnMoeInitRoutingGetWorkspaceSize(const aclTensor* x, const aclTensor* rowIdx, const aclTensor* expertIdx,
                                                int64_t activeNum, const aclTensor* expandedXOut,
                                                const aclTensor* expandedRowIdxOut,
                                                const aclTensor* expandedExpertIdxOut, uint64_t* workspaceSize,
                                                aclOpExecutor** executor);
aclnnStatus aclnnMoeInitRouting(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
aclnnStatus aclnnMoeFinalizeRoutingGetWorkspaceSize(const aclTensor* expandedX, const aclTensor* x1,
                                                    const aclTensor* x2Optional, const aclTensor* bias,
                                                    const aclTensor* scales, const aclTensor* expandedRowIdx,
                                                    const aclTensor* expandedExpertIdx, const aclTensor* out,
                                                    uint64_t* workspaceSize, aclOpExecutor** executor);
aclnnStatus aclnnMoeFinalizeRouting(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                    aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif /* REPRISE_ACL_OPERATORS_MORE_H */
