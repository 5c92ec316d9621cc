#include "base/clock.h"

#include <algorithm>
#include <time.h>

namespace simpler {

Nanos monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<Nanos>(now.tv_sec) * kSecond + now.tv_nsec;
}

int Deadline::remaining_poll_ms() const {
  if (is_never()) return -1;
  constexpr Nanos kLongest = 1'000'000'000;  // fits an int; the caller's loop waits again
  const Nanos left = remaining();
  return static_cast<int>(std::min(left / kMillisecond + (left % kMillisecond != 0 ? 1 : 0), kLongest));
}

}  // namespace simpler
