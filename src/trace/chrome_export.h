// A snapshot as Chrome trace JSON, which chrome://tracing and Perfetto open.
#pragma once

#include <string>

#include "simpler/status.h"
#include "trace/snapshot.h"

namespace simpler::trace {

// One "traceEvents" array: names of processes and threads, spans as complete events, instants, counters. Microseconds
// with three decimals, counted from the earliest event. Lost events and refused threads appear as metadata.
std::string to_chrome_json(const Snapshot& snapshot);
Status write_chrome_json(const Snapshot& snapshot, const std::string& path);

}  // namespace simpler::trace
