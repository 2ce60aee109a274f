#include "emulator/runtime/thread_pool.h"

#include <thread>
#include <utility>

namespace reprise::emulator {

void ThreadPool::start(std::function<void()> work) {
  std::unique_lock lock(mutex_);
  pending_.push_back(std::move(work));
  if (pending_.size() <= idle_) {
    wake_.notify_one();
    return;
  }
  ++threads_;
  std::thread([this] { serve(); }).detach();
}

void ThreadPool::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    wake_.wait(lock, [&] { return !pending_.empty() || stopping_; });
    --idle_;
    if (pending_.empty()) break;
    std::function<void()> work = std::move(pending_.front());
    pending_.pop_front();
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
  }
  --threads_;
  ended_.notify_all();
}

void ThreadPool::stop() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  wake_.notify_all();
  ended_.wait(lock, [&] { return threads_ == 0; });
  stopping_ = false;
}

}  // namespace reprise::emulator
