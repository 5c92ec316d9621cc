#include "process/reaper.h"

#include <algorithm>
#include <signal.h>

#include "process/poll_set.h"

namespace simpler::process {
namespace {

constexpr Nanos kDefaultBudget = 5 * kSecond;
constexpr Nanos kAfterKill = 100 * kMillisecond;

enum class Stage { kLeave, kTerminate, kKill };

struct Waiting {
  Child child;
  bool terminated = false;
  bool killed = false;
};

// Moves those that have ended from `waiting` to the report.
void collect(std::vector<Waiting>& waiting, ReapReport& report) {
  std::erase_if(waiting, [&](const Waiting& one) {
    const auto info = one.child.exit_info();
    if (info) report.ended.push_back({one.child, *info, one.terminated, one.killed});
    return info.has_value();
  });
}

void wait_for_any(const std::vector<Waiting>& waiting, Deadline until) {
  PollSet set;
  for (const Waiting& one : waiting) set.add(one.child.pidfd());
  set.wait(until);
}

}  // namespace

Status ReapReport::status() const {
  if (survivors.empty()) return Status::ok();
  std::string names;
  for (const Child& child : survivors) {
    names += (names.empty() ? "" : ", ") + child.name() + " (pid " + std::to_string(child.pid()) + ")";
  }
  return timed_out("not ended within the budget, not even by SIGKILL: " + names);
}

ReapReport reap(std::span<const Child> children, Deadline deadline, const ReapOptions& options) {
  const Nanos start = monotonic_now();
  const Nanos budget = deadline.is_never() ? kDefaultBudget : deadline.remaining(start);
  const Nanos terminate_at = start + budget / 100 * options.leave_percent;
  const Nanos kill_at = terminate_at + budget / 100 * options.terminate_percent;
  Nanos end = start + budget;

  ReapReport report;
  std::vector<Waiting> waiting;
  for (const Child& child : children) waiting.push_back({child});
  Stage stage = Stage::kLeave;
  while (true) {
    collect(waiting, report);
    const Nanos now = monotonic_now();
    if (waiting.empty() || (stage == Stage::kKill && now >= end)) break;
    if (stage != Stage::kKill && now >= kill_at) {
      stage = Stage::kKill;
      end = std::max(end, now + kAfterKill);
      for (Waiting& one : waiting) one.killed = one.child.send_signal_to_group(SIGKILL);
    } else if (stage == Stage::kLeave && now >= terminate_at) {
      stage = Stage::kTerminate;
      for (Waiting& one : waiting) {
        one.terminated = one.child.send_signal(SIGTERM);
        one.child.send_signal(SIGCONT);  // a stopped process acts on SIGTERM only once it goes on
      }
    }
    const Nanos next = stage == Stage::kLeave ? terminate_at : stage == Stage::kTerminate ? kill_at : end;
    wait_for_any(waiting, Deadline::at(next));
  }
  for (Waiting& one : waiting) report.survivors.push_back(std::move(one.child));
  return report;
}

}  // namespace simpler::process
