// What the one thread of a child has learnt of where its poster runs, on a machine where no CPU is free.
//
// - The poster is on the same CPU, and so are others that yield: a yield goes round all of them and usually finds
//   nothing. To sleep and be woken by a neighbour is cheaper. Whether the poster is there is learnt by sleeping once.
// - The poster is on another CPU, and both sides sleep until the other wakes them, for little work: the interrupts cost
//   more than the work. The thread joins its poster's CPU.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "base/growing_pause.h"

namespace simpler {

class PosterPlace {
 public:
  static constexpr int kNowhere = -1;

  // Between tries pauses double from `first_pause` to `longest`, between joins from `first_ban`: a row of far wake-ups
  // takes milliseconds by itself. Yields are left out for `first_ban`, then twice that: no longer, since nothing else
  // tells that a CPU has come free.
  // `little_work` is the longest time from a wake-up to the next wait that counts for a join.
  PosterPlace(Nanos little_work, Nanos first_pause, Nanos first_ban, Nanos longest)
      : little_work_(little_work),
        beside_(first_ban, 2 * first_ban),
        tries_(first_pause, longest),
        joins_(first_ban, longest) {}

  // Whether to leave out the yields: the poster is beside us, and yields go round.
  bool sleeps_at_once(Nanos now) const { return beside_.known() && beside_.holds(now); }
  // Whether it does, or did a moment ago: then it will soon sleep again.
  bool sleeps_often(Nanos now) const { return beside_.recent(now); }

  // After `turns` yields in a row of one wait that ran somebody else and found nothing: whether to ask if the machine
  // is full, and then to tell with `note_room`.
  bool asks_for_room(uint32_t turns, Nanos now) const { return turns >= kTurns && !tries_.holds(now); }
  // Full: the thread, on CPU `here`, sleeps now to learn where the poster is. Otherwise somebody will move to a free
  // CPU, and yields are right.
  void note_room(bool full, int here, Nanos now);

  // A wait begins. Returns the CPU to join, if the machine is full, or kNowhere. Cheap while `is_worth_a_note` is
  // false.
  bool is_worth_a_note() const;
  int note_idle(Nanos now);
  // An answer has woken the poster.
  void note_woke_poster() { woke_poster_.store(true, std::memory_order_relaxed); }
  // Woken by a poster on CPU `poster` when on CPU `here`.
  void note_wake(int poster, int here, Nanos now);
  // The thread has been moved away for another reason.
  void note_move(Nanos now) { joins_.begin(now); }

 private:
  static constexpr uint32_t kTurns = 3;
  static constexpr uint32_t kFarWakes = 8;

  void forget_row();

  const Nanos little_work_;

  // Advice of one thread; atomic because a policy may be looked at by others.
  std::atomic<int> tried_on_{kNowhere};   // where this wait decided to sleep to learn of the poster
  std::atomic<int> far_cpu_{kNowhere};    // of the poster in the row of far wake-ups
  std::atomic<uint32_t> far_wakes_{0};    // in a row, from one CPU, each for little work whose answer woke the poster
  std::atomic<Nanos> woken_at_{0};        // by the last wake-up, if it came from another CPU
  std::atomic<bool> woke_poster_{false};  // since that wake-up
  GrowingPause beside_;                   // in which yields are left out
  GrowingPause tries_;                    // between two questions whether the machine is full
  GrowingPause joins_;                    // between two moves to the poster's CPU
};

}  // namespace simpler
