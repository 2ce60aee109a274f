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

CallSite CallSite::here() {
  CallSite site;
  site.thread = thread_number();
  const ApiCall* call = ApiCall::current();
  if (!call) return site;
  site.call = call->name();
  site.frames[0] = call->return_address();
  site.frame_count = 1;
  if (!backtraces_kept.load(std::memory_order_relaxed)) return site;
  // The emulator's own frames come first.
  std::array<void*, kFrames + 20> all{};
  const int count = backtrace(all.data(), static_cast<int>(all.size()));
  const auto last = all.begin() + count;
  const auto first = std::find_if_not(all.begin(), last, is_own_code);
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
  int shown = 0;
  for (int i = 0; i < frame_count && shown < 6; ++i) {
    if (is_own_code(frames[i])) continue;
    text += shown++ == 0 ? " at " : " < ";
    text += describe_frame(frames[i]);
  }
  return text;
}

}  // namespace reprise::emulator
