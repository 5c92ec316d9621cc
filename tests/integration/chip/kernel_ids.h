// Numbers that the graphs and the tests share.
#pragma once

#include <cstdint>

constexpr int32_t kAdd = 0;
constexpr int32_t kAddScalar = 1;
constexpr int32_t kMultiply = 2;
constexpr int32_t kAffine = 3;
constexpr int32_t kCopy = 4;
constexpr int32_t kFill = 5;
constexpr int32_t kBlockIndex = 6;
constexpr int32_t kDoubleInts = 7;
constexpr int32_t kBarrier = 8;
constexpr int32_t kNothing = 9;
constexpr int32_t kThrows = 10;
constexpr int32_t kStuck = 11;
constexpr int32_t kWaitForever = 12;
constexpr int32_t kCount = 13;
constexpr int32_t kAffineAic = 14;
constexpr int32_t kKernels = 15;

enum class Mistake : int32_t {
  kScalarBeforeTensor,
  kTooManyTensors,
  kTooManyScalars,
  kUnknownKernel,
  kNoKernel,
  kAutoInManual,
  kDeepScopes,
  kFutureDependency,
  kViewOutside,
  kZeroBlocks,
  kReadOwnOutput,
  kReadWritten,
  kReadWrittenInManualScope,
  kWriteWhatIsRead,
  kReadPureOutput,
  kIndexOutside,
  kWrongElementSize,
  kForeignMemory,
  kArgumentIndex,
  kThrow,
  kFatal,
  kHeap,
  kWindow,
  kProducers128,
  kProducers129,
  kTensorMap,
  kMix,
  kSyncStart,
  kPredicate,
  kGraph,
};
