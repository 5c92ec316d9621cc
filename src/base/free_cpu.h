// Whether a thread that shares its CPU with somebody could run elsewhere at once, and how it gets there.
//
// The kernel does this by itself, but not always soon: a woken thread may be put beside its waker, and two threads that
// run by turns of a few microseconds look too warm in the cache to be moved for milliseconds.
#pragma once

#include <cstdint>
#include <string_view>

namespace simpler {

// True when there are no more runnable threads on the whole machine than CPUs on which the calling thread may run. If
// it shares its CPU, then another one of those runs nobody at this moment. False when that cannot be known. Reads
// /proc/loadavg: some microseconds.
bool a_cpu_is_free();

// Moves the calling thread to another CPU of its affinity mask, which stays what it was. False when there is no other,
// or the kernel refuses. Takes as long as it takes to wake that CPU: tens of microseconds.
bool leave_this_cpu();

// Runnable threads of the machine by the text of /proc/loadavg; 0 when it is not understood, or says 0, as systems do
// that do not count (the reader itself runs).
uint32_t runnable_threads_of(std::string_view loadavg);

}  // namespace simpler
