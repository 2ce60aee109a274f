#include "load/mapping_guard.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

#include "base/error.h"

namespace reprise::load {
namespace {

constexpr int kExitCode = 3;

/// What the handler may read at any time: plain atomics and a fixed buffer, no locks and no allocation.
struct Slot {
  std::atomic<bool> claimed{false};
  std::atomic<bool> active{false};
  std::atomic<uintptr_t> begin{0};
  std::atomic<size_t> size{0};
  std::array<char, 512> path{};  // written before `active` is set, with a terminating zero
};

// Process-wide by nature: a signal handler receives no context of its own.
std::array<Slot, 1024> g_slots;
std::atomic_flag g_dying = ATOMIC_FLAG_INIT;
struct sigaction g_previous{};

void write_text(const char* text) {
  const ssize_t ignored = ::write(STDERR_FILENO, text, std::strlen(text));
  static_cast<void>(ignored);
}

const Slot* find_slot(uintptr_t address) {
  for (const Slot& slot : g_slots) {
    if (!slot.active.load(std::memory_order_acquire)) continue;
    const uintptr_t begin = slot.begin.load(std::memory_order_relaxed);
    if (address >= begin && address - begin < slot.size.load(std::memory_order_relaxed)) return &slot;
  }
  return nullptr;
}

void handle_sigbus(int, siginfo_t* info, void*) {
  const Slot* slot = find_slot(reinterpret_cast<uintptr_t>(info->si_addr));
  if (slot == nullptr) {
    // Not ours: with the old handler back, the access that faults is tried again and ends there.
    ::sigaction(SIGBUS, &g_previous, nullptr);
    return;
  }
  // Other threads that fault at the same time leave the message and the exit to the first.
  while (g_dying.test_and_set()) ::pause();
  write_text("reprise: error: the model file ");
  write_text(slot->path.data());
  write_text(" was cut short or became unreadable while it was in use (restore the file and start again)\n");
  ::_exit(kExitCode);
}

class Registration {
 public:
  explicit Registration(const MappedFile& file) {
    const auto free_slot =
        std::find_if(g_slots.begin(), g_slots.end(), [](Slot& slot) { return !slot.claimed.exchange(true); });
    if (free_slot == g_slots.end()) return;
    slot_ = &*free_slot;
    slot_->begin = reinterpret_cast<uintptr_t>(file.bytes().data());
    // The kernel maps whole pages, and the rest of the last one can fault too.
    const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    slot_->size = (file.bytes().size() + page - 1) / page * page;
    const std::string path = file.path().string();
    // The end of a long path says more than its beginning.
    const size_t kept = std::min(path.size(), slot_->path.size() - 1);
    std::memcpy(slot_->path.data(), path.data() + path.size() - kept, kept);
    slot_->path[kept] = '\0';
    slot_->active.store(true, std::memory_order_release);
  }
  ~Registration() {
    if (slot_ == nullptr) return;
    slot_->active.store(false, std::memory_order_release);
    slot_->claimed.store(false, std::memory_order_release);
  }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

 private:
  Slot* slot_ = nullptr;
};

/// Declared in this order, so that the guard ends before the mapping does.
struct GuardedFile {
  explicit GuardedFile(const std::filesystem::path& path) : file(MappedFile::open(path)), registration(*file) {}
  std::shared_ptr<MappedFile> file;
  Registration registration;
};

}  // namespace

void install_sigbus_guard() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action{};
    action.sa_sigaction = handle_sigbus;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    REPRISE_CHECK(::sigaction(SIGBUS, &action, &g_previous) == 0);
  });
}

std::shared_ptr<const MappedFile> open_guarded(const std::filesystem::path& path) {
  const auto guarded = std::make_shared<GuardedFile>(path);
  return {guarded, guarded->file.get()};
}

}  // namespace reprise::load
