// BoundedVector<T, N>: up to N elements inside the object; never allocates. A full one refuses, and the caller says
// what that means.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "base/check.h"

namespace simpler {

template <class T, size_t N>
class BoundedVector {
 public:
  static constexpr size_t capacity() { return N; }

  constexpr bool try_push(T value) {
    if (size_ == N) return false;
    items_[size_++] = std::move(value);
    return true;
  }
  constexpr void push(T value) { SIMPLER_CHECK(try_push(std::move(value)), N); }
  constexpr T pop() {
    SIMPLER_CHECK(size_ > 0);
    return std::move(items_[--size_]);
  }
  // Puts the last element in the place of the removed one.
  constexpr void remove_unordered(size_t index) {
    SIMPLER_CHECK(index < size_, index, size_);
    if (index != size_ - 1) items_[index] = std::move(items_[size_ - 1]);
    --size_;
  }
  constexpr void clear() { size_ = 0; }

  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr bool full() const { return size_ == N; }
  constexpr T& operator[](size_t index) {
    SIMPLER_CHECK(index < size_, index, size_);
    return items_[index];
  }
  constexpr const T& operator[](size_t index) const {
    SIMPLER_CHECK(index < size_, index, size_);
    return items_[index];
  }
  constexpr T* data() { return items_.data(); }
  constexpr const T* data() const { return items_.data(); }
  constexpr T* begin() { return items_.data(); }
  constexpr T* end() { return items_.data() + size_; }
  constexpr const T* begin() const { return items_.data(); }
  constexpr const T* end() const { return items_.data() + size_; }

 private:
  std::array<T, N> items_{};
  size_t size_ = 0;
};

}  // namespace simpler
