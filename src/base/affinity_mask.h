// The CPUs on which a thread may run, however many the kernel knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <sched.h>

namespace simpler {

class AffinityMask {
 public:
  // Of the calling thread; nothing when the kernel does not tell.
  static std::optional<AffinityMask> of_this_thread() {
    // The kernel refuses a mask smaller than its own, so the size grows until it fits.
    for (int cpus = 1024; cpus <= (1 << 20); cpus *= 2) {
      AffinityMask mask(cpus);
      if (mask.set_ != nullptr && ::sched_getaffinity(0, mask.bytes_, mask.set_.get()) == 0) return mask;
    }
    return std::nullopt;
  }

  AffinityMask(const AffinityMask& other) : set_(CPU_ALLOC(other.bytes_ * 8)), bytes_(other.bytes_) {
    std::memcpy(set_.get(), other.set_.get(), bytes_);
  }
  AffinityMask(AffinityMask&&) = default;
  AffinityMask& operator=(const AffinityMask&) = delete;
  AffinityMask& operator=(AffinityMask&&) = default;
  ~AffinityMask() = default;

  uint32_t count() const { return static_cast<uint32_t>(CPU_COUNT_S(bytes_, set_.get())); }
  // A number that the mask cannot hold is not in it.
  void remove(int cpu) { CPU_CLR_S(static_cast<size_t>(cpu), bytes_, set_.get()); }
  bool has(int cpu) const { return CPU_ISSET_S(static_cast<size_t>(cpu), bytes_, set_.get()); }
  void fill() { std::memset(set_.get(), 0xFF, bytes_); }
  void keep_only(int cpu) {
    CPU_ZERO_S(bytes_, set_.get());
    CPU_SET_S(static_cast<size_t>(cpu), bytes_, set_.get());
  }
  bool operator==(const AffinityMask& other) const {
    return bytes_ == other.bytes_ && CPU_EQUAL_S(bytes_, set_.get(), other.set_.get());
  }
  bool apply_to_this_thread() const { return ::sched_setaffinity(0, bytes_, set_.get()) == 0; }

 private:
  struct Free {
    void operator()(cpu_set_t* set) const { CPU_FREE(set); }
  };
  explicit AffinityMask(int cpus) : set_(CPU_ALLOC(cpus)), bytes_(CPU_ALLOC_SIZE(cpus)) {}

  std::unique_ptr<cpu_set_t, Free> set_;
  size_t bytes_;
};

}  // namespace simpler
