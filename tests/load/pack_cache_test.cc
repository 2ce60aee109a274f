#include "load/pack_cache.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/hash.h"
#include "base/mapped_file.h"
#include "load/safetensors_writer.h"
#include "load/test_files.h"

namespace {

/// What flock() fails with, as on a file system without locks; 0: it locks.
std::atomic<int> g_flock_failure = 0;

}  // namespace

/// Stands before the C library's.
extern "C" int flock(int descriptor, int operation) noexcept {
  if (g_flock_failure == 0) return static_cast<int>(::syscall(SYS_flock, descriptor, operation));
  errno = g_flock_failure;
  return -1;
}

namespace reprise::load {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

PackIdentity identity() {
  return {"cpu",
          "float32 n16, int8 n16k4",
          77,
          "bfloat16",
          {{"a.safetensors", 100, 5, 9, 6}, {"b.safetensors", 1, 2, 3, 4}}};
}

/// What a piece holds: bytes that tell its number and their place.
std::byte value_of(size_t index, uint64_t place, int salt) {
  return static_cast<std::byte>(index * 89 + place * 7 + place / 251 + static_cast<uint64_t>(salt));
}

const std::vector<PackEntry> kEntries = {{"first", 11, 10'000}, {"second", 12, 4096}, {"third", 13, 1}};

void write(const std::filesystem::path& path, const PackIdentity& wanted = identity(), int salt = 0) {
  write_pack_cache(path, wanted, kEntries, [salt](size_t index, uint64_t offset, std::span<std::byte> to) {
    for (size_t i = 0; i < to.size(); ++i) to[i] = value_of(index, offset + i, salt);
  });
}

/// Whether every piece is there as it was written with one salt, which it returns.
std::optional<int> salt_of(const PackCache& cache) {
  const int salt = std::to_integer<int>(cache.find(kEntries[0])[0]);
  for (size_t i = 0; i < kEntries.size(); ++i) {
    const std::span<const std::byte> bytes = cache.find(kEntries[i]);
    if (bytes.size() != kEntries[i].bytes) return std::nullopt;
    for (size_t k = 0; k < bytes.size(); ++k) {
      if (bytes[k] != value_of(i, k, salt)) return std::nullopt;
    }
  }
  return salt;
}

class PackCacheTest : public ::testing::Test {
 protected:
  Error refused(const PackIdentity& wanted = identity()) const {
    return error_of([&] { PackCache::open(path_, wanted); });
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_ / "model.pack";
};

TEST_F(PackCacheTest, GivesBackWhatWasWrittenAndNothingElse) {
  write(path_);
  const PackCache cache = PackCache::open(path_, identity());
  EXPECT_EQ(salt_of(cache), 0);
  EXPECT_TRUE(cache.find({"first", 12, 10'000}).empty()) << "made of other tensors";
  EXPECT_TRUE(cache.find({"first", 11, 9'999}).empty());
  EXPECT_TRUE(cache.find({"fourth", 11, 10'000}).empty());
  EXPECT_EQ(files(), std::vector<std::string>{"model.pack"});
}

TEST_F(PackCacheTest, EveryFieldOfTheIdentityIsChecked) {
  write(path_);
  const std::pair<const char*, std::function<void(PackIdentity&)>> cases[] = {
      {"device", [](PackIdentity& wanted) { wanted.device = "other"; }},
      {"formats", [](PackIdentity& wanted) { wanted.formats += ", bfloat16 n32"; }},
      {"laid out", [](PackIdentity& wanted) { ++wanted.layout; }},
      {"dtype", [](PackIdentity& wanted) { wanted.dtype = "float32"; }},
      {"2 files", [](PackIdentity& wanted) { wanted.sources.pop_back(); }},
      {"c.safetensors", [](PackIdentity& wanted) { wanted.sources[1].name = "c.safetensors"; }},
      {"b.safetensors had 1 bytes and has 4", [](PackIdentity& wanted) { wanted.sources[1].bytes = 4; }},
      {"a.safetensors was written again", [](PackIdentity& wanted) { ++wanted.sources[0].modified_ns; }},
      {"b.safetensors holds other data", [](PackIdentity& wanted) { ++wanted.sources[1].sample_hash; }},
      {"a.safetensors had other tensors", [](PackIdentity& wanted) { ++wanted.sources[0].header_hash; }},
  };
  for (const auto& [reason, change] : cases) {
    PackIdentity wanted = identity();
    change(wanted);
    EXPECT_EQ(refused(wanted).code(), ErrorCode::kFailedPrecondition) << reason;
    EXPECT_THAT(refused(wanted).what(), HasSubstr(reason));
  }
}

TEST_F(PackCacheTest, AnotherVersionIsRefusedBeforeAnythingElseIsRead) {
  write(path_);
  std::string file = read_file(path_);
  file[8] = 3;
  write_text_file(path_, file.substr(0, 100));
  EXPECT_EQ(refused().code(), ErrorCode::kFailedPrecondition);
  EXPECT_THAT(refused().what(), AllOf(HasSubstr("version 3"), HasSubstr("has 2")));
}

TEST_F(PackCacheTest, B82ACutFileIsRefusedWhereverItIsCut) {
  write(path_);
  const std::string file = read_file(path_);
  for (const size_t kept :
       {size_t{0}, size_t{7}, size_t{55}, size_t{56}, size_t{4096}, size_t{9000}, file.size() / 2, file.size() - 1}) {
    write_text_file(path_, file.substr(0, kept));
    EXPECT_EQ(refused().code(), ErrorCode::kCorruptData) << kept;
  }
  write_text_file(path_, file + "x");
  EXPECT_THAT(refused().what(), HasSubstr(fmt::format("{} bytes, not the {}", file.size() + 1, file.size())));
}

TEST_F(PackCacheTest, AFlippedBitIsFoundEverywhereInASmallFile) {
  write(path_);
  const std::string file = read_file(path_);
  uint64_t header = 0;
  std::memcpy(&header, file.data() + 16, sizeof(header));
  std::vector<size_t> places;
  for (size_t i = 0; i < 56; ++i) places.push_back(i);
  for (size_t i = header; i < file.size(); i += 3) places.push_back(i);
  for (const size_t piece : {4096, 4096 + 9999, 16384, 16384 + 4095, 20480}) places.push_back(piece);
  for (const size_t place : places) {
    std::string flipped = file;
    flipped[place] = static_cast<char>(flipped[place] ^ 4);
    write_text_file(path_, flipped);
    EXPECT_THAT(refused().code(), ::testing::AnyOf(ErrorCode::kCorruptData, ErrorCode::kFailedPrecondition)) << place;
  }
}

/// The pages of a large weight that are looked at, and the rest, which is not read.
TEST_F(PackCacheTest, LostPagesOfALargeWeightAreFoundByItsSamples) {
  constexpr uint64_t kBytes = uint64_t{4} << 20;
  const std::vector<PackEntry> entries = {{"large", 1, kBytes}};
  write_pack_cache(path_, identity(), entries, [](size_t index, uint64_t offset, std::span<std::byte> to) {
    for (size_t i = 0; i < to.size(); ++i) to[i] = value_of(index, offset + i, 0);
  });
  const std::string file = read_file(path_);
  for (const auto& [begin, bytes] : std::initializer_list<std::pair<uint64_t, uint64_t>>{
           {0, 1}, {kBytes - 1, 1}, {kBytes / 3, kBytes / 15}, {0, kBytes}}) {
    std::string lost = file;
    for (uint64_t i = begin; i < begin + bytes; ++i) lost[4096 + i] = static_cast<char>(~lost[4096 + i]);
    write_text_file(path_, lost);
    EXPECT_EQ(refused().code(), ErrorCode::kCorruptData);
    EXPECT_THAT(refused().what(), HasSubstr("checksum of \"large\""));
  }
}

TEST_F(PackCacheTest, SourcesDifferWhereverTheirDataDoesAndInEachTensorOfALargeFile) {
  const std::filesystem::path path = directory_ / "model.safetensors";
  const auto hash_with = [&](int64_t rows, size_t changed, uint64_t first, uint64_t count) {
    const std::vector<TensorSpec> specs = {{"a", DType::kI8, Shape{rows, 1024}}, {"b", DType::kI8, Shape{rows, 1024}}};
    SafetensorsWriter writer(path, specs);
    for (size_t i = 0; i < specs.size(); ++i) {
      std::vector<std::byte> bytes(specs[i].bytes());
      for (uint64_t at = first; i == changed && at < first + count; ++at) bytes[at] = std::byte{1};
      writer.write(specs[i].name, bytes);
    }
    writer.finish();
    return pack_sources(Checkpoint::open(path))[0].sample_hash;
  };
  const uint64_t small = hash_with(100, 0, 0, 0);
  EXPECT_EQ(hash_with(100, 0, 0, 0), small);
  for (const uint64_t at : {0, 5000, 102399}) EXPECT_NE(hash_with(100, 1, at, 1), small) << at;
  // 16 MiB each: all of one, and what lies in its middle.
  const uint64_t large = hash_with(16384, 0, 0, 0);
  EXPECT_NE(hash_with(16384, 1, 0, uint64_t{16} << 20), large);
  EXPECT_NE(hash_with(16384, 0, (uint64_t{8} << 20) - 2048, 4096), large);
}

/// A header whose checksums are right, and which lies.
TEST_F(PackCacheTest, PlacesOutsideOfTheWeightsAreRefused) {
  write(path_);
  const std::string file = read_file(path_);
  uint64_t offset = 0;
  std::memcpy(&offset, file.data() + 16, sizeof(offset));
  const std::string place = R"("offset":4096)";
  const size_t at = file.find(place, offset);
  ASSERT_NE(at, std::string::npos);
  const auto with_offset = [&](const std::string& lie) {
    std::string forged = file;
    forged.replace(at, place.size(), R"("offset":)" + lie);
    const auto bytes = std::as_bytes(std::span(forged));
    const uint64_t fields[] = {forged.size() - offset, hash_bytes(bytes.subspan(offset)), forged.size()};
    std::memcpy(forged.data() + 24, fields, sizeof(fields));
    const uint64_t hash = hash_bytes(bytes.first(48));
    std::memcpy(forged.data() + 48, &hash, sizeof(hash));
    return forged;
  };
  write_text_file(path_, with_offset("4096"));
  EXPECT_EQ(salt_of(PackCache::open(path_, identity())), 0);
  const std::string behind = std::to_string(offset);
  for (const char* lie : {"0", "8", "-4096", "18446744073709547520", "1e300", "4096.5", "null", behind.c_str()}) {
    write_text_file(path_, with_offset(lie));
    EXPECT_EQ(refused().code(), ErrorCode::kCorruptData) << lie;
  }
}

TEST_F(PackCacheTest, WritersAtTheSameTimeLeaveOneWholeFile) {
  std::vector<std::jthread> writers;
  for (int salt = 0; salt < 6; ++salt) {
    writers.emplace_back([&, salt] {
      for (int i = 0; i < 5; ++i) write(path_, identity(), salt);
    });
  }
  write(path_);
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(salt_of(PackCache::open(path_, identity())).has_value());
  writers.clear();
  EXPECT_TRUE(salt_of(PackCache::open(path_, identity())).has_value());
  EXPECT_EQ(files(), std::vector<std::string>{"model.pack"});
}

TEST_F(PackCacheTest, WhatAKilledWriterLeftIsRemovedAndOtherFilesStay) {
  for (const char* name : {"model.pack.AbCdEf.partial", "other.pack.AbCdEf.partial", "model.pack.old"}) {
    write_text_file(directory_ / name, "left");
  }
  write(path_);
  std::vector<std::string> left = files();
  std::ranges::sort(left);
  EXPECT_EQ(left, (std::vector<std::string>{"model.pack", "model.pack.old", "other.pack.AbCdEf.partial"}));
}

TEST_F(PackCacheTest, AFileSystemWithoutLocksHoldsOneToo) {
  write_text_file(directory_ / "model.pack.0badcafe.partial", "perhaps somebody's");
  g_flock_failure = ENOLCK;
  write(path_);
  g_flock_failure = 0;
  EXPECT_EQ(salt_of(PackCache::open(path_, identity())), 0);
  EXPECT_EQ(files().size(), 2) << "nobody can tell whether a leftover is one";
}

TEST_F(PackCacheTest, WhoMayReadItIsForTheUsersMaskToSay) {
  const mode_t before = ::umask(0077);
  write(path_);
  ::umask(0022);
  write(directory_ / "open.pack");
  ::umask(before);
  using std::filesystem::perms;
  EXPECT_EQ(std::filesystem::status(path_).permissions(), perms::owner_read | perms::owner_write);
  EXPECT_EQ(std::filesystem::status(directory_ / "open.pack").permissions(),
            perms::owner_read | perms::owner_write | perms::group_read | perms::others_read);
}

TEST_F(PackCacheTest, SourcesAreTheFilesThatWereOpenedWhateverTakesTheirPlace) {
  const std::filesystem::path file = directory_ / "model.safetensors";
  const std::string content = raw_safetensors(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8);
  write_text_file(file, content);
  const Checkpoint checkpoint = Checkpoint::open(file);
  const std::vector<PackSource> before = pack_sources(checkpoint);
  ASSERT_EQ(before.size(), 1);
  // Other weights of the same shapes, a second later.
  write_text_file(directory_ / "new", content.substr(0, content.size() - 1) + "!");
  const auto later = std::filesystem::last_write_time(file) + std::chrono::seconds(1);
  std::filesystem::last_write_time(directory_ / "new", later);
  std::filesystem::rename(directory_ / "new", file);
  EXPECT_EQ(pack_sources(checkpoint), before);
  EXPECT_NE(pack_sources(Checkpoint::open(file)), before);
}

TEST_F(PackCacheTest, AFailureLeavesTheOldFileAndNoOther) {
  write(path_, identity(), 3);
  const auto failing = [](size_t index, uint64_t, std::span<std::byte>) {
    if (index == 1) throw Error(ErrorCode::kIo, "cannot read");
  };
  EXPECT_THAT(error_of([&] { write_pack_cache(path_, identity(), kEntries, failing); }).what(),
              HasSubstr("cannot read"));
  EXPECT_EQ(salt_of(PackCache::open(path_, identity())), 3);
  EXPECT_EQ(files(), std::vector<std::string>{"model.pack"});
  write_text_file(directory_ / "file", "");
  EXPECT_EQ(error_of([&] { write(directory_ / "file" / "model.pack"); }).code(), ErrorCode::kIo);
}

TEST(PackCachePath, TellsModelsDevicesAndDtypesApart) {
  const TemporaryDirectory directory;
  std::filesystem::create_directories(directory / "one/mini");
  std::filesystem::create_directories(directory / "two/mini");
  const auto path = [](const std::filesystem::path& model, const std::string& to, const char* dtype) {
    return pack_cache_path(model, to, "cpu", dtype);
  };
  const std::filesystem::path model = std::filesystem::canonical(directory / "one/mini");
  EXPECT_EQ(path(model, "", "float32"), model / "model.cpu.float32.reprise-pack");
  EXPECT_EQ(path(model / "w.safetensors", "", "float32"), model / "w.cpu.float32.reprise-pack");
  EXPECT_NE(path(model, "to", "float32"), path(model, "to", "bfloat16"));
  EXPECT_NE(path(model, "to", "float32"), path(directory / "two/mini", "to", "float32"));
  EXPECT_EQ(path(model, "to", "float32"), path(model / ".." / "mini", "to", "float32"));
  EXPECT_EQ(path(model, "to", "float32").parent_path(), "to");
  EXPECT_THAT(path(model, "to", "float32").filename().string(), ::testing::StartsWith("mini-"));
}

}  // namespace
}  // namespace reprise::load
