// Instruction sets that kernel modules exist for, and which of them this processor and system can run.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "simpler/status.h"

namespace simpler::kernels {

// Rising: each runs wherever a later one of the same family runs.
enum class InstructionSet : uint8_t { kGeneric, kX86V2, kX86V3, kX86V4 };

std::string_view name_of(InstructionSet isa);  // "generic", "v2", "v3", "v4"
Result<InstructionSet> parse_instruction_set(std::string_view text);

// True when processor and operating system (saved registers) support it.
bool is_supported(InstructionSet isa);

// Those that can be built for this kind of processor, best first.
std::span<const InstructionSet> built_instruction_sets();

// The best of them that runs here.
Result<InstructionSet> best_instruction_set();

}  // namespace simpler::kernels
