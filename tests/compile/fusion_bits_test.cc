// The graphs of tests/data/passes give the same bits before and after the standard passes: results, and what they leave
// in inputs and parameters.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "compile/executable.h"
#include "compile/pass_manager.h"
#include "device/cpu/cpu_device.h"
#include "graph/text_parser.h"
#include "graph/text_writer.h"
#include "kernels/cpu/register_cpu_kernels.h"

namespace reprise::compile {
namespace {

const std::filesystem::path kData = std::filesystem::path(REPRISE_SOURCE_DIR) / "tests/data/passes";
constexpr int64_t kTokens = 5;

class FusionBits : public ::testing::TestWithParam<std::string> {
 protected:
  FusionBits() : registry_(ops::make_catalogue()), device_(device::cpu::create_cpu_device({.threads = 2})) {
    kernels::cpu::register_cpu_kernels(registry_);
  }

  graph::Graph read_graph() {
    std::ifstream file(kData / (GetParam() + ".in.txt"));
    std::ostringstream text;
    text << file.rdbuf();
    return graph::parse(text.str(), registry_);
  }

  /// Numbers that depend on the name alone; integers are row numbers, none of them twice.
  Tensor make_tensor(const std::string& name, TensorMeta meta) {
    const std::vector<int64_t> symbols = {kTokens, kTokens};
    meta.shape = meta.shape.at(symbols);
    const auto count = static_cast<size_t>(meta.shape.elements());
    std::seed_seq seed(name.begin(), name.end());
    std::mt19937 random(seed);
    // Packed int8 weights hold more than their elements; any bytes will do.
    const bool is_bytes = meta.dtype == DType::kI8;
    std::vector<std::byte> bytes((is_bytes ? 2 : 1) * meta.contiguous_bytes());
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(is_bytes ? random() : 0);
    for (size_t i = 0; i < count && !is_bytes; ++i) {
      const float value = static_cast<float>(random() % 4001) / 1000.0f - 2.0f;
      if (meta.dtype == DType::kI32) {
        const auto row = static_cast<int32_t>(count - 1 - i);
        std::memcpy(bytes.data() + i * 4, &row, 4);
      } else if (meta.dtype == DType::kF32) {
        std::memcpy(bytes.data() + i * 4, &value, 4);
      } else {
        uint32_t bits = 0;
        std::memcpy(&bits, &value, 4);
        const auto upper = static_cast<uint16_t>(bits >> 16);
        std::memcpy(bytes.data() + i * 2, &upper, 2);
      }
    }
    Tensor tensor(meta, device_->allocate(std::max<size_t>(bytes.size(), 64)));
    device_->copy(tensor.data(), bytes.data(), bytes.size(), device::CopyKind::kHostToDevice);
    return tensor;
  }

  std::vector<std::byte> contents(const Tensor& tensor) {
    std::vector<std::byte> bytes(tensor.meta().contiguous_bytes());
    device_->copy(bytes.data(), tensor.data(), bytes.size(), device::CopyKind::kDeviceToHost);
    return bytes;
  }

  /// Everything that can be seen of a run.
  std::vector<std::vector<std::byte>> run(bool optimised) {
    graph::Graph graph = read_graph();
    std::vector<Tensor> outside;
    for (const graph::ValueId id : graph.parameters()) {
      outside.push_back(make_tensor(graph.value(id).label, graph.value(id).meta));
      graph.bind_parameter(id, outside.back());
    }
    std::vector<Tensor> inputs;
    for (const graph::ValueId id : graph.inputs()) {
      inputs.push_back(make_tensor(graph.value(id).name, graph.value(id).meta));
      outside.push_back(inputs.back());
    }
    const size_t symbols = graph.symbols().size();
    (optimised ? PassManager::standard(registry_, {.device = "cpu"}) : PassManager::lowering(registry_)).run(graph);
    SCOPED_TRACE(graph::to_text(graph));
    const Executable executable(std::move(graph), "cpu", std::vector<int64_t>(symbols, 8));
    const auto arena = device_->allocate(std::max<size_t>(executable.arena_bytes(), 64));
    device_->fill(arena->data(), 0xFF, arena->bytes());
    const auto bound = executable.bind(std::vector<int64_t>(symbols, kTokens), arena, inputs);
    bound->run(device_->default_stream(), {});
    device_->default_stream().synchronize();
    std::vector<std::vector<std::byte>> seen;
    for (const Tensor& output : bound->outputs()) {
      EXPECT_TRUE(output.is_contiguous());
      seen.push_back(contents(output));
    }
    for (const Tensor& tensor : outside) seen.push_back(contents(tensor));
    return seen;
  }

  ops::Registry registry_;
  std::unique_ptr<device::Device> device_;
};

/// All but the two whose weights are not packed, which kernels demand.
std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const auto& file : std::filesystem::directory_iterator(kData)) {
    std::string name = file.path().filename().string();
    if (!name.ends_with(".in.txt")) continue;
    name.resize(name.size() - std::string_view(".in.txt").size());
    if (name != "merge_linears" && name != "gather_early") result.push_back(name);
  }
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace

TEST_P(FusionBits, StayTheSame) { EXPECT_EQ(run(true), run(false)); }

INSTANTIATE_TEST_SUITE_P(Graphs, FusionBits, ::testing::ValuesIn(names()), [](const auto& tested) {
  std::string name = tested.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace reprise::compile
