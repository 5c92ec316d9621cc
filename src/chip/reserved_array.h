// ReservedArray: address space for many records, of which only the touched ones cost memory.
//
// Records are neither constructed nor destroyed: they must be usable from zero bytes or be written before they are
// read. Growing drops the contents. Nothing is given back before the destructor.
#pragma once

#include <cerrno>
#include <cstddef>
#include <string>
#include <sys/mman.h>
#include <type_traits>
#include <utility>

#include "simpler/status.h"

namespace simpler::chip {

template <class T>
class ReservedArray {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  ReservedArray() = default;
  ReservedArray(const ReservedArray&) = delete;
  ReservedArray& operator=(const ReservedArray&) = delete;
  ~ReservedArray() { unmap(); }

  // Room for at least `count` records; keeps the storage when it is large enough.
  Status reserve(std::size_t count, const char* what) {
    if (count <= capacity_) return Status::ok();
    unmap();
    void* memory =
        ::mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      return resource_exhausted(std::string(what) + ": no address space for " + std::to_string(count * sizeof(T)) +
                                " bytes");
    }
    data_ = static_cast<T*>(memory);
    capacity_ = count;
    return Status::ok();
  }

  T* data() const { return data_; }
  std::size_t capacity() const { return capacity_; }
  std::size_t capacity_bytes() const { return capacity_ * sizeof(T); }
  T& operator[](std::size_t index) const { return data_[index]; }

 private:
  void unmap() {
    if (data_ != nullptr) ::munmap(data_, capacity_ * sizeof(T));
    data_ = nullptr;
    capacity_ = 0;
  }

  T* data_ = nullptr;
  std::size_t capacity_ = 0;
};

}  // namespace simpler::chip
