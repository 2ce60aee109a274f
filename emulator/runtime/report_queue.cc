#include "emulator/runtime/report_queue.h"

namespace reprise::emulator {

std::shared_ptr<ReportQueue::Report> ReportQueue::push(uint64_t thread, aclrtCallback function, void* data) {
  auto report = std::make_shared<Report>();
  report->function = function;
  report->data = data;
  pending_[thread].push_back(report);
  arrived_.notify_all();
  return report;
}

std::shared_ptr<ReportQueue::Report> ReportQueue::pop(Lock& lock, uint64_t thread,
                                                      std::optional<std::chrono::milliseconds> limit) {
  const auto ready = [&] { return !pending_[thread].empty(); };
  if (limit) {
    if (!arrived_.wait_for(lock, *limit, ready)) return nullptr;
  } else {
    arrived_.wait(lock, ready);
  }
  std::deque<std::shared_ptr<Report>>& queue = pending_[thread];
  std::shared_ptr<Report> report = std::move(queue.front());
  queue.pop_front();
  return report;
}

}  // namespace reprise::emulator
