// The versions of aclnnFusedInferAttentionScore.
#include "emulator/operators/attention.h"

using namespace reprise::emulator;

namespace {

/// Arguments that belong to features which are not here.
void require_unused(std::initializer_list<const void*> pointers) {
  for (const void* pointer : pointers) require(pointer == nullptr, "an argument of a feature that is not supported");
}

/// A mode that turns on a feature which is not here, as an argument of that feature.
const void* feature_of(const int64_t& mode) { return mode == 0 ? nullptr : &mode; }

}  // namespace

// The parameters of all versions, but those that V3 to V5 have more.
#define ATTENTION_INPUTS                                                                                              \
  const aclTensor *query, const aclTensorList *key, const aclTensorList *value, const aclTensor *pseShiftOptional,    \
      const aclTensor *attenMaskOptional, const aclIntArray *actualSeqLengthsOptional,                                \
      const aclIntArray *actualSeqLengthsKvOptional, const aclTensor *deqScale1Optional,                              \
      const aclTensor *quantScale1Optional, const aclTensor *deqScale2Optional, const aclTensor *quantScale2Optional, \
      const aclTensor *quantOffset2Optional, const aclTensor *antiquantScaleOptional,                                 \
      const aclTensor *antiquantOffsetOptional, const aclTensor *blockTableOptional,                                  \
      const aclTensor *queryPaddingSizeOptional, const aclTensor *kvPaddingSizeOptional,                              \
      const aclTensor *keyAntiquantScaleOptional, const aclTensor *keyAntiquantOffsetOptional,                        \
      const aclTensor *valueAntiquantScaleOptional, const aclTensor *valueAntiquantOffsetOptional,                    \
      const aclTensor *keySharedPrefixOptional, const aclTensor *valueSharedPrefixOptional,                           \
      const aclIntArray *actualSharedPrefixLenOptional
#define ATTENTION_SCALARS                                                                                           \
  int64_t numHeads, double scaleValue, int64_t preTokens, int64_t nextTokens, char *inputLayout,                    \
      int64_t numKeyValueHeads, int64_t sparseMode, int64_t innerPrecise, int64_t blockSize, int64_t antiquantMode, \
      bool softmaxLseFlag, int64_t keyAntiquantMode, int64_t valueAntiquantMode
#define ATTENTION_OUTPUTS \
  const aclTensor *attentionOut, const aclTensor *softmaxLse, uint64_t *workspaceSize, aclOpExecutor **executor
#define ATTENTION_ATTRIBUTES ATTENTION_SCALARS, ATTENTION_OUTPUTS
#define ATTENTION_ROPE \
  const aclTensor *queryRopeOptional, const aclTensor *keyRopeOptional, const aclTensor *keyRopeAntiquantScaleOptional
#define ATTENTION_SINK const aclTensor *dequantScaleQueryOptional, const aclTensor *learnableSinkOptional
#define ATTENTION_NEWER ATTENTION_SINK, const aclIntArray *qStartIdxOptional, const aclIntArray *kvStartIdxOptional

// The names of these, for the trace.
#define INPUT_NAMES                                                                                              \
  query, key, value, pseShiftOptional, attenMaskOptional, actualSeqLengthsOptional, actualSeqLengthsKvOptional,  \
      deqScale1Optional, quantScale1Optional, deqScale2Optional, quantScale2Optional, quantOffset2Optional,      \
      antiquantScaleOptional, antiquantOffsetOptional, blockTableOptional, queryPaddingSizeOptional,             \
      kvPaddingSizeOptional, keyAntiquantScaleOptional, keyAntiquantOffsetOptional, valueAntiquantScaleOptional, \
      valueAntiquantOffsetOptional, keySharedPrefixOptional, valueSharedPrefixOptional, actualSharedPrefixLenOptional
#define SCALAR_NAMES                                                                                               \
  numHeads, scaleValue, preTokens, nextTokens, inputLayout, numKeyValueHeads, sparseMode, innerPrecise, blockSize, \
      antiquantMode, softmaxLseFlag, keyAntiquantMode, valueAntiquantMode
#define OUTPUT_NAMES attentionOut, softmaxLse
#define ROPE_NAMES queryRopeOptional, keyRopeOptional, keyRopeAntiquantScaleOptional
#define SINK_NAMES dequantScaleQueryOptional, learnableSinkOptional
#define NEWER_NAMES SINK_NAMES, qStartIdxOptional, kvStartIdxOptional

// The call that these parameters make, which are `given`; `unused` are more that must be null.
#define ATTENTION_CALL(name, given, largest, ...)                                                                     \
  return phase_one(                                                                                                   \
      name, given, workspaceSize, executor,                                                                           \
      [&](Plan& plan) {                                                                                               \
        require_unused({pseShiftOptional, deqScale1Optional, quantScale1Optional, deqScale2Optional,                  \
                        quantScale2Optional, quantOffset2Optional, antiquantScaleOptional, antiquantOffsetOptional,   \
                        queryPaddingSizeOptional, kvPaddingSizeOptional, keyAntiquantOffsetOptional,                  \
                        valueAntiquantOffsetOptional, keySharedPrefixOptional, valueSharedPrefixOptional,             \
                        actualSharedPrefixLenOptional, __VA_ARGS__});                                                 \
        require(innerPrecise >= 0 && innerPrecise <= 3 && antiquantMode == 0, "innerPrecise is {}, antiquantMode {}", \
                innerPrecise, antiquantMode);                                                                         \
        build_attention(plan, {.query = query,                                                                        \
                               .key = key,                                                                            \
                               .value = value,                                                                        \
                               .mask = attenMaskOptional,                                                             \
                               .lengths = actualSeqLengthsOptional,                                                   \
                               .kv_lengths = actualSeqLengthsKvOptional,                                              \
                               .block_table = blockTableOptional,                                                     \
                               .key_scale = keyAntiquantScaleOptional,                                                \
                               .value_scale = valueAntiquantScaleOptional,                                            \
                               .heads = numHeads,                                                                     \
                               .scale = scaleValue,                                                                   \
                               .before = preTokens,                                                                   \
                               .after = nextTokens,                                                                   \
                               .layout = inputLayout,                                                                 \
                               .kv_heads = numKeyValueHeads,                                                          \
                               .sparse_mode = sparseMode,                                                             \
                               .block_size = blockSize,                                                               \
                               .wants_log_sum_exp = softmaxLseFlag,                                                   \
                               .key_antiquant_mode = keyAntiquantMode,                                                \
                               .value_antiquant_mode = valueAntiquantMode,                                            \
                               .out = attentionOut,                                                                   \
                               .log_sum_exp = softmaxLse,                                                             \
                               .largest_workspace = largest});                                                        \
      },                                                                                                              \
      (largest) ? "GetMaxWorkspaceSize" : "GetWorkspaceSize")

extern "C" {

aclnnStatus aclnnFusedInferAttentionScoreV2GetWorkspaceSize(ATTENTION_INPUTS, ATTENTION_ATTRIBUTES) {
  ATTENTION_CALL("aclnnFusedInferAttentionScoreV2", EMULATOR_GIVEN(INPUT_NAMES, SCALAR_NAMES, OUTPUT_NAMES), false,
                 nullptr);
}

aclnnStatus aclnnFusedInferAttentionScoreV3GetWorkspaceSize(ATTENTION_INPUTS, ATTENTION_ROPE, ATTENTION_ATTRIBUTES) {
  ATTENTION_CALL("aclnnFusedInferAttentionScoreV3", EMULATOR_GIVEN(INPUT_NAMES, ROPE_NAMES, SCALAR_NAMES, OUTPUT_NAMES),
                 false, queryRopeOptional, keyRopeOptional, keyRopeAntiquantScaleOptional);
}

aclnnStatus aclnnFusedInferAttentionScoreV3GetMaxWorkspaceSize(ATTENTION_INPUTS, ATTENTION_ROPE, ATTENTION_ATTRIBUTES) {
  ATTENTION_CALL("aclnnFusedInferAttentionScoreV3", EMULATOR_GIVEN(INPUT_NAMES, ROPE_NAMES, SCALAR_NAMES, OUTPUT_NAMES),
                 true, queryRopeOptional, keyRopeOptional, keyRopeAntiquantScaleOptional);
}

aclnnStatus aclnnFusedInferAttentionScoreV4GetWorkspaceSize(ATTENTION_INPUTS, ATTENTION_ROPE, ATTENTION_SINK,
                                                            ATTENTION_SCALARS, int64_t queryQuantMode,
                                                            ATTENTION_OUTPUTS) {
  ATTENTION_CALL("aclnnFusedInferAttentionScoreV4",
                 EMULATOR_GIVEN(INPUT_NAMES, ROPE_NAMES, SINK_NAMES, SCALAR_NAMES, queryQuantMode, OUTPUT_NAMES), false,
                 queryRopeOptional, keyRopeOptional, keyRopeAntiquantScaleOptional, dequantScaleQueryOptional,
                 learnableSinkOptional, feature_of(queryQuantMode));
}

aclnnStatus aclnnFusedInferAttentionScoreV4GetMaxWorkspaceSize(ATTENTION_INPUTS, ATTENTION_ROPE, ATTENTION_SINK,
                                                               ATTENTION_SCALARS, int64_t queryQuantMode,
                                                               ATTENTION_OUTPUTS) {
  ATTENTION_CALL("aclnnFusedInferAttentionScoreV4",
                 EMULATOR_GIVEN(INPUT_NAMES, ROPE_NAMES, SINK_NAMES, SCALAR_NAMES, queryQuantMode, OUTPUT_NAMES), true,
                 queryRopeOptional, keyRopeOptional, keyRopeAntiquantScaleOptional, dequantScaleQueryOptional,
                 learnableSinkOptional, feature_of(queryQuantMode));
}

aclnnStatus aclnnFusedInferAttentionScoreV5GetWorkspaceSize(ATTENTION_INPUTS, ATTENTION_ROPE, ATTENTION_NEWER,
                                                            ATTENTION_SCALARS, int64_t queryQuantMode, int64_t pseType,
                                                            ATTENTION_OUTPUTS) {
  ATTENTION_CALL(
      "aclnnFusedInferAttentionScoreV5",
      EMULATOR_GIVEN(INPUT_NAMES, ROPE_NAMES, NEWER_NAMES, SCALAR_NAMES, queryQuantMode, pseType, OUTPUT_NAMES), false,
      queryRopeOptional, keyRopeOptional, keyRopeAntiquantScaleOptional, dequantScaleQueryOptional,
      learnableSinkOptional, qStartIdxOptional, kvStartIdxOptional, feature_of(queryQuantMode), feature_of(pseType));
}

aclnnStatus aclnnFusedInferAttentionScoreV5GetMaxWorkspaceSize(ATTENTION_INPUTS, ATTENTION_ROPE, ATTENTION_NEWER,
                                                               ATTENTION_SCALARS, int64_t queryQuantMode,
                                                               int64_t pseType, ATTENTION_OUTPUTS) {
  ATTENTION_CALL(
      "aclnnFusedInferAttentionScoreV5",
      EMULATOR_GIVEN(INPUT_NAMES, ROPE_NAMES, NEWER_NAMES, SCALAR_NAMES, queryQuantMode, pseType, OUTPUT_NAMES), true,
      queryRopeOptional, keyRopeOptional, keyRopeAntiquantScaleOptional, dequantScaleQueryOptional,
      learnableSinkOptional, qStartIdxOptional, kvStartIdxOptional, feature_of(queryQuantMode), feature_of(pseType));
}

}  // extern "C"

EMULATOR_PHASE_TWO(aclnnFusedInferAttentionScoreV2)
EMULATOR_PHASE_TWO(aclnnFusedInferAttentionScoreV3)
EMULATOR_PHASE_TWO(aclnnFusedInferAttentionScoreV4)
EMULATOR_PHASE_TWO(aclnnFusedInferAttentionScoreV5)
