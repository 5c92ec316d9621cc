#include "base/fault_point.h"

#include <utility>

#include "base/check.h"

namespace simpler {

void FaultPlan::fail_at(std::string point, uint64_t nth, Status status) {
  SIMPLER_CHECK(nth > 0 && !status.is_ok(), nth);
  MutexLock held(mutex_);
  planned_.push_back({std::move(point), nth, std::move(status)});
}

void FaultPlan::fail_nth(uint64_t nth, Status status) {
  fail_at(std::string(), nth, std::move(status));
}

void FaultPlan::on_reach(Hook hook) {
  hook_ = std::move(hook);
}

Status FaultPlan::reach(std::string_view point) {
  Status outcome = hook_ ? hook_(point) : Status::ok();
  MutexLock held(mutex_);
  reached_.emplace_back(point);
  for (Planned& plan : planned_) {
    if (plan.countdown == 0 || (!plan.point.empty() && plan.point != point)) continue;
    if (--plan.countdown == 0 && outcome.is_ok()) {
      outcome = plan.status;
      fired_ = true;
    }
  }
  return outcome;
}

std::vector<std::string> FaultPlan::reached() const {
  MutexLock held(mutex_);
  return reached_;
}

bool FaultPlan::fired() const {
  MutexLock held(mutex_);
  return fired_;
}

}  // namespace simpler
