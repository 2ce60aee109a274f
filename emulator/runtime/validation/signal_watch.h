// Signals that are given again before anybody saw the first.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>

#include "emulator/runtime/validation/misuse.h"

namespace reprise::emulator {

/// Words that graphs wait for, known by address, and external events and events of the old kind, known by handle. One
/// record answers one wait there: a second record before the wait is lost. Not synchronised.
class SignalWatch {
 public:
  explicit SignalWatch(MisuseReporter& reporter) : reporter_(reporter) {}

  /// A graph waits for the word: it serves as an event.
  void awaited_by_graph(const void* word) { words_[word].serves = true; }
  void word_written(const void* word, uint64_t value, const CallSite& site);
  /// A wait for it is over.
  void word_seen(const void* word);
  /// Copies and fills put other values there, or the memory is freed.
  void words_forgotten(const void* begin, uint64_t bytes, bool freed);

  /// A stream raises an external event. `raised`: it was raised already.
  void external_recorded(const void* event, bool raised, const CallSite& site);
  /// A record of an event of the old kind is submitted while `pending` streams wait for the one before.
  void old_recorded(const void* event, uint64_t pending);
  void event_forgotten(const void* event) { records_.erase(event); }
  void clear();

 private:
  struct Word {
    bool serves = false;
    bool unseen = false;
    uint64_t value = 0;
    CallSite written;
  };

  MisuseReporter& reporter_;
  std::map<const void*, Word> words_;
  std::unordered_map<const void*, CallSite> records_;
};

}  // namespace reprise::emulator
