// That weights are in memory once, wherever they come from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "base/mapped_file.h"
#include "device/cpu/cpu_device.h"
#include "kernels/cpu/register_cpu_kernels.h"
#include "load/checkpoint.h"
#include "load/safetensors_writer.h"
#include "model/factory.h"

namespace reprise::model {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::filesystem::path kModels = std::filesystem::path(REPRISE_SOURCE_DIR) / "tests/data/models";

/// Bytes by name.
using Contents = std::map<std::string, std::vector<std::byte>>;

class Weights : public ::testing::Test {
 protected:
  Weights() {
    kernels::cpu::register_cpu_kernels(registry_, kernels::cpu::instruction_set_from_environment());
    std::string pattern = (std::filesystem::temp_directory_path() / "reprise_weights_XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw Error(ErrorCode::kIo, "cannot make a temporary directory");
    directory_ = pattern;
  }
  ~Weights() override {
    std::error_code ignored;
    std::filesystem::permissions(directory_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(directory_, ignored);
  }

  std::unique_ptr<Model> load(const std::filesystem::path& model, std::optional<std::filesystem::path> cache = {},
                              DType dtype = DType::kBF16) {
    ModelOptions options;
    options.dtype = dtype;
    options.pack_cache = std::move(cache);
    return load_model(model, registry_, *device_, options);
  }
  /// A copy that a test may change.
  std::filesystem::path copy_of(const std::string& model) const {
    std::filesystem::copy(kModels / model, directory_ / model);
    return directory_ / model;
  }
  static Contents contents(const Model& model) {
    Contents result;
    for (const auto& [name, tensor] : model.named_parameters()) {
      // A packed weight that shares its storage ends where the next begins: compared is what all have.
      const bool packed = !tensor.format().is_plain() && tensor.offset_bytes() == 0;
      const size_t bytes = packed ? tensor.storage()->bytes() : tensor.meta().contiguous_bytes();
      const auto* data = static_cast<const std::byte*>(tensor.data());
      result[name].assign(data, data + bytes);
    }
    return result;
  }

  ops::Registry registry_ = ops::make_catalogue();
  std::unique_ptr<device::Device> device_ = device::cpu::create_cpu_device({.threads = 1});
  std::filesystem::path directory_;
};

TEST_F(Weights, MergedOnesLieOneAfterTheOtherAndAllAreThereOnce) {
  for (const char* name : {"dense", "dense-tied-bias", "dense-w8a8-dynamic", "moe", "moe-w8a8-ct"}) {
    SCOPED_TRACE(name);
    const size_t before = device_->memory_info().allocated_bytes;
    const std::unique_ptr<Model> model = load(kModels / name);
    std::map<std::string, Tensor> tensors;
    std::set<const Storage*> storages;
    size_t bytes = 0;
    for (const auto& [label, tensor] : model->named_parameters()) {
      tensors[label] = tensor;
      if (storages.insert(tensor.storage().get()).second) bytes += tensor.storage()->bytes();
    }
    const auto weight = [&](const std::string& layer) { return tensors.at("model.layers.1." + layer + ".weight"); };
    const auto follow = [&](std::initializer_list<const char*> layers) {
      size_t end = 0;
      for (const char* layer : layers) {
        EXPECT_EQ(weight(layer).storage(), weight(*layers.begin()).storage()) << layer;
        EXPECT_TRUE(weight(layer).offset_bytes() > end || (end == 0 && layer == *layers.begin())) << layer;
        end = weight(layer).offset_bytes();
      }
    };
    follow({"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"});
    if (tensors.contains("model.layers.1.mlp.gate_proj.weight")) follow({"mlp.gate_proj", "mlp.up_proj"});
    EXPECT_EQ(weight("self_attn.o_proj").offset_bytes(), 0u);
    EXPECT_FALSE(weight("self_attn.o_proj").format().is_plain());
    // The device's allocator rounds sizes up by a quarter at most. What lies in files and in host memory is less.
    EXPECT_LE(device_->memory_info().allocated_bytes - before, bytes + bytes / 4);
    EXPECT_EQ(model->load_report().weight_bytes, bytes);
    EXPECT_LE(model->load_report().mapped_bytes, bytes);
  }
}

TEST_F(Weights, TheProductsOfATokenAreCounted) {
  // Hidden size 96, 4 heads and 2 key/value heads of 32, 160 features, 2 layers, 512 tokens.
  constexpr int64_t kAttention = 96 * (128 + 2 * 64) + 128 * 96;
  constexpr int64_t kFeedForward = 3 * 96 * 160;
  const auto dense = load(kModels / "dense");
  EXPECT_EQ(dense->layer_products().floating, 2 * (kAttention + kFeedForward));
  EXPECT_EQ(dense->layer_products().int8, 0);
  EXPECT_EQ(dense->head_products().floating, 96 * 512);
  // Two of eight experts of 48 features for each token; the router stays float.
  const auto experts = load(kModels / "moe-w8a8-dynamic");
  EXPECT_EQ(experts->layer_products().floating, 2 * 96 * 8);
  EXPECT_EQ(experts->layer_products().int8, 2 * (kAttention + 2 * 3 * 96 * 48));
  EXPECT_EQ(experts->head_products().floating, 96 * 512);
}

TEST_F(Weights, FromACacheAreTheSameBitForBit) {
  for (const char* name : {"dense", "dense-mixed-dtype", "dense-tied-bias", "dense-sharded", "dense-w8a8-static",
                           "dense-w8a8-dynamic", "dense-w8a8-ct", "moe", "moe-sparse-step", "moe-w8a8-ct"}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      SCOPED_TRACE(fmt::format("{} {}", name, name_of(dtype)));
      const Contents without = contents(*load(kModels / name, {}, dtype));
      const std::filesystem::path cache = directory_ / "cache";
      const std::unique_ptr<Model> first = load(kModels / name, cache, dtype);
      EXPECT_THAT(first->load_report().pack_cache, StartsWith("written "));
      EXPECT_EQ(contents(*first), without);
      const std::unique_ptr<Model> second = load(kModels / name, cache, dtype);
      EXPECT_THAT(second->load_report().pack_cache, StartsWith("mapped "));
      EXPECT_EQ(contents(*second), without);
      EXPECT_EQ(second->load_report().weight_bytes, first->load_report().weight_bytes);
      EXPECT_GT(second->load_report().mapped_bytes, first->load_report().mapped_bytes);
    }
  }
}

TEST_F(Weights, ExpertsFromACacheCanBeMovedWhereThatIsAskedFor) {
  const auto load_placed = [&](std::optional<std::filesystem::path> cache) {
    ModelOptions options;
    options.dtype = DType::kBF16;
    options.pack_cache = std::move(cache);
    options.expert_placement.emplace().redundant = 3;
    return load_model(kModels / "moe-w8a8-ct", registry_, *device_, options);
  };
  const Contents exact = contents(*load_placed({}));
  // That of the model without copies has other stacks, and the same other weights.
  load(kModels / "moe-w8a8-ct", directory_ / "cache");
  EXPECT_THAT(load_placed(directory_ / "cache")->load_report().pack_cache, HasSubstr("does not have the weight"));
  const std::unique_ptr<Model> model = load_placed(directory_ / "cache");
  EXPECT_THAT(model->load_report().pack_cache, StartsWith("mapped "));
  EXPECT_EQ(contents(*model), exact);
  ExpertPlaces& places = *model->expert_places();
  const ExpertPlacement before = places.placement(0);
  ExpertPlacement reversed(before.rbegin(), before.rend());
  EXPECT_GT(places.move(0, reversed), 0);
  EXPECT_NE(contents(*model), exact);
  EXPECT_GT(places.move(0, before), 0);
  EXPECT_EQ(contents(*model), exact);
  EXPECT_EQ(contents(*load_placed(directory_ / "cache")), exact) << "the file is as it was";
}

TEST_F(Weights, ACacheThatDoesNotFitIsWrittenAgainWithTheReason) {
  const std::filesystem::path model = copy_of("dense");
  const std::filesystem::path file = model / "model.cpu.bfloat16.reprise-pack";
  const Contents exact = contents(*load(model, ""));
  const auto expect_repacked = [&](const std::string& reason) {
    const std::unique_ptr<Model> again = load(model, "");
    EXPECT_THAT(again->load_report().pack_cache, HasSubstr(reason));
    EXPECT_THAT(again->load_report().pack_cache, StartsWith("written "));
    EXPECT_EQ(contents(*again), exact);
    EXPECT_THAT(load(model, "")->load_report().pack_cache, StartsWith("mapped ")) << "it is mended";
  };
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  expect_repacked("bytes, not the");
  // That of another dtype, and of another model.
  load(model, "", DType::kF32);
  std::filesystem::copy_file(model / "model.cpu.float32.reprise-pack", file,
                             std::filesystem::copy_options::overwrite_existing);
  expect_repacked("its dtype is \"float32\"");
  const std::filesystem::path other = copy_of("dense-yarn");
  load(other, "");
  std::filesystem::copy_file(other / file.filename(), file, std::filesystem::copy_options::overwrite_existing);
  expect_repacked("model.safetensors");
  // Written again, with other numbers or the same.
  const auto time = std::filesystem::last_write_time(model / "model.safetensors");
  std::filesystem::last_write_time(model / "model.safetensors", time + std::chrono::seconds(1));
  expect_repacked("was written again");
  // A bit of the cache's weights.
  std::string packed = read_file(file);
  packed[4096 + 1000] = static_cast<char>(packed[4096 + 1000] ^ 1);
  std::ofstream(file, std::ios::binary) << packed;
  expect_repacked("the checksum of");
}

TEST_F(Weights, OtherNumbersInAFileOfTheSameTimeAreNotTakenFromTheCache) {
  const std::filesystem::path model = copy_of("dense");
  const Contents before = contents(*load(model, ""));
  const std::filesystem::path file = model / "model.safetensors";
  const auto time = std::filesystem::last_write_time(file);
  std::string data = read_file(file);
  for (size_t i = data.size() - 5000; i < data.size() - 4000; i += 2) data[i] = static_cast<char>(data[i] ^ 1);
  std::ofstream(file, std::ios::binary) << data;
  std::filesystem::last_write_time(file, time);
  const std::unique_ptr<Model> again = load(model, "");
  EXPECT_THAT(again->load_report().pack_cache, HasSubstr("holds other data"));
  EXPECT_NE(contents(*again), before);
  EXPECT_EQ(contents(*again), contents(*load(model)));
}

TEST_F(Weights, ACacheWithoutOneOfTheWeightsIsWrittenAgain) {
  const std::filesystem::path model = copy_of("dense");
  const std::filesystem::path file = model / "model.cpu.bfloat16.reprise-pack";
  const Contents exact = contents(*load(model, ""));
  // One weight under another name, and checksums that say it is well.
  std::string text = read_file(file);
  const size_t place = text.find("layers.1.mlp.down_proj");
  ASSERT_NE(place, std::string::npos);
  text[place + 7] = '7';
  const auto number = [&](size_t offset) {
    uint64_t value = 0;
    std::memcpy(&value, text.data() + offset, sizeof(value));
    return value;
  };
  const auto set_number = [&](size_t offset, uint64_t value) { std::memcpy(text.data() + offset, &value, 8); };
  set_number(32, hash_text(std::string_view(text).substr(number(16), number(24))));
  set_number(48, hash_text(std::string_view(text).substr(0, 48)));
  std::ofstream(file, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
  const std::unique_ptr<Model> again = load(model, "");
  EXPECT_THAT(again->load_report().pack_cache, HasSubstr("does not have the weight model.layers.1.mlp.down_proj"));
  EXPECT_EQ(contents(*again), exact);
  EXPECT_THAT(load(model, "")->load_report().pack_cache, StartsWith("mapped "));
}

/// The copy of a checkpoint with some tensors in another form.
void rewrite(const std::filesystem::path& model,
             const std::function<void(load::TensorSpec&, std::vector<std::byte>&)>& change) {
  std::vector<load::TensorSpec> specs;
  std::map<std::string, std::vector<std::byte>> bytes;
  {
    const load::Checkpoint checkpoint = load::Checkpoint::open(model);
    for (const load::StoredTensor& tensor : checkpoint.tensors()) {
      specs.push_back({tensor.name, tensor.dtype, tensor.shape});
      bytes[tensor.name].assign(tensor.bytes.begin(), tensor.bytes.end());
      change(specs.back(), bytes[tensor.name]);
    }
  }
  load::SafetensorsWriter writer(model / "model.safetensors", specs);
  for (const load::TensorSpec& spec : specs) writer.write(spec.name, bytes[spec.name]);
  writer.finish();
}

TEST_F(Weights, B31ScalesOfEquivalentShapesGiveTheSameBits) {
  const Contents exact = contents(*load(kModels / "dense-w8a8-ct"));
  const std::filesystem::path model = copy_of("dense-w8a8-ct");
  for (const bool in_one_row : {false, true}) {
    rewrite(model, [&](load::TensorSpec& spec, std::vector<std::byte>&) {
      if (!spec.name.ends_with(".weight_scale")) return;
      const Dim outputs = spec.shape.elements();
      spec.shape = in_one_row ? Shape{1, outputs} : Shape{outputs};
    });
    EXPECT_EQ(contents(*load(model)), exact);
  }
}

TEST_F(Weights, ARouterThatIgnoreDoesNotNameIsFloatAllTheSame) {
  const Contents exact = contents(*load(kModels / "moe-w8a8-ct"));
  const std::filesystem::path model = copy_of("moe-w8a8-ct");
  std::string config = read_file(model / "config.json");
  const std::string pattern = "re:.*mlp.gate$";
  config.replace(config.find(pattern), pattern.size(), "re:nothing");
  std::ofstream(model / "config.json") << config;
  EXPECT_EQ(contents(*load(model)), exact);
}

TEST_F(Weights, B32APlanHasTheVeryTensorsOfTheLoadedModel) {
  const auto forms = [](const Model& model) {
    std::map<std::string, std::string> result;
    for (const auto& [name, tensor] : model.named_parameters()) {
      result[name] =
          fmt::format("{} {} {}", name_of(tensor.dtype()), tensor.shape().to_string(), tensor.format().name());
    }
    return result;
  };
  // Query, key and value were calibrated apart there, and so do not share the scale of their input.
  const std::filesystem::path apart = kModels / "dense-w8a8-static";
  const std::filesystem::path together = copy_of("dense-w8a8-static");
  std::map<std::string, std::vector<std::byte>> first;
  rewrite(together, [&](load::TensorSpec& spec, std::vector<std::byte>& bytes) {
    const std::string suffix = spec.name.substr(spec.name.rfind('.'));
    if (suffix == ".input_scale" || suffix == ".input_offset") bytes = first.emplace(suffix, bytes).first->second;
  });
  const std::string scale = "model.layers.1.self_attn.k_proj.input_scale";
  for (const std::filesystem::path& model : {apart, together, kModels / "dense-mixed-dtype"}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      ModelOptions options;
      options.dtype = dtype;
      options.without_weights = true;
      const auto planned = forms(*load_model(model, registry_, *device_, options));
      EXPECT_EQ(planned, forms(*load(model, {}, dtype))) << model;
      EXPECT_EQ(planned.count(scale), model == apart ? 1u : 0u);
    }
  }
}

TEST_F(Weights, APlanNeedsNoWeightsButRefusesThoseThatDoNotFit) {
  const std::filesystem::path model = copy_of("dense");
  ModelOptions options;
  options.without_weights = true;
  rewrite(model, [&](load::TensorSpec& spec, std::vector<std::byte>&) {
    if (spec.name == "model.norm.weight") spec.shape = Shape{1, 96};
  });
  EXPECT_THROW(load_model(model, registry_, *device_, options), Error);
  std::filesystem::remove(model / "model.safetensors");
  EXPECT_NO_THROW(load_model(model, registry_, *device_, options));
}

TEST_F(Weights, B31B32B35WhatDoesNotFitIsRefusedBeforeAnythingIsAllocated) {
  const int64_t before = device_->counters().allocations;
  const auto expect_refused = [&](const std::filesystem::path& model, const std::string& name) {
    try {
      load(model, directory_ / "cache");
      ADD_FAILURE() << "accepted though " << name << " does not fit";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(name));
    }
    EXPECT_EQ(device_->counters().allocations, before);
    EXPECT_FALSE(std::filesystem::exists(directory_ / "cache"));
  };
  const std::string scale = "model.layers.1.mlp.up_proj.weight_scale";
  const std::filesystem::path compressed = copy_of("dense-w8a8-ct");
  rewrite(compressed, [&](load::TensorSpec& spec, std::vector<std::byte>& bytes) {
    if (spec.name != scale) return;
    spec.shape = Shape{1, 1};
    bytes.resize(size_of(spec.dtype));
  });
  expect_refused(compressed, scale);
  const std::string offset = "model.layers.0.self_attn.k_proj.weight_offset";
  const std::filesystem::path slim = copy_of("dense-w8a8-dynamic");
  rewrite(slim, [&](load::TensorSpec& spec, std::vector<std::byte>& bytes) {
    if (spec.name == offset) bytes[3] = std::byte{0x40};  // 2, or more
  });
  expect_refused(slim, offset);
  // One of gate and up is float by its description.
  const std::filesystem::path mixed = copy_of("dense-w8a8-static");
  std::string description = read_file(mixed / "quant_model_description.json");
  const std::string up = "\"model.layers.0.mlp.up_proj.";
  for (size_t place = description.find(up); place != std::string::npos; place = description.find(up, place + 1)) {
    const size_t value = description.find("\"W8A8\"", place);
    description.replace(value, 6, "\"FLOAT\"");
  }
  std::ofstream(mixed / "quant_model_description.json") << description;
  expect_refused(mixed, "model.layers.0.mlp.up_proj is FLOAT");
}

TEST_F(Weights, B82ADirectoryThatCannotBeWrittenCostsNothingButTheCache) {
  std::ofstream(directory_ / "file") << "x";
  const std::unique_ptr<Model> model = load(kModels / "dense", directory_ / "file" / "below");
  EXPECT_THAT(model->load_report().pack_cache, StartsWith("not written"));
  EXPECT_EQ(contents(*model), contents(*load(kModels / "dense")));
}

/// The system refuses to write on in the middle of the file, as a full disk does.
TEST_F(Weights, B82ADiskThatIsFullCostsNothingButTheCache) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{64 << 10, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  const std::unique_ptr<Model> model = load(kModels / "dense", directory_ / "cache");
  ::setrlimit(RLIMIT_FSIZE, &limit);
  ::signal(SIGXFSZ, handler);
  EXPECT_THAT(model->load_report().pack_cache, StartsWith("not written (cannot write "));
  EXPECT_EQ(contents(*model), contents(*load(kModels / "dense")));
  EXPECT_TRUE(std::filesystem::is_empty(directory_ / "cache"));
}

}  // namespace
}  // namespace reprise::model
