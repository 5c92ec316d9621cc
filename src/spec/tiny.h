// An invented generation with odd numbers: what works only for real chips breaks here first.
#pragma once

#include "spec/chip_spec.h"

namespace simpler::spec {

inline constexpr ChipSpec kTiny{
    .name = "tiny",
    .topology = {.clusters = 2, .cores_per_cluster = 3, .cores = 6},
    .control = {.active_max = 1, .active_default = 1, .launched = 1},
    .graph = {.task_window = 1024,
              .heap_bytes = 16u << 20,
              .tensor_map_entries = 4096,
              .tensor_map_buckets = 64,
              .fanin_per_task = 128},
    .counter_hz = 7'000'000,
    .dispatch_register = 0x1C,
    .progress_batch = 5,
    .frames_in_flight = 2,
    .performance_counters = 3,
};
static_assert(is_consistent(kTiny));

}  // namespace simpler::spec
