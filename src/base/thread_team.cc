#include "base/thread_team.h"

#include <algorithm>
#include <chrono>
#include <system_error>

#include "base/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace reprise {
namespace {

/// Longer than the gap between two steps of a busy engine, short enough not to matter when the team is idle.
constexpr std::chrono::microseconds kSpinTime(50);
/// Pauses between two looks at the clock: about one to three microseconds.
constexpr int kPausesPerLook = 64;
/// After so many spins in vain only one in kProbeInterval waits spins, to notice when it pays again.
constexpr uint32_t kTrustedSpins = 4;
constexpr uint32_t kProbeInterval = 64;

void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

ThreadTeam::ThreadTeam(int threads, int cpus) : size_(std::max(1, threads)), may_spin_(threads <= cpus) {
  if (size_ >= (1 << kMemberBits)) throw Error(ErrorCode::kInvalidArgument, "{} threads are too many", threads);
  workers_.reserve(static_cast<size_t>(size_ - 1));
  try {
    for (int member = 1; member < size_; ++member) workers_.emplace_back([this, member] { work(member); });
  } catch (const std::system_error& error) {
    const size_t started = workers_.size() + 1;
    dismiss_workers();
    throw Error(ErrorCode::kResourceExhausted, "cannot start {} threads, only {}: {}", size_, started, error.what())
        .remedy("ask for fewer threads");
  }
}

ThreadTeam::~ThreadTeam() { dismiss_workers(); }

void ThreadTeam::dismiss_workers() {
  if (workers_.empty()) return;
  // A run with no function is the sign to leave.
  members_ = size_;
  function_ = nullptr;
  const uint64_t run = (start_.load(std::memory_order_relaxed) >> kMemberBits) + 1;
  start_.store(run << kMemberBits | static_cast<uint64_t>(size_), std::memory_order_release);
  start_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

namespace {

/// Looks at the word for about a microsecond.
template <typename T>
T look(const std::atomic<T>& word, T old) {
  T value = old;
  for (int i = 0; i < kPausesPerLook; ++i) {
    value = word.load(std::memory_order_acquire);
    if (value != old) break;
    pause_briefly();
  }
  return value;
}

template <typename T>
T look_for(const std::atomic<T>& word, T old, std::chrono::microseconds time) {
  const auto give_up_at = std::chrono::steady_clock::now() + time;
  T value = old;
  do {
    value = look(word, old);
  } while (value == old && std::chrono::steady_clock::now() < give_up_at);
  return value;
}

template <typename T>
T sleep_while_equal(const std::atomic<T>& word, T old) {
  T value = word.load(std::memory_order_acquire);
  while (value == old) {
    word.wait(old, std::memory_order_acquire);
    value = word.load(std::memory_order_acquire);
  }
  return value;
}

}  // namespace

template <typename T>
T ThreadTeam::wait_while_equal(const std::atomic<T>& word, T old, std::atomic<uint32_t>& vain_spins) {
  if (!may_spin_) return sleep_while_equal(word, old);
  T value = look(word, old);
  if (value != old) return value;
  // Usually it comes soon; but when the thread that brings it needs the CPU on which this one spins, it cannot.
  const uint32_t vain = vain_spins.load(std::memory_order_relaxed);
  if (vain < kTrustedSpins || vain % kProbeInterval == 0) value = look_for(word, old, kSpinTime);
  if (value != old) {
    vain_spins.store(0, std::memory_order_relaxed);
    return value;
  }
  vain_spins.store(vain + 1, std::memory_order_relaxed);
  return sleep_while_equal(word, old);
}

void ThreadTeam::run_on_team(int threads, Function function, void* callable) {
  members_ = std::min(threads, size_);
  function_ = function;
  callable_ = callable;
  if (members_ == 1) return function(callable, 0);
  running_.store(static_cast<uint32_t>(members_ - 1), std::memory_order_relaxed);
  const uint64_t run = (start_.load(std::memory_order_relaxed) >> kMemberBits) + 1;
  start_.store(run << kMemberBits | static_cast<uint64_t>(members_), std::memory_order_release);
  start_.notify_all();

  call(0);

  uint32_t running = running_.load(std::memory_order_acquire);
  while (running != 0) running = wait_while_equal(running_, running, vain_spins_for_members_);
  members_ = 1;
  if (abandoned_.load(std::memory_order_relaxed)) {
    abandoned_.store(false, std::memory_order_relaxed);
    arrived_.store(0, std::memory_order_relaxed);
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
}

void ThreadTeam::work(int member) {
  uint64_t seen = 0;
  for (;;) {
    seen = wait_while_equal(start_, seen, vain_spins_for_runs_);
    const int members = static_cast<int>(seen & ((1u << kMemberBits) - 1));
    if (member >= members) continue;
    if (function_ == nullptr) return;
    call(member);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

void ThreadTeam::call(int member) {
  try {
    function_(callable_, member);
  } catch (const Abandoned&) {
    // Another member threw, and its error is the one to report.
  } catch (...) {
    give_up(std::current_exception());
  }
}

void ThreadTeam::give_up(std::exception_ptr error) {
  {
    const std::lock_guard lock(error_mutex_);
    if (error_ == nullptr) error_ = std::move(error);
  }
  abandoned_.store(true, std::memory_order_release);
  // Wakes those who wait in a barrier; those who come later see the flag.
  phase_.fetch_add(1, std::memory_order_acq_rel);
  phase_.notify_all();
}

void ThreadTeam::barrier() {
  if (members_ == 1) return;
  // The phase is read before the flag: a member that reads the phase after give_up() changed it also sees the flag, one
  // that reads it before is woken by the change.
  const uint32_t phase = phase_.load(std::memory_order_acquire);
  if (abandoned_.load(std::memory_order_acquire)) throw Abandoned();
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(members_)) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.fetch_add(1, std::memory_order_acq_rel);
    phase_.notify_all();
  } else {
    wait_while_equal(phase_, phase, vain_spins_for_members_);
  }
  if (abandoned_.load(std::memory_order_acquire)) throw Abandoned();
}

}  // namespace reprise
