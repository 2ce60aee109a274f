#include "emulator/runtime/validation/update_watch.h"

namespace reprise::emulator {

void UpdateWatch::rewritten(const void* group, const OrderLine& line, const CallSite& update) {
  Group& known = groups_[group];
  for (const Access& read : known.reads) {
    if (line.follows(read.moment)) continue;
    reporter_.report(Misuse::kUpdateUnordered,
                     "a task update may rewrite kernels that an earlier replay has not read yet: nothing makes the "
                     "update wait for that replay",
                     {{"updated", update}, {"replayed", read.site}});
  }
  if (known.was_rewritten && !line.follows(known.rewrite.moment)) {
    reporter_.report(Misuse::kUpdateUnordered, "two task updates of one group have no order",
                     {{"updated", update}, {"updated before", known.rewrite.site}});
  }
  known = Group{true, {line.now(), update}, {}};
}

void UpdateWatch::read(const void* group, const OrderLine& line, const CallSite& replay) {
  Group& known = groups_[group];
  if (known.was_rewritten && !line.follows(known.rewrite.moment)) {
    reporter_.report(Misuse::kUpdateUnordered,
                     "a replay may run kernels before a task update has rewritten them: neither an external wait in "
                     "the graph nor a wait of the stream makes the replay wait for the update",
                     {{"replayed", replay}, {"updated", known.rewrite.site}});
  }
  // An update that follows this read follows those that this one follows.
  std::erase_if(known.reads, [&](const Access& read) { return line.follows(read.moment); });
  known.reads.push_back({line.now(), replay});
}

}  // namespace reprise::emulator
