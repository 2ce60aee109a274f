#include "emulator/runtime/trace.h"

#include <fmt/format.h>

#include <cmath>

#include "emulator/runtime/settings.h"

namespace reprise::emulator {

uint32_t thread_number() {
  static std::atomic<uint32_t> next = 0;
  thread_local const uint32_t number = ++next;
  return number;
}

void append_json_text(std::string& json, std::string_view text) {
  json.push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      json.push_back('\\');
      json.push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      json += fmt::format("\\u{:04x}", c);
    } else {
      json.push_back(c);
    }
  }
  json.push_back('"');
}

void Argument::append_to(std::string& json) const {
  switch (type_) {
    case Type::kSigned:
      json += fmt::format("{}", static_cast<int64_t>(number_));
      break;
    case Type::kUnsigned:
      json += fmt::format("{}", number_);
      break;
    case Type::kReal:
      json += std::isfinite(real_) ? fmt::format("{}", real_) : "null";
      break;
    case Type::kText:
      if (text_) {
        append_json_text(json, text_);
      } else {
        json += "null";
      }
      break;
    case Type::kAddress:
      json += number_ ? fmt::format("\"{:#x}\"", number_) : "null";
      break;
    case Type::kOpaque:
      json += "\"...\"";
      break;
  }
}

Trace& Trace::instance() {
  // Never destroyed: threads of the user may call while the process ends.
  static auto* trace = new Trace;
  return *trace;
}

Status Trace::open_environment() {
  const char* path = nullptr;
  Status status = read_file_name("REPRISE_ACL_TRACE", path);
  std::lock_guard lock(mutex_);
  on_ = false;
  file_.reset();
  if (!status.ok() || !*path) return status;
  status = file_.open(path);
  on_ = status.ok();
  return status;
}

void Trace::close() {
  std::lock_guard lock(mutex_);
  on_ = false;
  file_.close();
}

Status Trace::status() const {
  std::lock_guard lock(mutex_);
  return file_.status();
}

std::string Trace::render(std::string_view names, std::initializer_list<Argument> arguments) {
  std::string json = "{";
  for (const Argument& argument : arguments) {
    const std::string_view name = names.substr(0, names.find(','));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    while (names.starts_with(' ')) names.remove_prefix(1);
    if (json.size() > 1) json += ", ";
    append_json_text(json, name);
    json += ": ";
    argument.append_to(json);
  }
  json.push_back('}');
  return json;
}

void Trace::write(std::string_view call, std::string_view names, std::initializer_list<Argument> arguments,
                  aclError result, std::string_view text) {
  if (on()) write(call, render(names, arguments), result, text);
}

void Trace::write(std::string_view call, std::string_view arguments, aclError result, std::string_view text,
                  std::string_view inside) {
  if (!on()) return;
  const double time = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start_).count();
  std::string line =
      fmt::format("{{\"time\": {:.1f}, \"thread\": {}, \"call\": \"{}\", \"arguments\": {}, \"result\": {}", time,
                  thread_number(), call, arguments, result);
  if (!text.empty()) {
    line += ", \"text\": ";
    append_json_text(line, text);
  }
  if (!inside.empty()) line += fmt::format(", \"inside\": \"{}\"", inside);
  line += "}\n";
  std::lock_guard lock(mutex_);
  file_.write(line);
}

}  // namespace reprise::emulator
