// The scheduler thread: drives when nobody else does, and sleeps the longer the less there is to do.
#include <algorithm>
#include <utility>

#include "engine/driver.h"

namespace simpler::engine {

namespace {
constexpr uint32_t kIdleLooks = 8;  // looks without an unfinished run before the scheduler sleeps for good
}  // namespace

bool Driver::builder_moved(uint32_t* seen) const {
  const uint32_t beat = roles_.heartbeat.load(std::memory_order_relaxed);
  return std::exchange(*seen, beat) != beat;
}

bool Driver::somebody_drives(uint32_t* seen) const {
  const bool moved = builder_moved(seen);
  if (!roles_.building.load(std::memory_order_seq_cst)) {
    return roles_.elected.load(std::memory_order_seq_cst) || roles_.looking.load(std::memory_order_relaxed);
  }
  return moved || roles_.builder_drives.load(std::memory_order_relaxed) || !roles_.owed.load(std::memory_order_relaxed);
}

void Driver::scheduler_drives() {
  uint32_t beat = roles_.heartbeat.load(std::memory_order_relaxed);
  const auto must_go = [&] {
    if (roles_.stopping.load(std::memory_order_relaxed) || roles_.unfinished.load(std::memory_order_relaxed) == 0) {
      return true;
    }
    if (!roles_.building.load(std::memory_order_seq_cst)) return roles_.elected.load(std::memory_order_seq_cst);
    return builder_moved(&beat) || roles_.builder_drives.load(std::memory_order_relaxed);
  };
  while (!must_go()) {
    wait_on_doorbell(Deadline::never(), [&] { return must_go() || pump_once() != 0; });
  }
}

void Driver::scheduler_main() {
  Nanos look = options_.first_look;
  uint32_t beat = 0;
  uint32_t idle_looks = 0;
  const auto called = [this] {
    return roles_.stopping.load(std::memory_order_seq_cst) || roles_.roused.load(std::memory_order_seq_cst);
  };
  while (!roles_.stopping.load(std::memory_order_seq_cst)) {
    if (roles_.roused.exchange(false, std::memory_order_seq_cst)) {
      look = options_.first_look;
      while (roles_.owed.load(std::memory_order_relaxed) && pump_once() != 0) {
      }
    }
    if (roles_.unfinished.load(std::memory_order_relaxed) == 0 && ++idle_looks > kIdleLooks) {
      // Under the lock: a run that begins later finds the mark, one that began before is seen here.
      if (with_engine([this](Engine& engine) {
            roles_.deep.store(engine.unfinished_runs() == 0, std::memory_order_relaxed);
            return engine.unfinished_runs() == 0;
          })) {
        simpler::wait(scheduler_word_, sleepy_, Deadline::never(),
                      [&] { return called() || roles_.unfinished.load(std::memory_order_acquire) != 0; });
        with_engine([this](Engine&) { roles_.deep.store(false, std::memory_order_relaxed); });
      }
      idle_looks = 0;
      look = options_.first_look;
    } else if (look == options_.last_look && roles_.unfinished.load(std::memory_order_relaxed) != 0 &&
               driver_sleeps()) {
      roles_.dozing.store(true, std::memory_order_seq_cst);
      simpler::wait(scheduler_word_, sleepy_, Deadline::after(options_.doze),
                    [&] { return called() || !driver_sleeps(); });
      roles_.dozing.store(false, std::memory_order_seq_cst);
      if (!driver_sleeps()) look = options_.first_look;
    } else if (roles_.unfinished.load(std::memory_order_relaxed) == 0 || somebody_drives(&beat)) {
      simpler::wait(scheduler_word_, sleepy_, Deadline::after(look), called);
      look = std::min(look * 2, options_.last_look);
    } else {
      idle_looks = 0;
      look = options_.first_look;
      scheduler_drives();
    }
  }
}

}  // namespace simpler::engine
