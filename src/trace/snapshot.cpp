#include "trace/snapshot.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <map>

#include "base/byte_reader.h"
#include "base/byte_writer.h"
#include "base/status_macros.h"

namespace simpler::trace {
namespace {

constexpr std::string_view kMagic = "SMPLTRC1";

void put_text(ByteWriter& out, std::string_view text) {
  out.u32(static_cast<uint32_t>(text.size()));
  out.text(text);
}

std::string take_text(ByteReader& in) {
  const uint32_t length = in.u32();
  return std::string(in.text(length));
}

void put_event(ByteWriter& out, const Event& event) {
  out.i64(event.at);
  out.i64(event.extent);
  out.u32(event.name.value);
  out.u32(static_cast<uint32_t>(event.kind));
  out.u64(event.arg);
}

Result<Event> take_event(ByteReader& in, size_t names) {
  Event event;
  event.at = in.i64();
  event.extent = in.i64();
  event.name = NameId{in.u32()};
  const uint32_t kind = in.u32();
  event.arg = in.u64();
  SIMPLER_RETURN_IF_ERROR(in.status());
  if (kind < static_cast<uint32_t>(EventKind::kSpan) || kind > static_cast<uint32_t>(EventKind::kCounter)) {
    return corrupt("trace event of kind " + std::to_string(kind) + ", kinds are 1 to 3");
  }
  if (event.name.value >= names) {
    return corrupt("trace event with name " + std::to_string(event.name.value) + " of " + std::to_string(names));
  }
  event.kind = static_cast<EventKind>(kind);
  return event;
}

Result<Track> take_track(ByteReader& in, size_t names) {
  Track track;
  track.pid = in.u32();
  track.tid = in.u32();
  track.process_name = take_text(in);
  track.thread_name = take_text(in);
  track.lost = in.u64();
  const uint64_t count = in.u64();
  SIMPLER_RETURN_IF_ERROR(in.status());
  if (count > in.remaining() / sizeof(Event)) {
    return corrupt("trace track with " + std::to_string(count) + " events in " + std::to_string(in.remaining()) +
                   " bytes");
  }
  track.events.reserve(static_cast<size_t>(count));
  for (uint64_t i = 0; i < count; ++i) {
    SIMPLER_ASSIGN_OR_RETURN(const Event event, take_event(in, names));
    track.events.push_back(event);
  }
  return track;
}

}  // namespace

std::vector<std::byte> encode(const Snapshot& snapshot) {
  ByteWriter out;
  out.text(kMagic);
  out.u64(snapshot.refused_threads);
  out.u32(static_cast<uint32_t>(snapshot.names.size()));
  out.u32(static_cast<uint32_t>(snapshot.tracks.size()));
  for (const std::string& name : snapshot.names) put_text(out, name);
  for (const Track& track : snapshot.tracks) {
    out.u32(track.pid);
    out.u32(track.tid);
    put_text(out, track.process_name);
    put_text(out, track.thread_name);
    out.u64(track.lost);
    out.u64(track.events.size());
    for (const Event& event : track.events) put_event(out, event);
  }
  return out.take();
}

Result<Snapshot> decode(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  if (in.text(kMagic.size()) != kMagic) return corrupt("not a trace file: it does not begin with SMPLTRC1");
  Snapshot snapshot;
  snapshot.refused_threads = in.u64();
  const uint32_t names = in.u32();
  const uint32_t tracks = in.u32();
  for (uint32_t i = 0; i < names && in.ok(); ++i) snapshot.names.push_back(take_text(in));
  SIMPLER_RETURN_IF_ERROR(in.status());
  for (uint32_t i = 0; i < tracks; ++i) {
    SIMPLER_ASSIGN_OR_RETURN(Track track, take_track(in, names));
    snapshot.tracks.push_back(std::move(track));
  }
  SIMPLER_RETURN_IF_ERROR(in.finish());
  return snapshot;
}

Status write_file(const Snapshot& snapshot, const std::string& path) {
  const std::vector<std::byte> bytes = encode(snapshot);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) return system_error(errno, "writing trace file " + path);
  return Status::ok();
}

Result<Snapshot> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return system_error(errno, "opening trace file " + path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  auto snapshot = decode(std::as_bytes(std::span(text)));
  if (!snapshot.ok()) return std::move(snapshot).status().context(path);
  return snapshot;
}

Snapshot merge(std::span<const Snapshot> snapshots) {
  Snapshot merged;
  merged.names.emplace_back();
  std::map<std::string, uint32_t, std::less<>> ids{{"", 0}};
  for (const Snapshot& one : snapshots) {
    std::vector<uint32_t> moved;
    for (const std::string& name : one.names) {
      const auto [found, is_new] = ids.try_emplace(name, static_cast<uint32_t>(merged.names.size()));
      if (is_new) merged.names.push_back(name);
      moved.push_back(found->second);
    }
    merged.refused_threads += one.refused_threads;
    for (Track track : one.tracks) {
      for (Event& event : track.events) {
        event.name.value = event.name.value < moved.size() ? moved[event.name.value] : 0;
      }
      merged.tracks.push_back(std::move(track));
    }
  }
  std::stable_sort(merged.tracks.begin(), merged.tracks.end(),
                   [](const Track& a, const Track& b) { return std::pair(a.pid, a.tid) < std::pair(b.pid, b.tid); });
  return merged;
}

}  // namespace simpler::trace
