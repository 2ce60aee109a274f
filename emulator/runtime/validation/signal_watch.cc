#include "emulator/runtime/validation/signal_watch.h"

#include <fmt/format.h>

namespace reprise::emulator {

void SignalWatch::word_written(const void* address, uint64_t value, const CallSite& site) {
  Word& word = words_[address];
  if (word.serves && word.unseen && word.value == value) {
    reporter_.report(Misuse::kEventReused,
                     fmt::format("the word at {} is set to {} again before a wait saw the first time: one of the two "
                                 "signals is lost",
                                 address, value),
                     {{"written", site}, {"written before", word.written}});
  }
  word.unseen = true;
  word.value = value;
  word.written = site;
}

void SignalWatch::word_seen(const void* address) {
  if (const auto word = words_.find(address); word != words_.end()) word->second.unseen = false;
}

void SignalWatch::words_forgotten(const void* begin, uint64_t bytes, bool freed) {
  const void* end = static_cast<const char*>(begin) + bytes;
  for (auto word = words_.lower_bound(begin); word != words_.end() && word->first < end;) {
    if (freed) {
      word = words_.erase(word);
    } else {
      word->second.unseen = false;
      ++word;
    }
  }
}

void SignalWatch::external_recorded(const void* event, bool raised, const CallSite& site) {
  CallSite& before = records_[event];
  if (raised) {
    reporter_.report(Misuse::kEventReused,
                     "an external event is recorded again before it was awaited and reset: one of the two records is "
                     "lost",
                     {{"recorded", site}, {"recorded before", before}});
  }
  before = site;
}

void SignalWatch::old_recorded(const void* event, uint64_t pending) {
  CallSite& before = records_[event];
  const CallSite here = CallSite::here();
  if (pending > 0 && before.known()) {
    reporter_.report(Misuse::kEventReused,
                     fmt::format("an event is recorded again while {} wait{} for its earlier record: which of the two "
                                 "ends the wait is open",
                                 pending, pending == 1 ? " is pending" : "s are pending"),
                     {{"recorded", here}, {"recorded before", before}});
  }
  before = here;
}

void SignalWatch::clear() {
  words_.clear();
  records_.clear();
}

}  // namespace reprise::emulator
