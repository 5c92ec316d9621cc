#include "simulation/sim_lane.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace simpler::simulation {

void SimLane::push_line(const wire::LineWords& line) {
  const wire::Dispatch dispatch = wire::parse(line);
  SIMPLER_CHECK(free_lines() > 0, info_.worker_id);
  SIMPLER_CHECK(info_.in_order || dispatch.after_mask == 0, dispatch.after_mask);
  lines_.push_back({dispatch, pushed_++, member_of(dispatch), Stage::kQueued, lane::Outcome::kSuccess});
}

uint32_t SimLane::poll(std::span<lane::Completion> out) {
  uint32_t count = 0;
  while (!lines_.empty() && count < out.size() && (lines_.front().stage == Stage::kEnded || !alive())) {
    const Line& line = lines_.front();
    const lane::Outcome outcome = line.stage == Stage::kEnded ? line.outcome : lane::Outcome::kEndpointFailure;
    out[count++] = {line.number % lane::kMaxQueueDepth, line.dispatch.slot, line.dispatch.slot_generation, outcome};
    past_[line.number % lane::kMaxQueueDepth] = {line.number, outcome == lane::Outcome::kSuccess};
    lines_.pop_front();
  }
  return count;
}

Status SimLane::take_failure(const lane::Completion& completion) {
  if (completion.outcome == lane::Outcome::kEndpointFailure) return health_;
  return task_failed("simulated failure in slot " + std::to_string(completion.slot));
}

bool SimLane::blocked_by_mask(const Line& line) const {
  return std::any_of(lines_.begin(), lines_.end(), [&](const Line& other) {
    const uint32_t distance = line.number - other.number;
    return other.stage != Stage::kEnded && distance >= 1 && distance <= 32 &&
           ((line.dispatch.after_mask >> (distance - 1)) & 1) != 0;
  });
}

bool SimLane::mask_failed(const Line& line) const {
  for (uint32_t bit = 0; bit < 32; ++bit) {
    if (((line.dispatch.after_mask >> bit) & 1) == 0) continue;
    const uint32_t number = line.number - 1 - bit;
    SIMPLER_CHECK(number < line.number, number);
    const auto queued =
        std::find_if(lines_.begin(), lines_.end(), [&](const Line& other) { return other.number == number; });
    if (queued != lines_.end()) {
      if (queued->outcome != lane::Outcome::kSuccess) return true;
    } else {
      const Past& past = past_[number % lane::kMaxQueueDepth];
      SIMPLER_CHECK(past.number == number, past.number, number);
      if (!past.good) return true;
    }
  }
  return false;
}

std::vector<size_t> SimLane::startable() const {
  std::vector<size_t> result;
  if (!alive()) return result;
  size_t active = running().size();
  for (size_t i = 0; i < lines_.size() && active < parallel_; ++i) {
    if (lines_[i].stage != Stage::kQueued) continue;
    if (!blocked_by_mask(lines_[i])) result.push_back(i);
    if (info_.in_order) break;
  }
  return result;
}

std::vector<size_t> SimLane::running() const {
  std::vector<size_t> result;
  for (size_t i = 0; i < lines_.size(); ++i) {
    if (lines_[i].stage == Stage::kRunning) result.push_back(i);
  }
  return result;
}

bool SimLane::start(size_t at) {
  Line& line = lines_[at];
  const bool cancelled = std::find(cancelled_.begin(), cancelled_.end(), line.dispatch.run) != cancelled_.end();
  if (cancelled || mask_failed(line)) {
    line.stage = Stage::kEnded;
    line.outcome = lane::Outcome::kSkipped;
    return false;
  }
  line.stage = Stage::kRunning;
  return true;
}

void SimLane::end(size_t at, lane::Outcome outcome) {
  lines_[at].stage = Stage::kEnded;
  lines_[at].outcome = outcome;
}

}  // namespace simpler::simulation
