// The generation with 36 clusters.
#pragma once

#include "spec/chip_spec.h"

namespace simpler::spec {

inline constexpr ChipSpec kA5{
    .name = "a5",
    .topology = {.clusters = 36, .cores_per_cluster = 3, .cores = 108},
    .control = {.active_max = 5, .active_default = 5, .launched = 14},
    .graph = {.task_window = 16384,
              .heap_bytes = 256u << 20,
              .tensor_map_entries = 65536,
              .tensor_map_buckets = 4096,
              .fanin_per_task = 128},
    .counter_hz = 1'000'000'000,
    .dispatch_register = 0xD0,
    .progress_batch = 16,
    .frames_in_flight = 1,
    .performance_counters = 10,
};
static_assert(is_consistent(kA5));

}  // namespace simpler::spec
