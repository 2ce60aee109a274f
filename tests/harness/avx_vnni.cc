#include "harness/avx_vnni.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <signal.h>
#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>

namespace reprise::avx_vnni {
namespace {

/// Where the kernel's signal frame holds vector registers: the standard format of XSAVE (Intel SDM volume 1, 13.4),
/// whose bytes 464 to 511 the kernel uses for what it has saved (struct _fpx_sw_bytes).
constexpr size_t kXmmOffset = 160;
constexpr size_t kSoftwareOffset = 464;
constexpr size_t kHeaderOffset = 512;
constexpr uint32_t kSoftwareMagic = 0x46505853;
/// State components: bits in masks, subleaves of CPUID leaf 0xD.
constexpr int kSse = 1, kYmmHigh = 2, kZmmHigh = 6;

struct sigaction g_previous;
std::atomic<uint64_t> g_emulated{0};
size_t g_ymm_high_offset = 0;
size_t g_zmm_high_offset = 0;

/// General registers in the order of their encoding.
constexpr int kGeneral[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                              REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

/// What a register holds as an address.
const uint8_t* pointer_to(uint64_t address) {
  return reinterpret_cast<const uint8_t*>(address);  // NOLINT(performance-no-int-to-ptr): it comes from the CPU
}

struct Instruction {
  int sum = 0, bytes = 0;           ///< vector registers: read and written, and the unsigned bytes
  int other = 0;                    ///< the register of the signed bytes, unless they lie in memory
  std::optional<uint64_t> address;  ///< of the signed bytes in memory
  bool wide = false;                ///< 256 bits instead of 128
  bool saturates = false;
  size_t length = 0;
};

int32_t signed_at(const uint8_t* code, size_t bytes) {
  if (bytes == 1) return static_cast<int8_t>(*code);
  int32_t value;
  std::memcpy(&value, code, sizeof(value));
  return value;
}

/// VEX.128/256.66.0F38.W0 50 /r and 51 /r without prefixes before it, or nothing. Reads no byte behind an instruction.
std::optional<Instruction> decode(const uint8_t* code, const greg_t* general) {
  if (code[0] != 0xC4 || (code[1] & 0x1F) != 2 || (code[2] & 0x83) != 1) return std::nullopt;
  if (code[3] != 0x50 && code[3] != 0x51) return std::nullopt;
  // These three are stored inverted.
  const int more_reg = code[1] & 0x80 ? 0 : 8, more_index = code[1] & 0x40 ? 0 : 8, more_base = code[1] & 0x20 ? 0 : 8;
  const int mod = code[4] >> 6, low = code[4] & 7;
  Instruction result;
  result.sum = ((code[4] >> 3) & 7) + more_reg;
  result.bytes = ~(code[2] >> 3) & 15;
  result.wide = (code[2] & 4) != 0;
  result.saturates = code[3] == 0x51;
  result.length = 5;
  if (mod == 3) {
    result.other = low + more_base;
    return result;
  }
  const auto value_of = [&](int number) { return static_cast<uint64_t>(general[kGeneral[number]]); };
  uint64_t address = 0;
  bool from_next = false;
  size_t displacement = mod == 1 ? 1 : mod == 2 ? 4 : 0;
  if (low == 4) {
    const uint8_t sib = code[result.length++];
    const int index = ((sib >> 3) & 7) + more_index;
    if (index != 4) address += value_of(index) << (sib >> 6);
    if (mod == 0 && (sib & 7) == 5) {
      displacement = 4;
    } else {
      address += value_of((sib & 7) + more_base);
    }
  } else if (mod == 0 && low == 5) {
    from_next = true;
    displacement = 4;
  } else {
    address += value_of(low + more_base);
  }
  if (displacement > 0) {
    address += static_cast<uint64_t>(int64_t{signed_at(code + result.length, displacement)});
    result.length += displacement;
  }
  if (from_next) address += reinterpret_cast<uintptr_t>(code) + result.length;
  result.address = address;
  return result;
}

/// The vector registers that a signal's context holds.
class VectorRegisters {
 public:
  explicit VectorRegisters(fpregset_t state) : state_(reinterpret_cast<std::byte*>(state)) {}

  /// Whether the context holds the upper halves of YMM registers, where CPUID says.
  bool complete() const {
    uint32_t magic;
    uint64_t saved;
    std::memcpy(&magic, state_ + kSoftwareOffset, sizeof(magic));
    std::memcpy(&saved, state_ + kSoftwareOffset + 8, sizeof(saved));
    return magic == kSoftwareMagic && (saved >> kYmmHigh & 1) != 0;
  }

  void read(int number, std::byte (&value)[32]) const {
    std::memcpy(value, state_ + kXmmOffset + 16 * number, 16);
    // A component whose bit is clear is all zeros, whatever its memory holds.
    if (in_use(kYmmHigh)) {
      std::memcpy(value + 16, state_ + g_ymm_high_offset + 16 * number, 16);
    } else {
      std::memset(value + 16, 0, 16);
    }
  }

  /// As a VEX instruction does: everything above becomes zero.
  void write(int number, const std::byte (&value)[32]) {
    if (!in_use(kSse)) std::memset(state_ + kXmmOffset, 0, 16 * 16);
    if (!in_use(kYmmHigh)) std::memset(state_ + g_ymm_high_offset, 0, 16 * 16);
    set_in_use(uint64_t{1} << kSse | uint64_t{1} << kYmmHigh);
    std::memcpy(state_ + kXmmOffset + 16 * number, value, 16);
    std::memcpy(state_ + g_ymm_high_offset + 16 * number, value + 16, 16);
    if (in_use(kZmmHigh)) std::memset(state_ + g_zmm_high_offset + 32 * number, 0, 32);
  }

 private:
  uint64_t components() const {
    uint64_t bits;
    std::memcpy(&bits, state_ + kHeaderOffset, sizeof(bits));
    return bits;
  }
  bool in_use(int component) const { return (components() >> component & 1) != 0; }
  void set_in_use(uint64_t bits) {
    bits |= components();
    std::memcpy(state_ + kHeaderOffset, &bits, sizeof(bits));
  }

  std::byte* state_;
};

void execute(const Instruction& instruction, VectorRegisters& registers) {
  std::byte result[32], bytes[32], other[32] = {};
  registers.read(instruction.sum, result);
  registers.read(instruction.bytes, bytes);
  const int size = instruction.wide ? 32 : 16;
  if (instruction.address) {
    std::memcpy(other, pointer_to(*instruction.address), static_cast<size_t>(size));
  } else {
    registers.read(instruction.other, other);
  }
  for (int i = 0; i < size; i += 4) {
    int32_t sum;
    std::memcpy(&sum, result + i, sizeof(sum));
    int64_t exact = sum;
    for (int j = i; j < i + 4; ++j) exact += static_cast<int>(bytes[j]) * static_cast<int8_t>(other[j]);
    if (instruction.saturates) {
      exact =
          std::clamp(exact, int64_t{std::numeric_limits<int32_t>::min()}, int64_t{std::numeric_limits<int32_t>::max()});
    }
    sum = static_cast<int32_t>(exact);
    std::memcpy(result + i, &sum, sizeof(sum));
  }
  if (!instruction.wide) std::memset(result + 16, 0, 16);
  registers.write(instruction.sum, result);
}

void handle_sigill(int, siginfo_t* info, void* context) {
  mcontext_t& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
  uint64_t emulated = 0;
  // A positive code: from the CPU, and not from kill().
  if (info->si_code > 0 && machine.fpregs != nullptr) {
    VectorRegisters registers(machine.fpregs);
    if (registers.complete()) {
      const auto at = [&] { return pointer_to(static_cast<uint64_t>(machine.gregs[REG_RIP])); };
      // A signal costs far more than an instruction here, and the kernels have several in a row.
      while (const auto instruction = decode(at(), machine.gregs)) {
        execute(*instruction, registers);
        machine.gregs[REG_RIP] += static_cast<greg_t>(instruction->length);
        ++emulated;
      }
    }
  }
  g_emulated.fetch_add(emulated, std::memory_order_relaxed);
  if (emulated > 0) return;
  // Executed once more, what is illegal now meets what would have met it without this handler.
  sigaction(SIGILL, &g_previous, nullptr);
  if (info->si_code <= 0) raise(SIGILL);
}

size_t offset_of_component(unsigned component) {
  unsigned size = 0, offset = 0, flags = 0, unused = 0;
  return __get_cpuid_count(0xD, component, &size, &offset, &flags, &unused) != 0 ? offset : 0;
}

bool install() {
  __builtin_cpu_init();
  g_ymm_high_offset = offset_of_component(kYmmHigh);
  g_zmm_high_offset = offset_of_component(kZmmHigh);
  if (!__builtin_cpu_supports("avx2") || g_ymm_high_offset == 0) return false;
  struct sigaction action = {};
  action.sa_sigaction = handle_sigill;
  action.sa_flags = SA_SIGINFO;
  return sigaction(SIGILL, &action, &g_previous) == 0;
}

}  // namespace

bool cpu_has_it() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avxvnni");
}

bool emulate() {
  static const bool installed = install();
  return installed;
}

uint64_t emulated_instructions() { return g_emulated.load(std::memory_order_relaxed); }

}  // namespace reprise::avx_vnni

#else

namespace reprise::avx_vnni {

bool cpu_has_it() { return false; }
bool emulate() { return false; }
uint64_t emulated_instructions() { return 0; }

}  // namespace reprise::avx_vnni

#endif
