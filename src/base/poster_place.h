// What the one thread of a child has learnt of where its poster runs, on a machine where no CPU is free.
//
// - The poster is on the same CPU, and so are others that yield: a yield goes round all of them and usually finds
//   nothing. To sleep and be woken by a neighbour is cheaper. Whether the poster is there is learnt by sleeping once.
// - The poster is on another CPU and wakes this thread every time, each time for little work: the interrupt costs more
//   than the work. The thread joins its poster's CPU.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "base/growing_pause.h"

namespace simpler {

class PosterPlace {
 public:
  PosterPlace(Nanos first_pause, Nanos first_ban, Nanos longest)
      : beside_(first_ban, longest), tries_(first_pause, longest), joins_(first_pause, longest) {}

  // Whether to leave out the yields: the poster is beside us, and yields go round.
  bool sleeps_at_once(Nanos now) const { return beside_.known() && beside_.holds(now); }

  // After `turns` yields in a row of one wait that ran somebody else and found nothing: whether to ask for the room.
  bool is_worth_a_sleep(uint32_t turns, Nanos now) const { return turns >= kTurns && !tries_.holds(now); }
  // It has been asked: with `sleeps` the thread sleeps now, to learn where the poster is. Otherwise a CPU is free;
  // somebody will move, and yields are right.
  void note_room(bool sleeps, Nanos now);

  // Whether the last wake-up came from another CPU; only then note_sleep is worth a look at the clock.
  bool was_far() const { return woken_at_.load(std::memory_order_relaxed) != 0; }
  void note_sleep(Nanos now);
  // Woken by a poster on CPU `poster` when on CPU `here`. True when the thread had better run there, if there is no
  // free CPU for it.
  bool note_wake(int poster, int here, Nanos now);

 private:
  static constexpr uint32_t kTurns = 3;
  static constexpr uint32_t kFarWakes = 8;
  static constexpr Nanos kLittleWork = 25 * kMicrosecond;  // from a wake-up to the next sleep

  // Advice of one thread; atomic because a policy may be looked at by others.
  std::atomic<bool> trying_{false};
  std::atomic<uint32_t> far_wakes_{0};  // in a row, each followed by little work
  std::atomic<Nanos> woken_at_{0};      // by the last wake-up, if it came from another CPU
  GrowingPause beside_;                 // in which yields are left out
  GrowingPause tries_;                  // between two questions for the room
  GrowingPause joins_;                  // between two moves to the poster's CPU
};

}  // namespace simpler
