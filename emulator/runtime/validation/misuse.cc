#include "emulator/runtime/validation/misuse.h"

#include <fmt/format.h>

#include <cstdlib>

#include "emulator/runtime/settings.h"

namespace reprise::emulator {

std::string_view name_of(Misuse misuse) {
  switch (misuse) {
    case Misuse::kFreedMemoryReplayed:
      return "freed-memory-replayed";
    case Misuse::kUpdateUnordered:
      return "update-unordered";
    case Misuse::kPoolShared:
      return "pool-shared";
    case Misuse::kFreedBeforeGraph:
      return "freed-before-graph";
    case Misuse::kEventReused:
      return "event-reused";
    case Misuse::kHostMemoryChanged:
      return "host-memory-changed";
    case Misuse::kDestroyedTwice:
      return "destroyed-twice";
    case Misuse::kUsedAfterDestroy:
      return "used-after-destroy";
    case Misuse::kLeak:
      return "leak";
  }
  return "misuse";
}

Status MisuseReporter::open_environment() {
  output_.reset();
  reports_ = 0;
  known_.clear();
  const char* setting = std::getenv("REPRISE_ACL_VALIDATE");
  const std::string_view text = setting ? setting : "";
  if (text.empty() || text == "0") return {};
  abort_ = text == "abort";
  if (abort_ || text == "1") {
    output_.open_standard_error();
    return {};
  }
  const char* path = nullptr;
  if (Status status = read_file_name("REPRISE_ACL_VALIDATE", path); !status.ok()) return status;
  return output_.open(path);
}

void MisuseReporter::report(Misuse misuse, std::string_view text, const std::vector<Involved>& involved) {
  if (!on()) return;
  // The same two places again say nothing new, and loops would fill the disk.
  std::string key(name_of(misuse));
  for (const Involved& part : involved) {
    key += fmt::format("|{}{:x}", part.what, part.site.fingerprint());
  }
  if (!known_.insert(std::move(key)).second) return;
  ++reports_;
  std::string lines = fmt::format("acl validation: {}: {}\n", name_of(misuse), text);
  for (const Involved& part : involved) lines += fmt::format("  {}: {}\n", part.what, part.site.describe());
  output_.write(lines);
  if (abort_) std::abort();
}

void MisuseReporter::write_summary() {
  output_.write(fmt::format("acl validation: {} problem{}\n", reports_, reports_ == 1 ? "" : "s"));
}

}  // namespace reprise::emulator
