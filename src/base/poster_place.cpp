#include "base/poster_place.h"

namespace simpler {

void PosterPlace::note_room(bool full, int here, Nanos now) {
  tried_on_.store(full ? here : kNowhere, std::memory_order_relaxed);
  if (full) tries_.forget();  // the post may come before the sleep: then soon again, not after a longer pause
  tries_.begin(now);
}

bool PosterPlace::is_worth_a_note() const {
  return tried_on_.load(std::memory_order_relaxed) != kNowhere || woken_at_.load(std::memory_order_relaxed) != 0;
}

int PosterPlace::note_idle(Nanos now) {
  tried_on_.store(kNowhere, std::memory_order_relaxed);  // of a wait before, which then had no need to sleep
  const Nanos worked = now - woken_at_.load(std::memory_order_relaxed);
  if (worked > little_work_ || !woke_poster_.load(std::memory_order_relaxed)) {
    forget_row();
    return kNowhere;
  }
  if (far_wakes_.load(std::memory_order_relaxed) < kFarWakes || joins_.holds(now)) return kNowhere;
  const int target = far_cpu_.load(std::memory_order_relaxed);
  forget_row();
  joins_.begin(now);
  return target;
}

void PosterPlace::note_wake(int poster, int here, Nanos now) {
  const int tried_on = tried_on_.exchange(kNowhere, std::memory_order_relaxed);
  woke_poster_.store(false, std::memory_order_relaxed);
  if (poster == here) {
    woken_at_.store(0, std::memory_order_relaxed);
    forget_row();
    // The kernel may have put the woken thread beside its waker: then the turns were somebody else's, elsewhere.
    if (tried_on == here) beside_.begin(now);
    return;
  }
  beside_.forget();
  if (tried_on != kNowhere) tries_.begin(now);
  if (far_cpu_.exchange(poster, std::memory_order_relaxed) != poster) far_wakes_.store(0, std::memory_order_relaxed);
  far_wakes_.store(far_wakes_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  woken_at_.store(now, std::memory_order_relaxed);
}

void PosterPlace::forget_row() {
  far_wakes_.store(0, std::memory_order_relaxed);
  far_cpu_.store(kNowhere, std::memory_order_relaxed);
}

}  // namespace simpler
