// A lane whose child is a value: the world decides when it starts and ends each line.
//
// Lines start in push order (or, on a lane that is not in order, in any) and are answered in push order. The child
// obeys after-masks and cancels like the real one.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "lane/lane.h"
#include "wire/dispatch_line.h"

namespace simpler::simulation {

class SimLane final : public lane::Lane {
 public:
  enum class Stage : uint8_t { kQueued, kRunning, kEnded };
  struct Line {
    wire::Dispatch dispatch;
    uint32_t number = 0;  // pushes before it
    uint32_t member = 0;  // of its group
    Stage stage = Stage::kQueued;
    lane::Outcome outcome = lane::Outcome::kSuccess;
  };

  SimLane(const lane::LaneInfo& info, uint32_t parallel) : info_(info), parallel_(parallel) {}

  const lane::LaneInfo& info() const override { return info_; }
  uint32_t free_lines() const override {
    return alive() ? info_.queue_depth - static_cast<uint32_t>(lines_.size()) : 0;
  }
  void push_line(const wire::LineWords& line) override;
  uint32_t poll(std::span<lane::Completion> out) override;
  Status take_failure(const lane::Completion& completion) override;
  void cancel(uint32_t run_low32) override { cancelled_.push_back(run_low32); }
  void lose(Status why) override {
    end_life();
    health_ = std::move(why);
  }
  Status health() const override { return health_; }

  // Lines that could start now, and lines that run, as positions in `lines`.
  std::vector<size_t> startable() const;
  std::vector<size_t> running() const;
  // Starts a line; false when it is skipped instead, because of its after-mask or a cancel.
  bool start(size_t at);
  void end(size_t at, lane::Outcome outcome);
  const std::deque<Line>& lines() const { return lines_; }

  // Says which member of its group a line is; called for each push.
  std::function<uint32_t(const wire::Dispatch&)> member_of;

 private:
  struct Past {
    uint32_t number = 0;
    bool good = false;
  };
  bool blocked_by_mask(const Line& line) const;
  bool mask_failed(const Line& line) const;

  lane::LaneInfo info_;
  uint32_t parallel_;  // lines that may run at once
  std::deque<Line> lines_;
  std::array<Past, lane::kMaxQueueDepth> past_{};
  uint32_t pushed_ = 0;
  std::vector<uint32_t> cancelled_;
  Status health_;
};

}  // namespace simpler::simulation
