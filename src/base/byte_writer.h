// ByteWriter: appends little-endian values to a growing run of bytes. The mirror of ByteReader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"

namespace simpler {

class ByteWriter {
 public:
  void u8(uint8_t value) { number(value); }
  void u16(uint16_t value) { number(value); }
  void u32(uint32_t value) { number(value); }
  void u64(uint64_t value) { number(value); }
  void i8(int8_t value) { number(static_cast<uint8_t>(value)); }
  void i16(int16_t value) { number(static_cast<uint16_t>(value)); }
  void i32(int32_t value) { number(static_cast<uint32_t>(value)); }
  void i64(int64_t value) { number(static_cast<uint64_t>(value)); }

  void bytes(std::span<const std::byte> data) { bytes_.insert(bytes_.end(), data.begin(), data.end()); }
  void text(std::string_view data) { bytes(std::as_bytes(std::span(data))); }
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void record(const T& value) { bytes(std::as_bytes(std::span(&value, 1))); }
  void zeros(size_t count) { bytes_.resize(bytes_.size() + count); }
  void align(size_t alignment) { bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment); }

  // Overwrites four bytes written earlier, for lengths that are known only at the end.
  void patch_u32(size_t offset, uint32_t value) {
    SIMPLER_CHECK(offset + 4 <= bytes_.size(), offset, bytes_.size());
    for (size_t i = 0; i < 4; ++i) bytes_[offset + i] = static_cast<std::byte>(value >> (8 * i));
  }

  size_t size() const { return bytes_.size(); }
  std::span<const std::byte> view() const { return bytes_; }
  std::vector<std::byte> take() { return std::exchange(bytes_, {}); }

 private:
  template <class T>
  void number(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) bytes_.push_back(static_cast<std::byte>((value >> (8 * i)) & 0xff));
  }

  std::vector<std::byte> bytes_;
};

}  // namespace simpler
