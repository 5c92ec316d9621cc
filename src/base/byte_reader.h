// ByteReader: takes little-endian values off a run of bytes that somebody else wrote.
//
// A read past the end gives zero and marks the reader as failed; every later read fails too, so a decoder reads all its
// fields and asks once, by finish() or status(). Nothing is read outside the given bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "simpler/status.h"

namespace simpler {

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint8_t u8() { return number<uint8_t>(); }
  uint16_t u16() { return number<uint16_t>(); }
  uint32_t u32() { return number<uint32_t>(); }
  uint64_t u64() { return number<uint64_t>(); }
  int8_t i8() { return static_cast<int8_t>(u8()); }
  int16_t i16() { return static_cast<int16_t>(u16()); }
  int32_t i32() { return static_cast<int32_t>(u32()); }
  int64_t i64() { return static_cast<int64_t>(u64()); }

  // The next `count` bytes where they lie; empty when there are fewer.
  std::span<const std::byte> bytes(size_t count) {
    if (!take(count)) return {};
    return bytes_.subspan(at_ - count, count);
  }
  std::string_view text(size_t count) {
    const auto found = bytes(count);
    return {reinterpret_cast<const char*>(found.data()), found.size()};
  }
  // A plain record by its bytes; for records that are themselves defined as little-endian layouts.
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void record(T& out) {
    if (take(sizeof(T))) std::memcpy(&out, bytes_.data() + at_ - sizeof(T), sizeof(T));
  }
  void skip(size_t count) { take(count); }

  size_t position() const { return at_; }
  size_t remaining() const { return failed_ ? 0 : bytes_.size() - at_; }
  bool ok() const { return !failed_; }

  Status status() const {
    if (!failed_) return Status::ok();
    return corrupt("record ends at byte " + std::to_string(bytes_.size()) + ", byte " + std::to_string(wanted_) +
                   " was needed");
  }
  // Success when every byte was read and none was missing.
  Status finish() const {
    if (!failed_ && at_ != bytes_.size()) {
      return corrupt("record has " + std::to_string(bytes_.size() - at_) + " bytes after its end at byte " +
                     std::to_string(at_));
    }
    return status();
  }

 private:
  bool take(size_t count) {
    if (failed_) return false;
    if (count > bytes_.size() - at_) {
      failed_ = true;
      wanted_ = at_ + count;
      return false;
    }
    at_ += count;
    return true;
  }

  template <class T>
  T number() {
    if (!take(sizeof(T))) return 0;
    T value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      value = static_cast<T>(value | (static_cast<T>(bytes_[at_ - sizeof(T) + i]) << (8 * i)));
    }
    return value;
  }

  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  size_t wanted_ = 0;
  bool failed_ = false;
};

}  // namespace simpler
