#include "emulator/runtime/call_site.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "emulator/runtime/api_call.h"
#include "emulator/runtime/trace.h"

namespace reprise::emulator {
namespace {

std::atomic<bool> backtraces_kept = false;

std::string_view file_name(const char* path) {
  const std::string_view text = path ? path : "?";
  return text.substr(text.rfind('/') + 1);
}

// The base address of the library that this code is in.
void* own_base() {
  Dl_info info{};
  return dladdr(reinterpret_cast<void*>(&CallSite::here), &info) ? info.dli_fbase : nullptr;
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

void CallSite::keep_backtraces(bool keep) { backtraces_kept = keep; }

CallSite CallSite::here() {
  CallSite site;
  site.thread = thread_number();
  const ApiCall* call = ApiCall::current();
  if (!call) return site;
  site.call = call->name();
  site.frames[0] = call->return_address();
  site.frame_count = 1;
  if (!backtraces_kept.load(std::memory_order_relaxed)) return site;
  // The emulator's own frames come first; what returns to the caller is known.
  std::array<void*, kFrames + 16> all{};
  const int count = backtrace(all.data(), static_cast<int>(all.size()));
  const auto first = std::find(all.begin(), all.begin() + count, call->return_address());
  const auto last = all.begin() + count;
  if (first != last) {
    site.frame_count = static_cast<int>(std::min<std::ptrdiff_t>(last - first, kFrames));
    std::copy_n(first, site.frame_count, site.frames.begin());
  }
  return site;
}

uint64_t CallSite::fingerprint() const {
  uint64_t hash = reinterpret_cast<uint64_t>(call);
  for (int i = 0; i < frame_count; ++i) hash = (hash ^ reinterpret_cast<uint64_t>(frames[i])) * 0x100000001b3u;
  return hash;
}

std::string CallSite::describe() const {
  if (!call) return fmt::format("(no call, thread {})", thread);
  std::string text = fmt::format("{} (thread {})", call, thread);
  static void* const own = own_base();
  int shown = 0;
  for (int i = 0; i < frame_count && shown < 6; ++i) {
    Dl_info info{};
    if (dladdr(frames[i], &info) && info.dli_fbase == own) continue;
    text += shown++ == 0 ? " at " : " < ";
    text += describe_frame(frames[i]);
  }
  return text;
}

}  // namespace reprise::emulator
