// Element types of tensors: their codes, sizes and names.
//
// The code is one byte of a tensor record. FP4E2M1 occupies one byte per element here.
#pragma once

#include <cstdint>
#include <string_view>

namespace simpler {

enum class DataType : uint8_t {
  kFloat32 = 0,
  kFloat16 = 1,
  kInt32 = 2,
  kInt16 = 3,
  kInt8 = 4,
  kUint8 = 5,
  kBfloat16 = 6,
  kInt64 = 7,
  kUint64 = 8,
  kUint16 = 9,
  kUint32 = 10,
  kBool = 11,
  kFp8E4M3FN = 12,
  kFp8E8M0 = 13,
  kFp4E2M1 = 14,
};
inline constexpr uint8_t kDataTypeCount = 15;

constexpr bool is_known(DataType dtype) {
  return static_cast<uint8_t>(dtype) < kDataTypeCount;
}

// Bytes of one element; 0 for a code that is not a type.
constexpr uint32_t element_size(DataType dtype) {
  constexpr uint8_t kSizes[kDataTypeCount] = {4, 2, 4, 2, 1, 1, 2, 8, 8, 2, 4, 1, 1, 1, 1};
  return is_known(dtype) ? kSizes[static_cast<uint8_t>(dtype)] : 0U;
}

constexpr std::string_view name_of(DataType dtype) {
  constexpr std::string_view kNames[kDataTypeCount] = {"FLOAT32", "FLOAT16",  "INT32",     "INT16",   "INT8",
                                                       "UINT8",   "BFLOAT16", "INT64",     "UINT64",  "UINT16",
                                                       "UINT32",  "BOOL",     "FP8E4M3FN", "FP8E8M0", "FP4E2M1"};
  return is_known(dtype) ? kNames[static_cast<uint8_t>(dtype)] : "unknown";
}

}  // namespace simpler
