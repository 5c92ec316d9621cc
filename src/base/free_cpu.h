// Whether a thread that shares its CPU with somebody could run elsewhere at once, and how it gets there.
//
// The kernel does this by itself, but not always soon: a woken thread may be put beside its waker, and two threads that
// run by turns of a few microseconds look too warm in the cache to be moved for milliseconds.
#pragma once

#include <cstdint>
#include <string_view>

namespace simpler {

// What is known of the machine at one moment.
struct CpuRoom {
  uint32_t runnable = 0;  // threads on the whole machine that run or could; 0: not known
  uint32_t allowed = 0;   // CPUs on which the calling thread may run
  uint32_t online = 0;    // CPUs of the whole machine; 0: not asked

  // Whether one of the allowed CPUs runs nobody, provided that the calling thread shares its own with somebody.
  bool has_a_free_cpu() const { return runnable != 0 && runnable <= allowed; }
  // Whether at least every second one of the other CPUs runs nobody, on the same condition. On two CPUs that is the
  // same.
  bool has_mostly_free_cpus() const { return has_a_free_cpu() && (runnable < 2 || 2 * (runnable - 2) <= allowed - 1); }
  // Whether more threads run than there are CPUs. Those that the calling thread may use are most likely full then; what
  // runs only elsewhere on the machine tells nothing of them.
  bool is_full() const { return online != 0 && runnable > online; }
};

// Reads /proc/loadavg and the affinity mask of the calling thread, some microseconds; leaves out `online`.
CpuRoom cpu_room();

// Moves the calling thread to another CPU of its affinity mask: to any, for the kernel does not choose by who runs
// there. Takes as long as it takes to wake that CPU, tens of microseconds. False when there is no other, or the kernel
// refuses. The mask is put back; since Linux 6.2 it counts as set by the user then, so that CPUs which a control group
// gains later, or which were offline, are not added to it, neither for processes forked from here.
bool leave_this_cpu();

// Moves the calling thread to that CPU; takes until it gets a turn there. False when its affinity mask has no such CPU,
// or the kernel refuses. The mask is put back as above.
bool join_that_cpu(int cpu);

// The CPU that the calling thread runs on; less than 0 where the kernel does not tell.
int current_cpu();

// Runnable threads of the machine by the text of /proc/loadavg; 0 when it is not understood, or says 0, as systems do
// that do not count (the reader itself runs).
uint32_t runnable_threads_of(std::string_view loadavg);

}  // namespace simpler
