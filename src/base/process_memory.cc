#include "base/process_memory.h"

#include <fstream>
#include <limits>
#include <string>
#include <utility>

namespace reprise {

ProcessMemory process_memory(const std::filesystem::path& root) {
  ProcessMemory memory;
  const std::pair<const char*, size_t*> wanted[] = {{"VmHWM:", &memory.peak_resident},
                                                    {"VmRSS:", &memory.resident},
                                                    {"RssAnon:", &memory.anonymous},
                                                    {"RssFile:", &memory.file},
                                                    {"RssShmem:", &memory.shared}};
  std::ifstream file(root / "proc/self/status");
  std::string word;
  while (file >> word) {
    for (const auto& [name, value] : wanted) {
      size_t kilobytes = 0;
      if (word == name && file >> kilobytes) *value = kilobytes * 1024;
    }
    file.clear();
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return memory;
}

}  // namespace reprise
