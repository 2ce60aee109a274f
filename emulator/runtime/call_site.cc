#include "emulator/runtime/call_site.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <unordered_set>

#include "emulator/runtime/api_call.h"
#include "emulator/runtime/own_code.h"
#include "emulator/runtime/trace.h"

namespace reprise::emulator {
namespace {

std::atomic<bool> backtraces_kept = false;

std::string_view file_name(const char* path) {
  const std::string_view text = path ? path : "?";
  return text.substr(text.rfind('/') + 1);
}

std::string describe_frame(void* address) {
  Dl_info info{};
  if (!dladdr(address, &info)) return fmt::format("{}", address);
  if (!info.dli_sname) {
    const auto offset = reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(info.dli_fbase);
    return fmt::format("{}(+{:#x})", file_name(info.dli_fname), offset);
  }
  int status = 0;
  char* plain = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
  const auto offset = reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(info.dli_saddr);
  std::string text = fmt::format("{}({}+{:#x})", file_name(info.dli_fname), plain ? plain : info.dli_sname, offset);
  std::free(plain);
  return text;
}

}  // namespace

void CallSite::keep_backtraces(bool keep) {
  if (keep) add_own_code(reinterpret_cast<const void*>(&CallSite::here));
  backtraces_kept = keep;
}

struct CallSite::Place {
  static constexpr int kFrames = 12;

  const char* call = nullptr;  // static text
  int frame_count = 0;
  std::array<void*, kFrames> frames{};

  uint64_t fingerprint() const {
    uint64_t hash = reinterpret_cast<uint64_t>(call);
    for (int i = 0; i < frame_count; ++i) hash = (hash ^ reinterpret_cast<uint64_t>(frames[i])) * 0x100000001b3u;
    return hash;
  }
  bool operator==(const Place&) const = default;
};

const CallSite::Place* CallSite::keep(const Place& place) {
  struct Hash {
    size_t operator()(const Place& it) const { return it.fingerprint(); }
  };
  // A program has as many as ways lead to its calls; one that makes code as it runs has more.
  constexpr size_t kMostPlaces = 1 << 16;
  static auto* mutex = new std::mutex;
  static auto* places = new std::unordered_set<Place, Hash>;
  const std::lock_guard lock(*mutex);
  if (const auto known = places->find(place); known != places->end()) return &*known;
  if (places->size() < kMostPlaces) return &*places->insert(place).first;
  return &*places->insert({.call = place.call}).first;
}

CallSite CallSite::here() {
  CallSite site;
  site.thread_ = thread_number();
  const ApiCall* call = ApiCall::current();
  if (!call) return site;
  Place place{.call = call->name(), .frame_count = 1};
  place.frames[0] = call->return_address();
  if (backtraces_kept.load(std::memory_order_relaxed)) {
    // The emulator's own frames come first.
    std::array<void*, Place::kFrames + 20> all{};
    const auto last = all.begin() + backtrace(all.data(), static_cast<int>(all.size()));
    const auto first = std::find_if_not(all.begin(), last, is_own_code);
    if (first != last) {
      place.frame_count = static_cast<int>(std::min<std::ptrdiff_t>(last - first, Place::kFrames));
      std::copy_n(first, place.frame_count, place.frames.begin());
    }
  }
  site.place_ = keep(place);
  return site;
}

uint64_t CallSite::fingerprint() const { return place_ ? place_->fingerprint() : 0; }

std::string CallSite::describe() const {
  if (!place_) return fmt::format("(no call, thread {})", thread_);
  std::string text = fmt::format("{} (thread {})", place_->call, thread_);
  int shown = 0;
  for (int i = 0; i < place_->frame_count && shown < 6; ++i) {
    if (is_own_code(place_->frames[i])) continue;
    text += shown++ == 0 ? " at " : " < ";
    text += describe_frame(place_->frames[i]);
  }
  return text;
}

}  // namespace reprise::emulator
