// Snapshot: the events of a tree at one moment, as plain data. What is written to files, merged and exported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "simpler/status.h"
#include "trace/event.h"

namespace simpler::trace {

// One thread's events, oldest first.
struct Track {
  uint32_t pid = 0;
  uint32_t tid = 0;
  std::string process_name;
  std::string thread_name;
  uint64_t lost = 0;  // older events that the ring no longer held
  std::vector<Event> events;
};

struct Snapshot {
  std::vector<std::string> names;  // by NameId; [0] is empty
  std::vector<Track> tracks;
  uint64_t refused_threads = 0;  // threads that found no free ring

  std::string_view name(NameId id) const { return id.value < names.size() ? names[id.value] : std::string_view(); }
};

// A file of our own: eight bytes "SMPLTRC1", then names and tracks, little endian.
std::vector<std::byte> encode(const Snapshot& snapshot);
// kCorrupt for anything that encode cannot have made.
Result<Snapshot> decode(std::span<const std::byte> bytes);

Status write_file(const Snapshot& snapshot, const std::string& path);
Result<Snapshot> read_file(const std::string& path);

// One snapshot with the tracks of all; equal names become one. For processes of one host, whose clock is the same.
Snapshot merge(std::span<const Snapshot> snapshots);

}  // namespace simpler::trace
