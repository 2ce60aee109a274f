#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace reprise {

/// Threads that stay alive between uses and run one function together: a fork and a join cost about a microsecond.
///
/// Waiting spins briefly and then sleeps; when spinning keeps being in vain, because other programs have the CPUs, it
/// sleeps at once. A team of more threads than CPUs never spins: it is slow, never stuck. A team of one thread has no
/// worker and touches no atomic.
class ThreadTeam {
 public:
  /// `threads` members, the caller of run() being member 0; `cpus`: how many of them can run at the same time.
  /// kResourceExhausted when the system refuses as many threads.
  ThreadTeam(int threads, int cpus);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return size_; }

  /// Calls body(member) on members 0 to `threads` - 1 and returns when all are done. An exception of any member is
  /// rethrown here (the first one); the others leave at their next barrier. One run at a time, not nested.
  template <typename Body>
  void run(int threads, Body&& body) {
    if (threads <= 1) {
      body(0);
      return;
    }
    using Callable = std::remove_reference_t<Body>;
    run_on_team(
        threads, [](void* callable, int member) { (*static_cast<Callable*>(callable))(member); },
        const_cast<void*>(static_cast<const void*>(&body)));
  }
  template <typename Body>
  void run(Body&& body) {
    run(size_, std::forward<Body>(body));
  }

  /// Inside a run(): returns when every member of the run has called it. When another member threw, it throws (a type
  /// of its own) so that the body ends.
  void barrier();

 private:
  using Function = void (*)(void* callable, int member);
  struct Abandoned {};

  /// Lets the workers leave and waits for them.
  void dismiss_workers();
  void run_on_team(int threads, Function function, void* callable);
  void work(int member);
  void call(int member);
  void give_up(std::exception_ptr error);
  /// Returns the word's next value; counts in `vain_spins` how often spinning for it was in vain lately.
  template <typename T>
  T wait_while_equal(const std::atomic<T>& word, T old, std::atomic<uint32_t>& vain_spins);

  static constexpr int kMemberBits = 16;

  const int size_;
  const bool may_spin_;

  // The run in progress: written by the caller between runs, read by members during one.
  Function function_ = nullptr;
  void* callable_ = nullptr;
  int members_ = 1;

  /// Number of the run << kMemberBits | its members. One word, so that a worker that is not a member never reads the
  /// fields above, which the caller may already be writing for the next run.
  alignas(64) std::atomic<uint64_t> start_{0};
  alignas(64) std::atomic<uint32_t> running_{0};  ///< workers that have not finished
  alignas(64) std::atomic<uint32_t> arrived_{0};  ///< members in the barrier
  alignas(64) std::atomic<uint32_t> phase_{0};    ///< barriers passed
  std::atomic<bool> abandoned_{false};            ///< a member threw

  // Waits in a row in which spinning was in vain. For members: other programs have the CPUs. For the next run: the
  // caller has other things to do, or other programs have the CPUs.
  alignas(64) std::atomic<uint32_t> vain_spins_for_members_{0};
  std::atomic<uint32_t> vain_spins_for_runs_{0};

  std::mutex error_mutex_;
  std::exception_ptr error_;
  std::vector<std::thread> workers_;
};

}  // namespace reprise
