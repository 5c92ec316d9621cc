// What one trace event is: 32 bytes that say what happened, when, for how long, and to what.
//
// Times are nanoseconds of the monotonic clock, the same in every process of a host.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/clock.h"

namespace simpler::trace {

// Index into the recorder's table of names; 0 is "no name".
struct NameId {
  uint32_t value = 0;
  friend constexpr bool operator==(NameId, NameId) = default;
};

enum class EventKind : uint32_t {
  kSpan = 1,     // extent is its length in ns
  kInstant = 2,  // extent is 0
  kCounter = 3,  // extent is the new value, signed
};

struct Event {
  Nanos at = 0;
  int64_t extent = 0;
  NameId name = {};
  EventKind kind = EventKind::kInstant;
  uint64_t arg = 0;  // a slot, a byte count, whatever the name says
  friend constexpr bool operator==(const Event&, const Event&) = default;
};
static_assert(sizeof(Event) == 32 && std::is_trivially_copyable_v<Event>);

}  // namespace simpler::trace
