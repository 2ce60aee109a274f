#include "base/process_memory.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/mapped_file.h"

namespace reprise {
namespace {

/// A directory of its own, removed afterwards.
class Directory {
 public:
  Directory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "reprise_memory_XXXXXX").string();
    if (::mkdtemp(pattern.data()) != nullptr) path = pattern;
  }
  ~Directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  std::filesystem::path path;
};

TEST(ProcessMemory, ReadsWhatTheSystemTellsInBytes) {
  const Directory root;
  std::filesystem::create_directories(root.path / "proc/self");
  std::ofstream(root.path / "proc/self/status") << "Name:\tVmHWM: 7\nUmask:\t0022\nVmHWM:\t   12 kB\nVmRSS:\t   11 kB\n"
                                                << "RssAnon:\t    6 kB\nRssFile:\t  3 kB\nRssShmem:\t  2 kB\n";
  const ProcessMemory memory = process_memory(root.path);
  EXPECT_EQ(memory.peak_resident, 12u << 10);
  EXPECT_EQ(memory.resident, 11u << 10);
  EXPECT_EQ(memory.anonymous, 6u << 10);
  EXPECT_EQ(memory.file, 3u << 10);
  EXPECT_EQ(memory.shared, 2u << 10);
  EXPECT_EQ(process_memory(root.path / "nowhere").resident, 0u);
}

TEST(ProcessMemory, GrowsWithWhatIsTouched) {
  const ProcessMemory before = process_memory();
  std::vector<char> touched(size_t{64} << 20, 1);
  const ProcessMemory after = process_memory();
  EXPECT_GT(after.anonymous, before.anonymous + (size_t{60} << 20));
  EXPECT_GE(after.peak_resident, after.resident);
  EXPECT_EQ(touched[12345], 1);
}

TEST(MappedFile, PagesThatAreGivenBackDoNotCountAndAreReadAgain) {
  const Directory directory;
  constexpr size_t kBytes = size_t{32} << 20;
  std::ofstream(directory.path / "file") << std::string(kBytes, 'x');
  const auto file = MappedFile::open(directory.path / "file");
  const auto sum = [&] { return hash_bytes(file->bytes()); };
  const uint64_t first = sum();
  // In a tmpfs these pages count as shared.
  const auto mapped = [] { return process_memory().file + process_memory().shared; };
  const size_t before = mapped();
  file->release(4096, kBytes - 4097);
  EXPECT_LT(mapped(), before - (size_t{30} << 20));
  EXPECT_EQ(sum(), first);
}

TEST(Hash, IsFnv1aAndGoesOnOverPieces) {
  EXPECT_EQ(hash_text("a"), 0xAF63DC4C8601EC8Cu);
  EXPECT_EQ(hash_text("bc", hash_text("a")), hash_text("abc"));
  EXPECT_EQ(hash_bytes(std::as_bytes(std::span("abc", 3))), hash_text("abc"));
}

}  // namespace
}  // namespace reprise
