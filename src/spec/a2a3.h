// The generation with 24 clusters.
#pragma once

#include "spec/chip_spec.h"

namespace simpler::spec {

inline constexpr ChipSpec kA2a3{
    .name = "a2a3",
    .topology = {.clusters = 24, .cores_per_cluster = 3, .cores = 72},
    .control = {.active_max = 4, .active_default = 4, .launched = 6},
    .graph = {.task_window = 16384,
              .heap_bytes = 256u << 20,
              .tensor_map_entries = 65536,
              .tensor_map_buckets = 4096,
              .fanin_per_task = 128},
    .counter_hz = 50'000'000,
    .dispatch_register = 0xA0,
    .progress_batch = 1,
    .frames_in_flight = 2,
    .performance_counters = 8,
};
static_assert(is_consistent(kA2a3));

}  // namespace simpler::spec
