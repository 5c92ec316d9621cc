// Which instruction sets run here: cpuid for the processor, xgetbv for the registers that the system saves.
#include "kernels/instruction_set.h"

#include <array>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace simpler::kernels {

namespace {

constexpr std::array<std::string_view, 4> kNames = {"generic", "v2", "v3", "v4"};

#if defined(__x86_64__)

constexpr std::array kBuilt = {InstructionSet::kX86V4, InstructionSet::kX86V3, InstructionSet::kX86V2};

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf = 0) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

constexpr bool has(unsigned value, unsigned mask) {
  return (value & mask) == mask;
}
constexpr unsigned bits(std::initializer_list<unsigned> list) {
  unsigned mask = 0;
  for (const unsigned bit : list) mask |= 1U << bit;
  return mask;
}

// Low half of the register that says which states the system saves: 2 SSE, 4 AVX, 0xE0 AVX-512.
unsigned saved_states(const Registers& leaf1) {
  if (!has(leaf1.ecx, bits({27}))) return 0;  // no OSXSAVE
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

bool supported_x86(InstructionSet isa) {
  const Registers one = cpuid(1), seven = cpuid(7), extended = cpuid(0x80000001U);
  // SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT; LAHF
  const bool v2 = has(one.ecx, bits({0, 9, 13, 19, 20, 23})) && has(extended.ecx, bits({0}));
  if (isa == InstructionSet::kX86V2) return v2;
  // FMA, MOVBE, AVX, F16C; BMI1, AVX2, BMI2; LZCNT
  const unsigned saved = saved_states(one);
  const bool v3 = v2 && has(one.ecx, bits({12, 22, 28, 29})) && has(seven.ebx, bits({3, 5, 8})) &&
                  has(extended.ecx, bits({5})) && has(saved, 0x6U);
  if (isa == InstructionSet::kX86V3) return v3;
  // AVX-512 F, DQ, CD, BW, VL
  return v3 && has(seven.ebx, bits({16, 17, 28, 30, 31})) && has(saved, 0xE6U);
}

#else

constexpr std::array kBuilt = {InstructionSet::kGeneric};
bool supported_x86(InstructionSet) {
  return false;
}

#endif

}  // namespace

std::string_view name_of(InstructionSet isa) {
  return kNames[static_cast<size_t>(isa)];
}

Result<InstructionSet> parse_instruction_set(std::string_view text) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (text == kNames[i]) return static_cast<InstructionSet>(i);
  }
  return invalid_argument("instruction set '" + std::string(text) + "' is not one of v2, v3, v4, generic");
}

bool is_supported(InstructionSet isa) {
  return isa == InstructionSet::kGeneric || supported_x86(isa);
}

std::span<const InstructionSet> built_instruction_sets() {
  return kBuilt;
}

Result<InstructionSet> best_instruction_set() {
  for (const InstructionSet isa : kBuilt) {
    if (is_supported(isa)) return isa;
  }
  return unsupported("this processor runs none of the instruction sets that kernels are built for (lowest: x86-64-v2)");
}

}  // namespace simpler::kernels
