// The emulation of AVX-VNNI, by which its kernels are tested on CPUs that lack it. On a CPU that has it, the same cases
// show that the reference below is what the CPU computes.

#include "harness/avx_vnni.h"

#include <gtest/gtest.h>

#if defined(__x86_64__)

#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

// Everything that a piece of code finds and leaves.
struct AvxVnniMachine {
  uint8_t vectors[16][32];
  uint64_t general[16];  ///< in the order of their encoding; rsp is not set
  const void* code;
  uint8_t memory[32];  ///< also copied onto the stack, to 24(%rsp) as the code sees it
};

extern "C" void reprise_run_avx_vnni(AvxVnniMachine* machine);
extern "C" const uint8_t reprise_avx_vnni_assembled[], reprise_avx_vnni_assembled_end[];

// rdi: the machine.
asm(R"(
  .text
  .type reprise_run_avx_vnni, @function
reprise_run_avx_vnni:
  push %rbx
  push %rbp
  push %r12
  push %r13
  push %r14
  push %r15
  sub $56, %rsp
  mov 640(%rdi), %rax
  mov %rax, (%rsp)
  mov %rdi, 8(%rsp)
  vmovdqu 648(%rdi), %ymm0
  vmovdqu %ymm0, 16(%rsp)
  .irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
  vmovdqu \i*32(%rdi), %ymm\i
  .endr
  mov 512(%rdi), %rax
  mov 520(%rdi), %rcx
  mov 528(%rdi), %rdx
  mov 536(%rdi), %rbx
  mov 552(%rdi), %rbp
  mov 560(%rdi), %rsi
  .irp i, 8, 9, 10, 11, 12, 13, 14, 15
  mov 512+\i*8(%rdi), %r\i
  .endr
  mov 568(%rdi), %rdi
  call *(%rsp)
  xchg %rdi, 8(%rsp)
  .irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
  vmovdqu %ymm\i, \i*32(%rdi)
  .endr
  mov %rax, 512(%rdi)
  mov %rcx, 520(%rdi)
  mov %rdx, 528(%rdi)
  mov %rbx, 536(%rdi)
  mov %rbp, 552(%rdi)
  mov %rsi, 560(%rdi)
  .irp i, 8, 9, 10, 11, 12, 13, 14, 15
  mov %r\i, 512+\i*8(%rdi)
  .endr
  mov 8(%rsp), %rax
  mov %rax, 568(%rdi)
  vzeroupper
  add $56, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbp
  pop %rbx
  ret
  .size reprise_run_avx_vnni, . - reprise_run_avx_vnni
reprise_avx_vnni_assembled:
  {vex} vpdpbusd %ymm1, %ymm2, %ymm3
  {vex} vpdpbusds %xmm9, %xmm10, %xmm11
  {vex} vpdpbusd %ymm12, %ymm3, %ymm4
  {vex} vpdpbusd (%rax), %ymm2, %ymm3
  {vex} vpdpbusd (%rbp), %ymm2, %ymm3
  {vex} vpdpbusd (%r13), %ymm2, %ymm13
  {vex} vpdpbusd (%rsp), %ymm2, %ymm3
  {vex} vpdpbusd (%r12), %ymm2, %ymm3
  {vex} vpdpbusds -8(%r9), %xmm15, %xmm0
  {vex} vpdpbusd 4096(%rdx), %ymm2, %ymm3
  {vex} vpdpbusd 16(%rbx,%rsi,4), %ymm2, %ymm3
  {vex} vpdpbusd (%r8,%r15,8), %ymm8, %ymm9
  {vex} vpdpbusd (%rbp,%r12,2), %ymm2, %ymm3
  {vex} vpdpbusd 1024(,%rcx,8), %ymm2, %ymm3
  {vex} vpdpbusd 1024, %ymm2, %ymm3
  {vex} vpdpbusds 119(%rip), %ymm2, %ymm3
reprise_avx_vnni_assembled_end:
)");

namespace reprise::avx_vnni {
namespace {

constexpr int kRsp = 4, kNone = -1, kNext = -2;

/// The signed bytes: a register, or an address.
struct Source {
  int number = kNone;  ///< vector register
  int base = kNone;    ///< general register, or kNext: the next instruction
  int index = kNone, scale = 1;
  int displacement_bytes = 0;
  int32_t displacement = 0;
};

Source vector_register(int number) { return {.number = number}; }

struct Instruction {
  bool saturates, wide;
  int sum, bytes;
  Source source;
};

/// As an assembler does it.
std::vector<uint8_t> encode(const Instruction& i) {
  Source s = i.source;
  const bool in_register = s.number != kNone;
  const bool after_next = s.base == kNext;
  const bool needs_sib = !in_register && !after_next && (s.index != kNone || s.base == kNone || (s.base & 7) == kRsp);
  int mod = in_register ? 3 : s.displacement_bytes == 1 ? 1 : s.displacement_bytes == 4 ? 2 : 0;
  if (!in_register && s.base < 0) {
    mod = 0;
    s.displacement_bytes = 4;
  } else if (mod == 0 && (s.base & 7) == 5) {
    mod = s.displacement_bytes = 1;
  }
  const int base = in_register ? s.number : s.base >= 0 ? s.base : 5;
  const int index = s.index == kNone ? kRsp : s.index;
  const auto inverted = [](int number) { return number >= 8 ? 0 : 1; };
  std::vector<uint8_t> code = {
      0xC4, static_cast<uint8_t>(inverted(i.sum) << 7 | inverted(index) << 6 | inverted(base) << 5 | 2),
      static_cast<uint8_t>((~i.bytes & 15) << 3 | (i.wide ? 4 : 0) | 1),
      static_cast<uint8_t>(i.saturates ? 0x51 : 0x50),
      static_cast<uint8_t>(mod << 6 | (i.sum & 7) << 3 | (needs_sib ? 4 : base & 7))};
  if (needs_sib) {
    const int logarithm = s.scale == 8 ? 3 : s.scale / 2;
    code.push_back(static_cast<uint8_t>(logarithm << 6 | (index & 7) << 3 | (base & 7)));
  }
  const auto displacement = static_cast<uint32_t>(s.displacement);
  for (int byte = 0; byte < s.displacement_bytes; ++byte)
    code.push_back(static_cast<uint8_t>(displacement >> 8 * byte));
  return code;
}

/// The formula of the manual, in other words than the emulation's.
void compute(const Instruction& i, const uint8_t (&signed_bytes)[32], AvxVnniMachine& machine) {
  const std::array<uint8_t, 32> unsigned_bytes = std::to_array(machine.vectors[i.bytes]);
  uint8_t(&sum)[32] = machine.vectors[i.sum];
  for (int lane = 0; lane < 8; ++lane) {
    int32_t value;
    std::memcpy(&value, sum + 4 * lane, 4);
    int32_t products = 0;
    for (int byte = 4 * lane; byte < 4 * lane + 4; ++byte) {
      products += unsigned_bytes[static_cast<size_t>(byte)] * static_cast<int8_t>(signed_bytes[byte]);
    }
    int32_t result;
    if (__builtin_add_overflow(value, products, &result) && i.saturates) {
      result = products > 0 ? std::numeric_limits<int32_t>::max() : std::numeric_limits<int32_t>::min();
    }
    if (!i.wide && lane >= 4) result = 0;
    std::memcpy(sum + 4 * lane, &result, 4);
  }
}

class AvxVnni : public testing::Test {
 protected:
  void SetUp() override {
    if (!emulate()) GTEST_SKIP() << "this CPU has no AVX2";
    // Below 2 GiB, so that an address of 32 bits reaches it.
    page_ = mmap(nullptr, kPage, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    if (page_ == MAP_FAILED) GTEST_SKIP() << "no memory that can be written and executed";
  }
  void TearDown() override {
    if (page_ != nullptr && page_ != MAP_FAILED) munmap(page_, kPage);
  }

  /// In the page of the code.
  uint8_t* memory() const { return static_cast<uint8_t*>(page_) + kMemory; }

  /// Random bytes, and sums near both ends of their range in half of the lanes.
  AvxVnniMachine random_machine() {
    AvxVnniMachine machine;
    for (auto& vector : machine.vectors) {
      for (uint8_t& byte : vector) byte = static_cast<uint8_t>(random_());
      for (int lane = 0; lane < 8; lane += 2) {
        const auto small = static_cast<int32_t>(random_() % 60000);
        const int32_t value =
            lane % 4 == 0 ? std::numeric_limits<int32_t>::max() - small : std::numeric_limits<int32_t>::min() + small;
        std::memcpy(vector + 4 * lane, &value, 4);
      }
    }
    for (uint64_t& value : machine.general) value = random_();
    for (uint8_t& byte : machine.memory) byte = static_cast<uint8_t>(random_());
    std::memcpy(memory(), machine.memory, sizeof(machine.memory));
    return machine;
  }

  void execute(std::vector<uint8_t> code, AvxVnniMachine& machine) {
    code.push_back(0xC3);  // ret
    ASSERT_LE(code.size(), kMemory);
    std::memcpy(page_, code.data(), code.size());
    machine.code = page_;
    reprise_run_avx_vnni(&machine);
  }

  /// Runs it, and compares all registers with what must be in them.
  bool is_right(const Instruction& instruction, AvxVnniMachine machine) {
    AvxVnniMachine expected = machine;
    if (instruction.source.number == kNone) {
      compute(instruction, machine.memory, expected);
    } else {
      const AvxVnniMachine before = machine;
      compute(instruction, before.vectors[instruction.source.number], expected);
    }
    execute(encode(instruction), machine);
    expected.general[kRsp] = machine.general[kRsp];
    return std::memcmp(machine.vectors, expected.vectors, sizeof(machine.vectors)) == 0 &&
           std::memcmp(machine.general, expected.general, sizeof(machine.general)) == 0;
  }

  static constexpr size_t kPage = 4096, kMemory = 128;
  void* page_ = nullptr;
  std::mt19937 random_{1};
};

TEST_F(AvxVnni, TheTestEncodesAsTheAssemblerDoes) {
  const Instruction instructions[] = {
      {false, true, 3, 2, vector_register(1)},
      {true, false, 11, 10, vector_register(9)},
      {false, true, 4, 3, vector_register(12)},
      {false, true, 3, 2, {.base = 0}},
      {false, true, 3, 2, {.base = 5}},
      {false, true, 13, 2, {.base = 13}},
      {false, true, 3, 2, {.base = 4}},
      {false, true, 3, 2, {.base = 12}},
      {true, false, 0, 15, {.base = 9, .displacement_bytes = 1, .displacement = -8}},
      {false, true, 3, 2, {.base = 2, .displacement_bytes = 4, .displacement = 4096}},
      {false, true, 3, 2, {.base = 3, .index = 6, .scale = 4, .displacement_bytes = 1, .displacement = 16}},
      {false, true, 9, 8, {.base = 8, .index = 15, .scale = 8}},
      {false, true, 3, 2, {.base = 5, .index = 12, .scale = 2}},
      {false, true, 3, 2, {.index = 1, .scale = 8, .displacement = 1024}},
      {false, true, 3, 2, {.displacement = 1024}},
      {true, true, 3, 2, {.base = kNext, .displacement = 119}}};
  std::vector<uint8_t> code;
  for (const Instruction& instruction : instructions) {
    const std::vector<uint8_t> one = encode(instruction);
    code.insert(code.end(), one.begin(), one.end());
  }
  EXPECT_EQ(code, std::vector<uint8_t>(reprise_avx_vnni_assembled, reprise_avx_vnni_assembled_end));
}

TEST_F(AvxVnni, ComputesOnAllRegistersInAllRoles) {
  int wrong = 0;
  for (int variant = 0; variant < 4; ++variant) {
    for (int registers = 0; registers < 16 * 16 * 16; ++registers) {
      const Instruction instruction{(variant & 1) != 0, (variant & 2) != 0, registers & 15, registers >> 4 & 15,
                                    vector_register(registers >> 8)};
      if (!is_right(instruction, random_machine())) ++wrong;
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST_F(AvxVnni, ReadsMemoryAtEveryFormOfAddress) {
  const auto target = static_cast<int64_t>(reinterpret_cast<uintptr_t>(memory()));
  int tried = 0;
  for (int base = kNone; base < 16; ++base) {
    for (int index = kNone; index < 16; ++index) {
      if (index == kRsp) continue;
      for (const int scale : {1, 2, 4, 8}) {
        for (const int bytes : {0, 1, 4}) {
          Source source{.base = base, .index = index, .scale = scale, .displacement_bytes = bytes};
          // At the stack's end the operand is 24 bytes away; elsewhere a register leads to it. Steps are negative too.
          const int64_t step = base == kRsp ? (bytes == 0 ? 24 / scale : 2) : bytes == 1 ? -3 : 1000;
          const int64_t offset = index == kNone ? 0 : step * scale;
          source.displacement = bytes == 0 ? 0 : bytes == 1 ? -72 : 100'000;
          AvxVnniMachine machine = random_machine();
          if (index != kNone) machine.general[index] = static_cast<uint64_t>(step);
          if (base == kRsp) {
            source.displacement = static_cast<int32_t>(24 - offset);
            if (bytes == 0 && source.displacement != 0) continue;
          } else if (base == kNone) {
            source.displacement = static_cast<int32_t>(target - offset);
          } else if (base == index) {
            // Both move.
            const int64_t rest = (target - source.displacement) % (1 + scale);
            if (bytes == 0 && rest != 0) continue;
            source.displacement += static_cast<int32_t>(rest);
            machine.general[base] = static_cast<uint64_t>((target - source.displacement) / (1 + scale));
          } else {
            machine.general[base] = static_cast<uint64_t>(target - offset - source.displacement);
          }
          const Instruction instruction{tried % 2 == 0, tried % 3 != 0, tried % 16, tried / 16 % 16, source};
          ++tried;
          ASSERT_TRUE(is_right(instruction, machine)) << base << " + " << index << " * " << scale << ", " << bytes;
        }
      }
    }
  }
  EXPECT_GT(tried, 3000);
  // Relative to the next instruction, which the displacement ends at.
  const Instruction relative{false, true, 8, 9, {.base = kNext, .displacement = static_cast<int32_t>(kMemory) - 9}};
  EXPECT_TRUE(is_right(relative, random_machine()));
}

TEST_F(AvxVnni, RunsNeighboursInOrderAndCountsThem) {
  const Instruction first{false, true, 3, 2, vector_register(1)}, second{true, true, 4, 3, vector_register(3)},
      third{false, false, 3, 4, {.base = kRsp, .displacement_bytes = 1, .displacement = 24}};
  AvxVnniMachine machine = random_machine();
  AvxVnniMachine expected = machine;
  std::vector<uint8_t> code;
  for (const Instruction& instruction : {first, second, third}) {
    const std::vector<uint8_t> one = encode(instruction);
    code.insert(code.end(), one.begin(), one.end());
    const AvxVnniMachine before = expected;
    compute(instruction, instruction.source.number == kNone ? before.memory : before.vectors[instruction.source.number],
            expected);
  }
  const uint64_t count = emulated_instructions();
  execute(code, machine);
  EXPECT_EQ(std::memcmp(machine.vectors, expected.vectors, sizeof(machine.vectors)), 0);
  EXPECT_EQ(emulated_instructions() - count, cpu_has_it() ? 0 : 3);
}

TEST_F(AvxVnni, TakesClearedUpperHalvesForZeros) {
  AvxVnniMachine machine = random_machine();
  const Instruction instruction{false, true, 3, 2, vector_register(1)};
  std::vector<uint8_t> code = {0xC5, 0xF8, 0x77};  // vzeroupper
  const std::vector<uint8_t> one = encode(instruction);
  code.insert(code.end(), one.begin(), one.end());
  AvxVnniMachine expected = machine;
  for (auto& vector : expected.vectors) std::memset(vector + 16, 0, 16);
  const AvxVnniMachine before = expected;
  compute(instruction, before.vectors[1], expected);
  execute(code, machine);
  EXPECT_EQ(std::memcmp(machine.vectors, expected.vectors, sizeof(machine.vectors)), 0);
}

TEST_F(AvxVnni, ClearsTheUpperHalfOfA512BitRegister) {
  if (!__builtin_cpu_supports("avx512f")) GTEST_SKIP() << "this CPU has no AVX-512";
  for (const bool wide : {false, true}) {
    std::vector<uint8_t> code = {0x62, 0xF3, 0x65, 0x48, 0x25, 0xDB, 0xFF,   // vpternlogd $255, zmm3, zmm3, zmm3
                                 0x62, 0xF3, 0x5D, 0x48, 0x25, 0xE4, 0xFF};  // the same with zmm4
    const std::vector<uint8_t> one = encode({false, wide, 3, 2, vector_register(1)});
    code.insert(code.end(), one.begin(), one.end());
    for (const uint8_t byte : {0x62, 0xF3, 0xFD, 0x48, 0x3B, 0xDD, 0x01,     // vextracti64x4 $1, zmm3, ymm5
                               0x62, 0xF3, 0xFD, 0x48, 0x3B, 0xE6, 0x01}) {  // vextracti64x4 $1, zmm4, ymm6
      code.push_back(byte);
    }
    AvxVnniMachine machine = random_machine();
    execute(code, machine);
    EXPECT_EQ(std::to_array(machine.vectors[5]), (std::array<uint8_t, 32>{}));
    std::array<uint8_t, 32> ones;
    ones.fill(0xFF);
    EXPECT_EQ(std::to_array(machine.vectors[6]), ones);
  }
}

TEST(AvxVnniDeathTest, LeavesOtherIllegalInstructionsAndSignalsAlone) {
  if (!emulate()) GTEST_SKIP() << "this CPU has no AVX2";
  EXPECT_EXIT(asm volatile("ud2"), testing::KilledBySignal(SIGILL), "");
  EXPECT_EXIT(raise(SIGILL), testing::KilledBySignal(SIGILL), "");
  if (!cpu_has_it()) {
    // Of AVX-VNNI too, but nobody uses it.
    EXPECT_EXIT(asm volatile("{vex} vpdpwssd %ymm1, %ymm2, %ymm3"), testing::KilledBySignal(SIGILL), "");
  }
}

}  // namespace
}  // namespace reprise::avx_vnni

#endif
