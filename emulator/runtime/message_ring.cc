#include "emulator/runtime/message_ring.h"

#include <fmt/format.h>

#include <mutex>
#include <utility>

namespace reprise::emulator {
namespace {

struct ThreadMessages {
  MessageRing ring;
  std::string drained;
  aclError last_error = ACL_SUCCESS;
};

ThreadMessages& thread_messages() {
  thread_local ThreadMessages messages;
  return messages;
}

// Workers may still report while the process ends, so these two are never destroyed.
std::mutex& device_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
MessageRing& device_ring() {
  static auto* ring = new MessageRing;
  return *ring;
}

}  // namespace

void MessageRing::push(std::string message) {
  if (messages_.size() == kCapacity) {
    messages_.pop_front();
    ++dropped_;
  }
  messages_.push_back(std::move(message));
}

std::string MessageRing::drain(std::string_view told) {
  std::string text;
  if (dropped_ > 0) text = fmt::format("({} earlier messages dropped)\n", dropped_);
  for (const std::string& message : messages_) {
    if (told.find(message) == std::string_view::npos) text.append(message).push_back('\n');
  }
  messages_.clear();
  dropped_ = 0;
  if (!text.empty()) text.pop_back();
  return text;
}

void note_failure(aclError code, std::string message) {
  ThreadMessages& messages = thread_messages();
  messages.last_error = code;
  messages.ring.push(std::move(message));
}

void note_device_failure(std::string message) {
  std::lock_guard lock(device_mutex());
  device_ring().push(std::move(message));
}

const char* drain_messages() {
  ThreadMessages& messages = thread_messages();
  std::string text = messages.ring.drain();
  {
    std::lock_guard lock(device_mutex());
    // A call that has met the device's failure says the same.
    const std::string of_device = device_ring().drain(text);
    if (!text.empty() && !of_device.empty()) text.push_back('\n');
    text += of_device;
  }
  if (text.empty()) return nullptr;
  messages.drained = std::move(text);
  return messages.drained.c_str();
}

aclError peek_last_error() { return thread_messages().last_error; }

aclError take_last_error() { return std::exchange(thread_messages().last_error, ACL_SUCCESS); }

}  // namespace reprise::emulator
