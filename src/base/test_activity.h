// For tests: how much a process does while nothing is asked of it, as context switches and CPU time of its threads.
//
// A thread that sleeps until it is called switches not once however long one looks; one that looks around by itself
// shows it by a count that grows with the interval. Neither depends on how fast the machine is or what else runs on it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <unistd.h>

namespace simpler::testing {

struct Activity {
  std::uint64_t switches = 0;  // of its own accord; who is in its way on a busy machine is not its doing
  std::uint64_t cpu_ns = 0;
};

inline std::map<pid_t, Activity> activity_of(pid_t process) {
  std::map<pid_t, Activity> threads;
  std::error_code gone;
  const std::filesystem::path tasks = "/proc/" + std::to_string(process) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks, gone)) {
    Activity& activity = threads[static_cast<pid_t>(std::stoi(task.path().filename()))];
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      constexpr std::string_view kVoluntary = "voluntary_ctxt_switches:";
      if (line.starts_with(kVoluntary)) activity.switches += std::stoull(line.substr(kVoluntary.size()));
    }
    std::ifstream(task.path() / "schedstat") >> activity.cpu_ns;
  }
  return threads;
}

// The time over which something is measured. Nothing is ordered by it.
inline void pass(std::int64_t nanoseconds) {
  const int timer = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  itimerspec when{};
  when.it_value = {nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
  ::timerfd_settime(timer, 0, &when, nullptr);
  std::uint64_t expirations = 0;
  while (::read(timer, &expirations, sizeof expirations) < 0) {
  }
  ::close(timer);
}

// What a process did from the first look to the second: the switches of its busiest thread, CPU time of all together.
inline Activity grown(const std::map<pid_t, Activity>& before, const std::map<pid_t, Activity>& after) {
  Activity sum;
  for (const auto& [thread, activity] : after) {
    const auto known = before.find(thread);
    const Activity start = known == before.end() ? Activity{} : known->second;
    sum.switches = std::max(sum.switches, activity.switches - start.switches);
    sum.cpu_ns += activity.cpu_ns - start.cpu_ns;
  }
  return sum;
}

}  // namespace simpler::testing
