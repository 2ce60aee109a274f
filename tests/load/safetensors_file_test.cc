#include "load/safetensors_file.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstring>

#include "load/convert.h"
#include "load/mapping_guard.h"
#include "load/safetensors_writer.h"
#include "load/test_files.h"

namespace reprise::load {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::vector<float>& values) { return std::as_bytes(std::span(values)); }

TEST(SafetensorsFile, ReadsAReferenceCheckpoint) {
  const SafetensorsFile file = SafetensorsFile::open(data_directory() / "models" / "dense" / "model.safetensors");
  EXPECT_EQ(file.at("model.layers.0.self_attn.q_proj.weight").shape, (Shape{128, 96}));
  EXPECT_EQ(file.at("model.norm.weight").dtype, DType::kBF16);
  EXPECT_EQ(file.at("model.norm.weight").bytes.size(), 192u);
  EXPECT_EQ(file.find("model.missing"), nullptr);
  EXPECT_EQ(error_of([&] { file.at("model.missing"); }).code(), ErrorCode::kNotFound);
}

TEST(SafetensorsFile, TensorsOutliveTheFileObject) {
  StoredTensor kept;
  {
    const SafetensorsFile file = SafetensorsFile::open(data_directory() / "models" / "dense" / "expected.safetensors");
    kept = file.at("ids_0");
  }
  int32_t id = -1;
  ASSERT_EQ(kept.bytes.size(), sizeof(id));
  std::memcpy(&id, kept.bytes.data(), sizeof(id));
  EXPECT_GE(id, 0);
}

TEST(SafetensorsFile, DataAtOddAddressesIsRead) {
  TemporaryDirectory directory;
  // A header of an odd length puts the floats at an odd address.
  std::string header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  if (header.size() % 2 == 0) header += ' ';
  std::string file = raw_safetensors(header, 8);
  const float values[2] = {1.5f, -2.0f};
  std::memcpy(file.data() + 8 + header.size(), values, sizeof(values));
  write_text_file(directory / "m.safetensors", file);
  const SafetensorsFile opened = SafetensorsFile::open(directory / "m.safetensors");
  const StoredTensor& tensor = opened.at("w");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.bytes.data()) % 2, 1u);
  std::vector<float> read(2);
  convert_to_float(tensor.dtype, tensor.bytes, read);
  EXPECT_THAT(read, ElementsAre(1.5f, -2.0f));
}

TEST(SafetensorsWriter, RefusesToReplaceWhatIsNotARegularFile) {
  const std::filesystem::path directory = std::filesystem::path(testing::TempDir()) / "not_regular.safetensors";
  std::filesystem::create_directories(directory);
  for (const std::filesystem::path& path : {directory, std::filesystem::path("/dev/null")}) {
    try {
      SafetensorsWriter(path, {{"w", DType::kF32, {1}}});
      FAIL() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kIo);
      EXPECT_THAT(error.what(), testing::HasSubstr("not a regular file"));
    }
    EXPECT_FALSE(std::filesystem::exists(path.string() + ".partial"));
  }
}

TEST(SafetensorsWriter, WritesWhatTheReaderReads) {
  TemporaryDirectory directory;
  const std::vector<float> floats = {1, 2, 3, 4, 5, 6};
  const std::string flags("\1\0\1", 3);
  SafetensorsWriter writer(directory / "m.safetensors",
                           {{"flags", DType::kBool, Shape{3}},
                            {"w", DType::kF32, Shape{2, 3}},
                            {"scalar", DType::kF32, Shape{}},
                            {"none", DType::kI64, Shape{0, 4}}},
                           {{"format", "pt"}, {"note", "a \"quoted\" word"}});
  writer.write("flags", std::as_bytes(std::span(flags)));
  writer.append("w", bytes_of({1, 2}));
  writer.write("scalar", bytes_of({7}));
  EXPECT_FALSE(std::filesystem::exists(directory / "m.safetensors"));
  writer.append("w", bytes_of({3, 4, 5, 6}));
  writer.finish();
  EXPECT_FALSE(std::filesystem::exists(directory / "m.safetensors.partial"));
  EXPECT_EQ(std::filesystem::file_size(directory / "m.safetensors"), writer.file_bytes());

  const SafetensorsFile file = SafetensorsFile::open(directory / "m.safetensors");
  EXPECT_EQ(file.tensors().size(), 4u);
  EXPECT_EQ(file.metadata().at("note"), "a \"quoted\" word");
  const StoredTensor& tensor = file.at("w");
  EXPECT_EQ(tensor.shape, (Shape{2, 3}));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.bytes.data()) % 4, 0u);
  EXPECT_EQ(std::memcmp(tensor.bytes.data(), floats.data(), tensor.bytes.size()), 0);
  EXPECT_EQ(file.at("scalar").shape.rank(), 0u);
}

TEST(SafetensorsWriter, NamesOfAnyKindComeBack) {
  TemporaryDirectory directory;
  const std::string name = "a \"quoted\"\n\xc3\xa9 name";
  SafetensorsWriter writer(directory / "m.safetensors", {{name, DType::kI8, Shape{0}}, {"", DType::kI8, Shape{0}}}, {});
  writer.finish();
  const SafetensorsFile file = SafetensorsFile::open(directory / "m.safetensors");
  EXPECT_NE(file.find(name), nullptr);
  EXPECT_NE(file.find(""), nullptr);
  EXPECT_TRUE(file.metadata().empty());
}

TEST(SafetensorsWriter, RefusesWhatWasNotDeclared) {
  TemporaryDirectory directory;
  EXPECT_THAT(error_of([&] {
                SafetensorsWriter(directory / "d.safetensors",
                                  {{"w", DType::kF32, Shape{1}}, {"w", DType::kI8, Shape{1}}});
              }).what(),
              HasSubstr("declared twice"));
  EXPECT_THAT(
      error_of([&] { SafetensorsWriter(directory / "u.safetensors", {{"\xff", DType::kI8, Shape{1}}}); }).what(),
      HasSubstr("UTF-8"));
  SafetensorsWriter writer(directory / "m.safetensors", {{"w", DType::kF32, Shape{2}}});
  EXPECT_THAT(error_of([&] { writer.write("x", bytes_of({1, 2})); }).what(), HasSubstr("\"x\" was not declared"));
  EXPECT_EQ(error_of([&] { writer.write("w", bytes_of({1})); }).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of([&] { writer.append("w", bytes_of({1, 2, 3})); }).code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(error_of([&] { writer.finish(); }).what(), HasSubstr("\"w\" has 8 bytes, but 0 were written"));
}

TEST(SafetensorsWriter, AnUnfinishedFileLeavesNothing) {
  TemporaryDirectory directory;
  {
    SafetensorsWriter writer(directory / "m.safetensors", {{"w", DType::kF32, Shape{2}}});
    EXPECT_TRUE(std::filesystem::exists(directory / "m.safetensors.partial"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(SafetensorsWriter, ASecondWriterOfAFileIsRefusedUntilTheFirstIsDone) {
  TemporaryDirectory directory;
  const std::filesystem::path path = directory / "m.safetensors";
  SafetensorsWriter first(path, {{"w", DType::kF32, Shape{2}}});
  first.write("w", bytes_of({1, 2}));
  const Error refused = error_of([&] { SafetensorsWriter(path, {{"other", DType::kF32, Shape{1}}}); });
  EXPECT_EQ(refused.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.what(), HasSubstr("another writes it"));
  EXPECT_THAT(refused.what(), HasSubstr("m.safetensors"));
  first.finish();
  EXPECT_NE(SafetensorsFile::open(path).find("w"), nullptr);

  SafetensorsWriter second(path, {{"other", DType::kF32, Shape{1}}});
  second.write("other", bytes_of({3}));
  second.finish();
  EXPECT_NE(SafetensorsFile::open(path).find("other"), nullptr);
}

TEST(SafetensorsWriter, WhatAKilledWriterHasLeftIsReplaced) {
  TemporaryDirectory directory;
  write_text_file(directory / "m.safetensors.partial", std::string(4096, 'x'));
  SafetensorsWriter writer(directory / "m.safetensors", {{"w", DType::kF32, Shape{2}}});
  EXPECT_LT(std::filesystem::file_size(directory / "m.safetensors.partial"), 4096u);
  writer.write("w", bytes_of({1, 2}));
  writer.finish();
  EXPECT_EQ(SafetensorsFile::open(directory / "m.safetensors").tensors().size(), 1u);
}

TEST(SafetensorsWriter, AFullDiskIsAnErrorThatNamesTheFile) {
  TemporaryDirectory directory;
  const std::vector<float> values(4096, 1.0f);
  // A limit on file sizes fails the same call in the same way as a full disk does.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto previous = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limited{4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limited), 0);
  const Error error = error_of([&] {
    SafetensorsWriter writer(directory / "m.safetensors", {{"w", DType::kF32, Shape{4096}}});
    writer.write("w", bytes_of(values));
    writer.finish();
  });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, previous);
  EXPECT_EQ(error.code(), ErrorCode::kIo);
  EXPECT_THAT(error.what(), HasSubstr("m.safetensors"));
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

/// A good file to cut: one tensor of 64 KiB.
std::string make_model(const TemporaryDirectory& directory) {
  const std::filesystem::path path = directory / "model.safetensors";
  SafetensorsWriter writer(path, {{"w", DType::kF32, Shape{16384}}});
  writer.write("w", bytes_of(std::vector<float>(16384, 0.5f)));
  writer.finish();
  return path.string();
}

TEST(SafetensorsFile, B82FilesCutShortAreRefusedWhenOpened) {
  TemporaryDirectory directory;
  const std::string path = make_model(directory);
  const uintmax_t size = std::filesystem::file_size(path);
  for (const uintmax_t kept : {size - 1, size - 4096, size / 2, uintmax_t{40}, uintmax_t{8}, uintmax_t{0}}) {
    std::filesystem::resize_file(path, kept);
    const Error error = error_of([&] { SafetensorsFile::open(path); });
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData) << kept;
    EXPECT_THAT(error.what(), HasSubstr(path)) << kept;
  }
}

TEST(SafetensorsFile, B82DirectoriesFifosAndUnreadableFilesAreRefused) {
  TemporaryDirectory directory;
  ASSERT_EQ(::mkfifo((directory / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { SafetensorsFile::open(directory / "fifo"); }).code(), ErrorCode::kIo);
  EXPECT_EQ(error_of([&] { SafetensorsFile::open(directory.path()); }).code(), ErrorCode::kIo);
  EXPECT_EQ(error_of([&] { SafetensorsFile::open(directory / "missing"); }).code(), ErrorCode::kNotFound);
  const std::string path = make_model(directory);
  std::filesystem::permissions(path, std::filesystem::perms::none);
  if (::geteuid() != 0) {  // root reads everything
    EXPECT_EQ(error_of([&] { SafetensorsFile::open(path); }).code(), ErrorCode::kIo);
  }
}

TEST(SigbusGuardDeathTest, B82AFileCutWhileInUseEndsWithOneClearMessage) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  TemporaryDirectory directory;
  const std::string path = make_model(directory);
  EXPECT_EXIT(
      {
        install_sigbus_guard();
        const SafetensorsFile file = SafetensorsFile::open(path);
        std::filesystem::resize_file(path, 4096);
        std::vector<float> read(16384);
        convert_to_float(DType::kF32, file.at("w").bytes, read);
      },
      testing::ExitedWithCode(3), "model\\.safetensors was cut short or became unreadable while it was in use");
}

TEST(SigbusGuardDeathTest, B82OtherFaultsKeepTheirOldEnd) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  TemporaryDirectory directory;
  const std::string path = make_model(directory);
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, SIG_DFL);
        install_sigbus_guard();
        const auto unguarded = MappedFile::open(path);
        std::filesystem::resize_file(path, 0);
        volatile std::byte first = unguarded->bytes()[60000];
        static_cast<void>(first);
      },
      testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace reprise::load
