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

using Clock = std::chrono::steady_clock;

/// Longer than the gap between two steps of a busy engine, short enough not to matter when the team is idle.
constexpr std::chrono::microseconds kSpinTime(50);
/// Pauses between two looks at the clock: about one to three microseconds.
constexpr int kPausesPerLook = 64;
/// After so many spins in vain only one in kProbeInterval waits spins, to notice when it pays again.
constexpr uint32_t kTrustedSpins = 4;
constexpr uint32_t kProbeInterval = 64;
/// After a stall that costs more than the others have saved, the caller works alone so many times as long as the stall
/// was, and twice as long after each further one: what waiting costs stays a small share, however long other programs
/// need the CPUs.
constexpr uint64_t kAlonePerStall = 4;
constexpr uint32_t kMostDoublings = 5;
/// A longer stall counts as one of this length: the process was stopped, or the machine slept.
constexpr std::chrono::duration<double> kLongestStall(0.05);
/// Members that were called and did nothing in time are not called again for so long, and twice as long the next time.
constexpr std::chrono::nanoseconds kCallPause = std::chrono::milliseconds(1);
constexpr uint32_t kMostCallDoublings = 6;

void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// A clock that is read in a few nanoseconds, in units of its own.
uint64_t ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  uint64_t value = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
#else
  return static_cast<uint64_t>(Clock::now().time_since_epoch().count());
#endif
}

/// Calls done() for about a microsecond, or until it holds.
template <typename Done>
bool look(const Done& done) {
  for (int i = 0; i < kPausesPerLook; ++i) {
    if (done()) return true;
    pause_briefly();
  }
  return false;
}

template <typename Done>
bool look_for(const Done& done, std::chrono::microseconds time) {
  const auto give_up_at = Clock::now() + time;
  do {
    if (look(done)) return true;
  } while (Clock::now() < give_up_at);
  return false;
}

/// Spins until done() holds; false when spinning is, or has lately been, in vain.
template <typename Done>
bool spin_until(const Done& done, uint32_t& vain_spins) {
  if (look(done)) {
    vain_spins = 0;
    return true;
  }
  // Usually it comes soon; but when the thread that brings it needs the CPU on which this one spins, it cannot.
  if ((vain_spins < kTrustedSpins || vain_spins % kProbeInterval == 0) && look_for(done, kSpinTime)) {
    vain_spins = 0;
    return true;
  }
  ++vain_spins;
  return false;
}

}  // namespace

/// Before anything is allocated for them.
int ThreadTeam::checked_size(int threads) {
  if (threads > kMaxMembers) throw Error(ErrorCode::kInvalidArgument, "{} threads are too many", threads);
  return std::max(1, threads);
}

ThreadTeam::ThreadTeam(int threads, int cpus)
    : size_(checked_size(threads)),
      may_spin_(threads <= cpus),
      ticks_at_start_(ticks()),
      start_(Clock::now()),
      desks_(std::make_unique<Desk[]>(static_cast<size_t>(size_))) {
  workers_.reserve(static_cast<size_t>(size_ - 1));
  try {
    for (int member = 1; member < size_; ++member) workers_.emplace_back([this, member] { run_worker(member); });
  } catch (const std::system_error& error) {
    const size_t started = workers_.size() + 1;
    dismiss_workers();
    throw Error(ErrorCode::kResourceExhausted, "cannot start {} threads, only {}: {}", size_, started, error.what())
        .remedy("ask for fewer threads");
  }
}

ThreadTeam::~ThreadTeam() { dismiss_workers(); }

void ThreadTeam::dismiss_workers() {
  dismissed_.store(true, std::memory_order_relaxed);
  job_ = (job_ + 1) % kJobs;
  for (size_t member = 1; member <= workers_.size(); ++member) {
    desks_[member].ticket.store(make_ticket(job_, 0, 0), std::memory_order_release);
    wake(desks_[member]);
  }
  for (std::thread& worker : workers_) worker.join();
}

// The caller.

void ThreadTeam::share_out(int threads, int chunks, Function function, void* callable) {
  const int members = std::min({threads, size_, chunks});
  const uint64_t begin = ticks();
  if (works_alone(begin) || chunks > kMaxChunks) return function(callable, 0, chunks);
  const Presence presence = presence_of(members);
  if (presence == Presence::kNobody) return function(callable, 0, chunks);
  job_ = (job_ + 1) % kJobs;
  for (int member = members - 1; member >= 0; --member) {
    Desk& desk = desks_[static_cast<size_t>(member)];
    desk.function = function;
    desk.callable = callable;
    const auto bound = [&](int part) { return static_cast<int>(int64_t{chunks} * part / members); };
    desk.ticket.store(make_ticket(job_, bound(member), bound(member + 1)), std::memory_order_release);
  }
  if (presence == Presence::kToBeCalled) call_sleepers(members);
  uint64_t own = 0;
  work_on(0, job_, [&] { ++own; });
  const uint64_t others = static_cast<uint64_t>(chunks) - own;
  handed_out_ += others;
  if (own > 0) saved_ += (ticks() - begin) * others / own;
  if (!all_done()) wait_for_members(begin);
  if (failed_.load(std::memory_order_relaxed)) {
    failed_.store(false, std::memory_order_relaxed);
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
}

ThreadTeam::Presence ThreadTeam::presence_of(int members) {
  bool anybody = false;
  bool sleepers = false;
  for (int member = 1; member < members; ++member) {
    const State state = desks_[static_cast<size_t>(member)].state.load(std::memory_order_relaxed);
    anybody = anybody || state != State::kAsleep;
    sleepers = sleepers || state == State::kAsleep;
  }
  if (sleepers) {
    const int64_t now = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
    if (now >= no_call_before_) {
      vain_calls_ = handed_out_ == done_at_call_ ? std::min(vain_calls_ + 1, kMostCallDoublings) : 0;
      if (vain_calls_ > 0) no_call_before_ = now + (kCallPause.count() << (vain_calls_ - 1));
      done_at_call_ = handed_out_;
      return Presence::kToBeCalled;
    }
  }
  return anybody ? Presence::kSomebody : Presence::kNobody;
}

/// After the job is on their desks: who is called and finds none goes back to sleep without anybody knowing.
void ThreadTeam::call_sleepers(int members) {
  for (int member = 1; member < members; ++member) {
    Desk& desk = desks_[static_cast<size_t>(member)];
    State asleep = State::kAsleep;
    if (desk.state.compare_exchange_strong(asleep, State::kCalled, std::memory_order_relaxed)) wake(desk);
  }
}

void ThreadTeam::wake(Desk& desk) {
  desk.calls.fetch_add(1, std::memory_order_release);
  desk.calls.notify_one();
}

bool ThreadTeam::all_done() const {
  uint64_t done = 0;
  for (int member = 1; member < size_; ++member)
    done += desks_[static_cast<size_t>(member)].done.load(std::memory_order_seq_cst);
  return done == handed_out_;
}

void ThreadTeam::wait_for_members(uint64_t begin) {
  const uint64_t wait_begin = ticks();
  if (may_spin_ && spin_until([this] { return all_done(); }, vain_spins_)) return;
  sleep_until_done();
  note_stall(begin, wait_begin);
}

void ThreadTeam::sleep_until_done() {
  caller_sleeps_.store(true, std::memory_order_seq_cst);
  for (;;) {
    const uint32_t calls = caller_calls_.load(std::memory_order_seq_cst);
    if (all_done()) break;
    caller_calls_.wait(calls, std::memory_order_acquire);
  }
  caller_sleeps_.store(false, std::memory_order_relaxed);
}

/// Waiting longer than it worked, the caller would have been faster alone, this time. Threads that need a CPU now and
/// then, such as those that answer clients, make it wait often and yet cost less than a team is worth.
void ThreadTeam::note_stall(uint64_t begin, uint64_t wait_begin) {
  const uint64_t now = ticks();
  if (now - wait_begin < wait_begin - begin) return;
  const std::chrono::duration<double> age = Clock::now() - start_;
  const double ticks_of_longest = static_cast<double>(now - ticks_at_start_) * (kLongestStall / age);
  constexpr double kMostTicks = 0x1p40;  // minutes; clocks may jump
  const auto waited =
      static_cast<uint64_t>(std::min({static_cast<double>(now - wait_begin), ticks_of_longest, kMostTicks}));
  saved_ = std::min(saved_, static_cast<uint64_t>(std::min(ticks_of_longest, kMostTicks)));
  if (saved_ >= waited) {
    saved_ -= waited;
    return;
  }
  saved_ = 0;
  // Stalls long ago do not count.
  stalls_ = now - alone_since_ < alone_for_ + 8 * kAlonePerStall * waited ? std::min(stalls_ + 1, kMostDoublings) : 0;
  alone_since_ = now;
  alone_for_ = kAlonePerStall * waited << stalls_;
}

// All members.

int ThreadTeam::take_chunk(Desk& desk, uint64_t job) {
  uint64_t ticket = desk.ticket.load(std::memory_order_acquire);
  while (job_of(ticket) == job && next_of(ticket) < last_of(ticket)) {
    if (desk.ticket.compare_exchange_weak(ticket, ticket + make_ticket(0, 1, 0), std::memory_order_acquire))
      return next_of(ticket);
  }
  return -1;
}

void ThreadTeam::call(const Desk& desk, int chunk) {
  try {
    desk.function(desk.callable, chunk, chunk + 1);
  } catch (...) {
    const std::lock_guard lock(error_mutex_);
    if (error_ == nullptr) error_ = std::current_exception();
    failed_.store(true, std::memory_order_relaxed);
  }
}

template <typename Done>
void ThreadTeam::work_on(int member, uint64_t job, const Done& done) {
  for (int i = 0; i < size_; ++i) {
    const int other = member + i < size_ ? member + i : member + i - size_;
    Desk& desk = desks_[static_cast<size_t>(other)];
    for (int chunk = take_chunk(desk, job); chunk >= 0; chunk = take_chunk(desk, job)) {
      call(desk, chunk);
      done();
    }
  }
}

// Workers.

void ThreadTeam::run_worker(int member) {
  Desk& desk = desks_[static_cast<size_t>(member)];
  uint64_t job = 0;
  uint64_t done = 0;
  uint32_t vain_spins = 0;
  for (;;) {
    job = wait_for_job(desk, job, vain_spins);
    if (dismissed_.load(std::memory_order_relaxed)) return;
    work_on(member, job, [&] {
      // Either this sees that the caller sleeps, or the caller sees this before it does.
      desk.done.store(++done, std::memory_order_seq_cst);
      if (!caller_sleeps_.load(std::memory_order_seq_cst)) return;
      caller_calls_.fetch_add(1, std::memory_order_release);
      caller_calls_.notify_one();
    });
  }
}

uint64_t ThreadTeam::wait_for_job(Desk& desk, uint64_t seen, uint32_t& vain_spins) const {
  uint64_t job = seen;
  const auto changed = [&] {
    job = job_of(desk.ticket.load(std::memory_order_acquire));
    return job != seen;
  };
  if (may_spin_ ? spin_until(changed, vain_spins) : changed()) return job;
  desk.state.store(State::kAsleep, std::memory_order_relaxed);
  for (;;) {
    const uint32_t calls = desk.calls.load(std::memory_order_acquire);
    if (changed()) break;
    desk.calls.wait(calls, std::memory_order_acquire);
  }
  desk.state.store(State::kAwake, std::memory_order_relaxed);
  return job;
}

}  // namespace reprise
