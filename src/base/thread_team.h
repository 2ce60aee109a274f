#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace reprise {

/// Threads that stay alive between uses and share work: cut into chunks, of which each member is dealt a part and then
/// takes what others have not begun. Handing work out and collecting it costs a few hundred nanoseconds.
///
/// Nobody is waited for but a member in the middle of a chunk. A member that does not get a CPU, because other programs
/// have them, takes no part; when one loses its CPU in a chunk, and the caller waits longer for it than the others have
/// lately saved it, the caller works alone for some time afterwards.
///
/// Waiting spins briefly and then sleeps; when spinning keeps being in vain, it sleeps at once. A team of more threads
/// than CPUs never spins: it is slow, never stuck. A team of one thread has no worker and touches no atomic.
class ThreadTeam {
 public:
  /// Chunks that work may be cut into.
  static constexpr int kMaxChunks = 4095;

  /// `threads` members, of which the caller of share() is one; `cpus`: how many of them can run at the same time.
  /// kResourceExhausted when the system refuses as many threads.
  ThreadTeam(int threads, int cpus);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return size_; }

  /// Calls work(first, last) for ranges that hold each of the chunks 0 to `chunks` - 1 once, on up to `threads`
  /// members, at the same time and in no order, and returns when all are done. What the caller wrote before is seen by
  /// the work, and what the work wrote is seen by the caller. The first exception of any range is rethrown; the ranges
  /// that had not begun may then be left out. One call at a time, not nested.
  template <typename Work>
  void share(int threads, int chunks, Work&& work) {
    if (threads <= 1 || chunks <= 1 || size_ == 1) {
      if (chunks > 0) work(0, chunks);
      return;
    }
    using Callable = std::remove_reference_t<Work>;
    share_out(
        threads, chunks, [](void* callable, int first, int last) { (*static_cast<Callable*>(callable))(first, last); },
        const_cast<void*>(static_cast<const void*>(&work)));
  }

 private:
  using Function = void (*)(void* callable, int first, int last);
  enum class State : uint32_t { kAwake, kAsleep, kCalled };

  /// What a member is dealt. The ticket says which chunks of which job nobody has begun. Whoever takes one, and so
  /// changes the ticket, holds up the job's end and may read the other fields, which the caller writes between jobs.
  /// Members that come too late find another job in the ticket, or no chunk, and touch nothing.
  struct alignas(128) Desk {
    std::atomic<uint64_t> ticket{0};  ///< job, next chunk, last chunk
    Function function = nullptr;
    void* callable = nullptr;
    std::atomic<uint64_t> done{0};  ///< chunks that the owner, a worker, has ever done
    std::atomic<State> state{State::kAwake};
    std::atomic<uint32_t> calls{0};  ///< what the owner sleeps on
  };

  static constexpr int kMaxMembers = (1 << 16) - 1;
  static constexpr int kChunkBits = 12;
  /// Jobs are numbered anew after so many: weeks, for which no thread sleeps in the middle of taking a chunk.
  static constexpr uint64_t kJobs = uint64_t{1} << (64 - 2 * kChunkBits);
  static constexpr uint64_t make_ticket(uint64_t job, int next, int last) {
    return job << (2 * kChunkBits) | static_cast<uint64_t>(next) << kChunkBits | static_cast<uint64_t>(last);
  }
  static constexpr uint64_t job_of(uint64_t ticket) { return ticket >> (2 * kChunkBits); }
  static constexpr int next_of(uint64_t ticket) { return static_cast<int>(ticket >> kChunkBits) & kMaxChunks; }
  static constexpr int last_of(uint64_t ticket) { return static_cast<int>(ticket) & kMaxChunks; }

  static int checked_size(int threads);
  /// Lets the workers leave and waits for them.
  void dismiss_workers();
  void share_out(int members, int chunks, Function function, void* callable);
  /// Who of the first members may take part in a job, but for the caller. Sleepers are not called when that has been in
  /// vain lately.
  enum class Presence { kNobody, kSomebody, kToBeCalled };
  Presence presence_of(int members);
  void call_sleepers(int members);
  void wake(Desk& desk);
  /// Takes a chunk of a job from a desk; -1 when there is none.
  static int take_chunk(Desk& desk, uint64_t job);
  /// Does what a member finds of a job, its own part first; counts its chunks.
  template <typename Done>
  void work_on(int member, uint64_t job, const Done& done);
  void call(const Desk& desk, int chunk);
  void run_worker(int member);
  /// The job of a desk once it is another than `seen`.
  uint64_t wait_for_job(Desk& desk, uint64_t seen, uint32_t& vain_spins) const;
  bool all_done() const;
  /// Returns when the members have done what the caller has not; `begin` is when it began, in ticks.
  void wait_for_members(uint64_t begin);
  void sleep_until_done();
  void note_stall(uint64_t begin, uint64_t wait_begin);
  bool works_alone(uint64_t now) const { return now - alone_since_ < alone_for_; }

  const int size_;
  const bool may_spin_;
  const uint64_t ticks_at_start_;
  const std::chrono::steady_clock::time_point start_;
  const std::unique_ptr<Desk[]> desks_;  ///< by member

  // The caller's.
  uint64_t job_ = 0;
  uint64_t handed_out_ = 0;               ///< chunks that others have ever done
  uint64_t done_at_call_ = ~uint64_t{0};  ///< of them, when somebody was last called
  uint64_t alone_since_ = 0;              ///< in ticks
  uint64_t alone_for_ = 0;                ///< in ticks, from then on; 0: there was no stall
  uint64_t saved_ = 0;                    ///< ticks of work that others did, less those that stalls took
  uint32_t stalls_ = 0;                   ///< lately
  uint32_t vain_calls_ = 0;               ///< in a row
  uint32_t vain_spins_ = 0;               ///< in a row
  int64_t no_call_before_ = 0;            ///< nanoseconds of the steady clock

  alignas(64) std::atomic<bool> caller_sleeps_{false};
  std::atomic<uint32_t> caller_calls_{0};  ///< what the caller sleeps on
  std::atomic<bool> failed_{false};
  std::atomic<bool> dismissed_{false};

  std::mutex error_mutex_;
  std::exception_ptr error_;
  std::vector<std::thread> workers_;
};

}  // namespace reprise
