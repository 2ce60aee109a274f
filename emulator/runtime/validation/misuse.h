// What the validation layer finds, and where it says so.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/runtime/call_site.h"
#include "emulator/runtime/record_file.h"
#include "emulator/runtime/status.h"

namespace reprise::emulator {

enum class Misuse {
  kFreedMemoryReplayed,  // a replay uses memory that was freed after the capture
  kUpdateUnordered,      // nothing orders a task update and a replay of its kernels
  kPoolShared,           // two replays at once use memory that one of them writes
  kFreedBeforeGraph,     // memory is freed while a graph that uses it lives
  kEventReused,          // an event or a word is signalled again before anybody saw the first signal
  kHostMemoryChanged,    // the host changes memory under an asynchronous copy
  kDestroyedTwice,
  kUsedAfterDestroy,  // an operator's object is used after it was destroyed
  kLeak,              // alive when the device is reset or the interface ends
};
/// The name in reports: "freed-memory-replayed" ...
std::string_view name_of(Misuse misuse);

/// A call that is part of a misuse: "freed" and where.
struct Involved {
  std::string_view what;
  CallSite site;
};

/// Writes reports of several lines: what happened, then every call that is part of it. One pair of places is reported
/// once. Not synchronised.
class MisuseReporter {
 public:
  /// By REPRISE_ACL_VALIDATE: nothing or 0 is off, 1 writes to stderr, abort writes there and ends the process at the
  /// first report, anything else is the file to append to. Starts anew.
  Status open_environment();
  void close() { output_.close(); }
  bool on() const { return output_.is_open(); }
  /// Whether everything could be written.
  const Status& status() const { return output_.status(); }
  uint64_t reports() const { return reports_; }

  void report(Misuse misuse, std::string_view text, const std::vector<Involved>& involved);
  void write_summary();

 private:
  RecordFile output_{"REPRISE_ACL_VALIDATE"};
  bool abort_ = false;
  uint64_t reports_ = 0;
  std::set<std::string> known_;
};

}  // namespace reprise::emulator
