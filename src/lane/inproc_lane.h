// A lane whose far end is the caller: queued tasks run inside `poll`, on the polling thread.
//
// For programs and tests that want no second process; the rules (order, after-masks, cancel, loss) are those of every
// lane. `poll` runs user code, so a driver that uses this lane polls it without holding anything user code may want.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "lane/entry_history.h"
#include "lane/handler.h"
#include "lane/lane.h"
#include "lane/line_ledger.h"

namespace simpler::lane {

class InprocLane final : public Lane {
 public:
  InprocLane(const LaneInfo& info, Handler& handler);

  const LaneInfo& info() const override { return info_; }
  uint32_t free_lines() const override { return alive() ? ledger_.free() : 0; }
  void push_line(const wire::LineWords& line) override;
  uint32_t poll(std::span<Completion> out) override;
  Status take_failure(const Completion& completion) override { return ledger_.take_failure(completion.line); }
  void cancel(uint32_t run_low32) override;
  void lose(Status why) override;
  Status health() const override { return health_; }

 private:
  Outcome run_oldest();

  LaneInfo info_;
  Handler& handler_;
  LineLedger ledger_;
  EntryHistory history_;
  Status health_;
  std::array<wire::Dispatch, kMaxQueueDepth> queued_{};
  std::array<uint32_t, wire::kCancelWords> cancelled_{};
  uint32_t cancels_ = 0;
};

}  // namespace simpler::lane
