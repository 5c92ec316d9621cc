// Gives up an object for good, because a thread that never came back may still use it. Leak checkers are told.
#pragma once

#include <memory>

// Present only in programs built with a leak checker.
extern "C" void __lsan_ignore_object(const void* object) __attribute__((weak));

namespace simpler::chip {

template <class T>
void keep_for_ever(std::unique_ptr<T>& object) {
  const T* raw = object.release();
  if (raw != nullptr && __lsan_ignore_object != nullptr) __lsan_ignore_object(raw);
}

}  // namespace simpler::chip
