#include "trace/chrome_export.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <limits>

#include <nlohmann/json.hpp>

namespace simpler::trace {
namespace {

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string microseconds(Nanos span) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%lld.%03d", static_cast<long long>(span / kMicrosecond),
                static_cast<int>(span % kMicrosecond));
  return text.data();
}

Nanos earliest(const Snapshot& snapshot) {
  Nanos first = std::numeric_limits<Nanos>::max();
  for (const Track& track : snapshot.tracks) {
    for (const Event& event : track.events) first = std::min(first, event.at);
  }
  return first;
}

class Writer {
 public:
  void add(const std::string& object) {
    text_ += first_ ? "\n" : ",\n";
    text_ += object;
    first_ = false;
  }
  void metadata(const Track& track, const char* what, std::string_view value) {
    add("{\"name\":\"" + std::string(what) + "\",\"ph\":\"M\"," + place(track) +
        ",\"args\":{\"name\":" + json_text(value) + "}}");
  }
  void event(const Track& track, const std::string& name, const Event& event, Nanos origin) {
    std::string object = "{\"name\":" + name + "," + place(track) + ",\"ts\":" + microseconds(event.at - origin);
    switch (event.kind) {
      case EventKind::kSpan:
        object += ",\"ph\":\"X\",\"dur\":" + microseconds(std::max<int64_t>(event.extent, 0));
        break;
      case EventKind::kInstant:
        object += ",\"ph\":\"i\",\"s\":\"t\"";
        break;
      case EventKind::kCounter:
        add(object + ",\"ph\":\"C\",\"args\":{\"value\":" + std::to_string(event.extent) + "}}");
        return;
    }
    add(object + ",\"args\":{\"arg\":" + std::to_string(event.arg) + "}}");
  }
  std::string finish(uint64_t lost, uint64_t refused) && {
    text_ += "\n],\"displayTimeUnit\":\"ns\",\"otherData\":{\"lost_events\":" + std::to_string(lost) +
             ",\"refused_threads\":" + std::to_string(refused) + "}}\n";
    return std::move(text_);
  }

 private:
  static std::string place(const Track& track) {
    return "\"pid\":" + std::to_string(track.pid) + ",\"tid\":" + std::to_string(track.tid);
  }
  std::string text_ = "{\"traceEvents\":[";
  bool first_ = true;
};

}  // namespace

std::string to_chrome_json(const Snapshot& snapshot) {
  const Nanos origin = earliest(snapshot);
  std::vector<std::string> names;
  for (const std::string& name : snapshot.names) names.push_back(json_text(name.empty() ? "(no name)" : name));
  Writer out;
  uint64_t lost = 0;
  for (const Track& track : snapshot.tracks) {
    lost += track.lost;
    if (!track.process_name.empty()) out.metadata(track, "process_name", track.process_name);
    if (!track.thread_name.empty()) out.metadata(track, "thread_name", track.thread_name);
    for (const Event& event : track.events) {
      out.event(track, event.name.value < names.size() ? names[event.name.value] : "\"(no name)\"", event, origin);
    }
  }
  return std::move(out).finish(lost, snapshot.refused_threads);
}

Status write_chrome_json(const Snapshot& snapshot, const std::string& path) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << to_chrome_json(snapshot);
  file.close();
  if (!file) return system_error(errno, "writing trace " + path);
  return Status::ok();
}

}  // namespace simpler::trace
