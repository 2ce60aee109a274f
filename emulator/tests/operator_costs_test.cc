// What the operators' kernels tell the timing model, and how many blocks they are cut into.
#include <nlohmann/json.hpp>

#include "emulator/statistics.h"
#include "emulator/tests/operator_support.h"

namespace reprise::emulator {
namespace {

class OperatorCosts : public OperatorTest {
 protected:
  nlohmann::json since_reset() {
    std::string text(emulatorStatistics(0, nullptr, 0), ' ');
    emulatorStatistics(0, text.data(), text.size());
    return nlohmann::json::parse(text.c_str());
  }

  /// The blocks of the only kernel of an operator in a graph.
  uint32_t captured_blocks(const DeviceTensor& x) {
    aclmdlRI graph = nullptr;
    EXPECT_EQ(aclmdlRICaptureBegin(stream_, ACL_MODEL_RI_CAPTURE_MODE_RELAXED), ACL_SUCCESS);
    EXPECT_EQ(enqueue(BOTH(aclnnReciprocal), stream_, x.handle, x.handle), ACLNN_SUCCESS);
    EXPECT_EQ(aclmdlRICaptureEnd(stream_, &graph), ACL_SUCCESS);
    uint32_t count = 1;
    aclrtStream inner = nullptr;
    EXPECT_EQ(aclmdlRIGetStreams(graph, &inner, &count), ACL_SUCCESS);
    aclmdlRITask task = nullptr;
    EXPECT_EQ(aclmdlRIGetTasksByStream(inner, &task, &count), ACL_SUCCESS);
    aclmdlRITaskParams parameters{};
    EXPECT_EQ(aclmdlRITaskGetParams(task, &parameters), ACL_SUCCESS);
    EXPECT_EQ(aclmdlRIDestroy(graph), ACL_SUCCESS);
    return parameters.kernelTaskParams.numBlocks;
  }
};

TEST_F(OperatorCosts, AreThoseOfTheShapes) {
  constexpr int64_t m = 3, k = 40, n = 50;
  const DeviceTensor x = tensor({m, k}, ACL_BF16, random(m * k, ACL_BF16));
  const DeviceTensor w = tensor({k, n}, ACL_BF16, random(k * n, ACL_BF16));
  const DeviceTensor y = tensor({m, n}, ACL_BF16);
  emulatorResetStatistics(0);
  ASSERT_EQ(call(BOTH(aclnnMatmul), x.handle, w.handle, y.handle, int8_t{0}), ACLNN_SUCCESS);
  nlohmann::json cost = since_reset();
  EXPECT_EQ(cost["kernels"], 1);
  EXPECT_EQ(cost["multiply_adds"], m * k * n);
  EXPECT_EQ(cost["bytes_read"], 2 * (m * k + k * n));
  EXPECT_EQ(cost["bytes_written"], 2 * m * n);
  // Only the rows that are looked up are read.
  const DeviceTensor rows = tensor({2, n}, ACL_BF16);
  const DeviceTensor index = tensor({2}, ACL_INT32, {7, 30});
  emulatorResetStatistics(0);
  ASSERT_EQ(call(BOTH(aclnnEmbedding), w.handle, index.handle, rows.handle), ACLNN_SUCCESS);
  cost = since_reset();
  EXPECT_EQ(cost["bytes_read"], 2 * 2 * n + 8);
  // A weight is rewritten in two steps, through the workspace, with the padding of its blocks.
  const DeviceTensor memory = tensor({48 * 64}, ACL_BF16);
  emulatorResetStatistics(0);
  ASSERT_EQ(call(BOTH(aclnnTransMatmulWeight), view(memory, {k, n}, {n, 1}).handle), ACLNN_SUCCESS);
  cost = since_reset();
  EXPECT_EQ(cost["kernels"], 2);
  EXPECT_EQ(cost["bytes_read"], 2 * (k * n + 48 * 64));
  EXPECT_EQ(cost["bytes_written"], 2 * 2 * 48 * 64);
  // The row of scores, and what is chosen.
  const DeviceTensor best = tensor({m, 2}, ACL_BF16);
  emulatorResetStatistics(0);
  ASSERT_EQ(call(BOTH(aclnnTopk), x.handle, int64_t{2}, int64_t{1}, true, true, best.handle,
                 tensor({m, 2}, ACL_INT64).handle),
            ACLNN_SUCCESS);
  cost = since_reset();
  EXPECT_EQ(cost["bytes_read"], 2 * m * k);
  EXPECT_EQ(cost["bytes_written"], m * 2 * (2 + 8));
  // A view costs a kernel more, which makes it contiguous.
  emulatorResetStatistics(0);
  ASSERT_EQ(call(BOTH(aclnnSilu), view(w, {n, k}, {1, n}).handle, tensor({n, k}, ACL_BF16).handle), ACLNN_SUCCESS);
  EXPECT_EQ(since_reset()["kernels"], 2);
}

TEST_F(OperatorCosts, AreTheSameWithoutExecution) {
  constexpr int64_t rows = 64, columns = 1000;
  const auto run = [&] {
    const DeviceTensor x = tensor({rows, columns}, ACL_BF16);
    const DeviceTensor gamma = tensor({columns}, ACL_FLOAT);
    const DeviceTensor rstd = tensor({rows, 1}, ACL_FLOAT);
    emulatorResetStatistics(0);
    EXPECT_EQ(call(BOTH(aclnnRmsNorm), x.handle, gamma.handle, 1e-6, x.handle, rstd.handle), ACLNN_SUCCESS);
    const nlohmann::json cost = since_reset();
    return std::pair(cost["bytes_read"].get<uint64_t>(), cost["bytes_written"].get<uint64_t>());
  };
  const auto with_execution = run();
  EXPECT_EQ(with_execution.first, 2u * rows * columns + 4u * columns);
  EXPECT_EQ(with_execution.second, 2u * rows * columns + 4u * rows);
  forget();
  restart_with("REPRISE_ACL_EXECUTE", "0");
  EXPECT_EQ(run(), with_execution);
}

TEST_F(OperatorCosts, AreSpreadOverAsManyCoresAsTheStreamMayUse) {
  const DeviceTensor x = tensor({1 << 16}, ACL_FLOAT);
  uint32_t cores = 0;
  ASSERT_EQ(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_VECTOR_CORE, &cores), ACL_SUCCESS);
  EXPECT_EQ(captured_blocks(x), cores);
  ASSERT_EQ(aclrtSetStreamResLimit(stream_, ACL_RT_DEV_RES_VECTOR_CORE, 5), ACL_SUCCESS);
  ASSERT_EQ(aclrtUseStreamResInCurrentThread(stream_), ACL_SUCCESS);
  EXPECT_EQ(captured_blocks(x), 5u);
  EXPECT_EQ(captured_blocks(tensor({2048}, ACL_FLOAT)), 2u);
  ASSERT_EQ(aclrtUnuseStreamResInCurrentThread(stream_), ACL_SUCCESS);
}

}  // namespace
}  // namespace reprise::emulator
