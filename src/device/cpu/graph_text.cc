#include "device/cpu/graph_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>
#include <type_traits>

#include "base/escape_json.h"
#include "base/hash.h"

namespace reprise::device::cpu {
namespace {

/// The arguments of a launch in words of eight bytes (the last one padded with zeros), without the tail.
std::vector<uint64_t> argument_words(const Instruction& launch) {
  std::vector<uint64_t> words((launch.argument_bytes + 7) / 8, 0);
  if (launch.argument_bytes > 0) std::memcpy(words.data(), launch.launch.arguments, launch.argument_bytes);
  return words;
}

std::vector<int32_t> tail_values(const Instruction& launch) {
  std::vector<int32_t> values(launch.tail_bytes / sizeof(int32_t));
  if (!values.empty())
    std::memcpy(values.data(), launch.launch.arguments + tail_offset(launch.argument_bytes), values.size() * 4);
  return values;
}

std::string address_text(const void* address) { return fmt::format("@{:x}", reinterpret_cast<uintptr_t>(address)); }

std::string word_text(uint64_t word, const MemoryMap& memory) {
  return memory.contains(word) ? fmt::format("@{:x}", word) : fmt::format("0x{:x}", word);
}

/// Number of an external event in its graph: by first appearance.
size_t external_number(const GraphProgram& program, const EventState* event) {
  std::vector<const EventState*> seen;
  for (const Instruction& instruction : program.instructions()) {
    if (instruction.opcode != Opcode::kExternalRecord && instruction.opcode != Opcode::kExternalWait) continue;
    if (instruction.event.event == event) break;
    if (std::find(seen.begin(), seen.end(), instruction.event.event) == seen.end())
      seen.push_back(instruction.event.event);
  }
  return seen.size();
}

// ---- text

constexpr size_t kTailValuesShown = 16;

std::string launch_text(const Instruction& instruction, const MemoryMap& memory) {
  std::string text = fmt::format("{} tiles={}", instruction.launch.kernel->name, instruction.launch.tiles);
  if (instruction.threads != 0) text += fmt::format(" threads={}", instruction.threads);
  text += " arguments=[";
  const char* separator = "";
  for (const uint64_t word : argument_words(instruction)) {
    text += separator;
    text += word_text(word, memory);
    separator = " ";
  }
  text += "]";
  const std::vector<int32_t> tail = tail_values(instruction);
  if (!tail.empty()) {
    const auto shown = tail.begin() + static_cast<std::ptrdiff_t>(std::min(tail.size(), kTailValuesShown));
    text += fmt::format(" tail({})=[{}{}]", tail.size(), fmt::join(tail.begin(), shown, " "),
                        shown == tail.end() ? "" : " ...");
  }
  return text;
}

std::string operand_text(const GraphProgram& program, const Instruction& instruction, const MemoryMap& memory) {
  switch (instruction.opcode) {
    case Opcode::kLaunch:
      return launch_text(instruction, memory);
    case Opcode::kCopy:
      return fmt::format("{} <- {} bytes={}", address_text(instruction.copy.destination),
                         address_text(instruction.copy.source), instruction.copy.bytes);
    case Opcode::kFill:
      return fmt::format("{} value={} bytes={}", address_text(instruction.fill.destination), instruction.fill.value,
                         instruction.fill.bytes);
    case Opcode::kHostFunction:
      return fmt::format("data={}", address_text(instruction.host.data));
    case Opcode::kRecordEdge:
    case Opcode::kWaitEdge:
      return fmt::format("edge{}", instruction.edge.edge);
    case Opcode::kExternalRecord:
    case Opcode::kExternalWait:
      return fmt::format("external{}", external_number(program, instruction.event.event));
    default:
      return "";
  }
}

std::string lane_name(const GraphProgram& program, uint16_t lane) {
  const std::string& name = program.lanes()[lane].name;
  return name.empty() ? fmt::format("stream{}", lane) : name;
}

// ---- JSON

std::string launch_json(const Instruction& instruction, const MemoryMap& memory) {
  std::string json =
      fmt::format(R"("kernel":"{}","tiles":{},"threads":{},"arguments":[)",
                  escape_json(instruction.launch.kernel->name), instruction.launch.tiles, instruction.threads);
  const char* separator = "";
  for (const uint64_t word : argument_words(instruction)) {
    json += fmt::format("{}\"{}\"", separator, word_text(word, memory));
    separator = ",";
  }
  return json + fmt::format(R"(],"tail":[{}])", fmt::join(tail_values(instruction), ","));
}

std::string operand_json(const GraphProgram& program, const Instruction& instruction, const MemoryMap& memory) {
  switch (instruction.opcode) {
    case Opcode::kLaunch:
      return launch_json(instruction, memory);
    case Opcode::kCopy:
      return fmt::format(R"("destination":"{}","source":"{}","bytes":{})", address_text(instruction.copy.destination),
                         address_text(instruction.copy.source), instruction.copy.bytes);
    case Opcode::kFill:
      return fmt::format(R"("destination":"{}","value":{},"bytes":{})", address_text(instruction.fill.destination),
                         instruction.fill.value, instruction.fill.bytes);
    case Opcode::kHostFunction:
      return fmt::format(R"("data":"{}")", address_text(instruction.host.data));
    case Opcode::kRecordEdge:
    case Opcode::kWaitEdge:
      return fmt::format(R"("edge":{})", instruction.edge.edge);
    case Opcode::kExternalRecord:
    case Opcode::kExternalWait:
      return fmt::format(R"("external":{})", external_number(program, instruction.event.event));
    default:
      return "";
  }
}

// ---- hash

class Hasher {
 public:
  void add_bytes(const void* data, size_t bytes) {
    value_ = hash_bytes({static_cast<const std::byte*>(data), bytes}, value_);
  }
  template <typename T>
  void add(T value) {
    static_assert(std::is_integral_v<T>);
    const auto wide = static_cast<uint64_t>(value);
    add_bytes(&wide, sizeof(wide));
  }
  void add(std::string_view text) {
    add(text.size());
    add_bytes(text.data(), text.size());
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = kHashStart;
};

class GraphHasher {
 public:
  GraphHasher(const GraphProgram& program, const MemoryMap& memory, bool with_addresses)
      : program_(program), memory_(memory), with_addresses_(with_addresses) {}

  uint64_t run() {
    hasher_.add(program_.lanes().size());
    for (const Instruction& instruction : program_.instructions()) {
      hasher_.add(static_cast<uint8_t>(instruction.opcode));
      hasher_.add(instruction.lane);
      hasher_.add(instruction.threads);
      add_operands(instruction);
    }
    return hasher_.value();
  }

 private:
  void add_address(const void* address) {
    if (with_addresses_) hasher_.add(reinterpret_cast<uintptr_t>(address));
  }

  void add_launch(const Instruction& instruction) {
    hasher_.add(std::string_view(instruction.launch.kernel->name));
    hasher_.add(instruction.launch.tiles);
    for (const uint64_t word : argument_words(instruction))
      hasher_.add(!with_addresses_ && memory_.contains(word) ? uint64_t{0} : word);
    for (const int32_t value : tail_values(instruction)) hasher_.add(value);
  }

  void add_operands(const Instruction& instruction) {
    switch (instruction.opcode) {
      case Opcode::kLaunch:
        add_launch(instruction);
        break;
      case Opcode::kCopy:
        add_address(instruction.copy.destination);
        add_address(instruction.copy.source);
        hasher_.add(instruction.copy.bytes);
        break;
      case Opcode::kFill:
        add_address(instruction.fill.destination);
        hasher_.add(instruction.fill.value);
        hasher_.add(instruction.fill.bytes);
        break;
      case Opcode::kHostFunction:
        add_address(reinterpret_cast<const void*>(instruction.host.function));
        add_address(instruction.host.data);
        break;
      case Opcode::kRecordEdge:
      case Opcode::kWaitEdge:
        hasher_.add(instruction.edge.edge);
        break;
      case Opcode::kExternalRecord:
      case Opcode::kExternalWait:
        hasher_.add(external_number(program_, instruction.event.event));
        break;
      default:
        break;
    }
  }

  const GraphProgram& program_;
  const MemoryMap& memory_;
  const bool with_addresses_;
  Hasher hasher_;
};

}  // namespace

std::string graph_text(const GraphProgram& program, const MemoryMap& memory) {
  std::string text = fmt::format("captured graph: {} instructions, {} streams\n", program.instructions().size(),
                                 program.lanes().size());
  size_t index = 0;
  for (const Instruction& instruction : program.instructions()) {
    const std::string operands = operand_text(program, instruction, memory);
    text += fmt::format("{:5} {} {}{}{}\n", index++, lane_name(program, instruction.lane), name_of(instruction.opcode),
                        operands.empty() ? "" : " ", operands);
  }
  return text;
}

std::string graph_json(const GraphProgram& program, const MemoryMap& memory) {
  std::string json = R"({"streams":[)";
  for (size_t i = 0; i < program.lanes().size(); ++i) {
    json += fmt::format(R"({}{{"name":"{}","priority":{}}})", i == 0 ? "" : ",",
                        escape_json(lane_name(program, static_cast<uint16_t>(i))), program.lanes()[i].priority);
  }
  json += R"(],"instructions":[)";
  const char* separator = "";
  for (const Instruction& instruction : program.instructions()) {
    const std::string operands = operand_json(program, instruction, memory);
    json += fmt::format(R"({}{{"operation":"{}","stream":{}{}{}}})", separator, name_of(instruction.opcode),
                        instruction.lane, operands.empty() ? "" : ",", operands);
    separator = ",";
  }
  return json + "]}";
}

uint64_t graph_hash(const GraphProgram& program, const MemoryMap& memory, bool with_addresses) {
  return GraphHasher(program, memory, with_addresses).run();
}

}  // namespace reprise::device::cpu
