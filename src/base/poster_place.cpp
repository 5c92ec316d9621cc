#include "base/poster_place.h"

namespace simpler {

void PosterPlace::note_room(bool sleeps, Nanos now) {
  trying_.store(sleeps, std::memory_order_relaxed);
  tries_.begin(now);
}

void PosterPlace::note_sleep(Nanos now) {
  if (now - woken_at_.load(std::memory_order_relaxed) > kLittleWork) far_wakes_.store(0, std::memory_order_relaxed);
}

bool PosterPlace::note_wake(int poster, int here, Nanos now) {
  const bool tried = trying_.exchange(false, std::memory_order_relaxed);
  if (poster == here) {
    woken_at_.store(0, std::memory_order_relaxed);
    far_wakes_.store(0, std::memory_order_relaxed);
    if (tried) beside_.begin(now);
    return false;
  }
  beside_.forget();
  if (tried) tries_.begin(now);
  woken_at_.store(now, std::memory_order_relaxed);
  const uint32_t far_wakes = far_wakes_.load(std::memory_order_relaxed) + 1;
  far_wakes_.store(far_wakes, std::memory_order_relaxed);
  if (far_wakes < kFarWakes || joins_.holds(now)) return false;
  far_wakes_.store(0, std::memory_order_relaxed);
  joins_.begin(now);
  return true;
}

}  // namespace simpler
