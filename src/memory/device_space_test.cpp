#include "memory/device_space.h"

#include <gtest/gtest.h>

namespace simpler::memory {
namespace {

TEST(DevicePointers, AreLiveOnExactlyTheirWorker) {  // P40
  DevicePointers pointers;
  ASSERT_TRUE(pointers.add(1, 0x1000, 256).is_ok());
  EXPECT_TRUE(pointers.check_base(1, 0x1000).is_ok());
  EXPECT_FALSE(pointers.check_base(2, 0x1000).is_ok());
  EXPECT_FALSE(pointers.check_base(1, 0x1010).is_ok());
  EXPECT_TRUE(pointers.add(2, 0x1000, 64).is_ok());  // another chip's address space
}

TEST(DevicePointers, CopiesStayInsideOneAllocation) {
  DevicePointers pointers;
  ASSERT_TRUE(pointers.add(1, 0x1000, 256).is_ok());
  ASSERT_TRUE(pointers.add(1, 0x1100, 256).is_ok());  // the neighbour
  EXPECT_TRUE(pointers.check_range(1, 0x1000, 256).is_ok());
  EXPECT_TRUE(pointers.check_range(1, 0x10FF, 1).is_ok());
  EXPECT_FALSE(pointers.check_range(1, 0x1000, 257).is_ok());
  EXPECT_FALSE(pointers.check_range(1, 0xFFF, 1).is_ok());
  EXPECT_FALSE(pointers.check_range(1, 0x1200, 1).is_ok());
  EXPECT_FALSE(pointers.check_range(1, 0x10FF, UINT64_MAX).is_ok());
}

TEST(DevicePointers, OnlyALiveMallocBaseIsFreedAndOnlyOnce) {
  DevicePointers pointers;
  ASSERT_TRUE(pointers.add(1, 0x1000, 256).is_ok());
  ASSERT_TRUE(pointers.add(1, 0x2000, 256, PointerRole::kWindow).is_ok());
  EXPECT_EQ(pointers.remove(1, 0x1001).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(pointers.remove(1, 0x2000).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(pointers.remove(1, 0x1000).is_ok());
  EXPECT_EQ(pointers.remove(1, 0x1000).code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(pointers.check_range(1, 0x1000, 1).is_ok());
  EXPECT_TRUE(pointers.remove_window(1, 0x2000).is_ok());
}

TEST(DevicePointers, OverlapsAndNonsenseAreRefused) {
  DevicePointers pointers;
  ASSERT_TRUE(pointers.add(1, 0x1000, 256).is_ok());
  for (const uint64_t address : {0xFFFu, 0x1000u, 0x10FFu}) {
    EXPECT_EQ(pointers.add(1, address, 2).code(), StatusCode::kAlreadyExists) << address;
  }
  EXPECT_EQ(pointers.add(1, 0x800, 0x10000).code(), StatusCode::kAlreadyExists);
  EXPECT_FALSE(pointers.add(1, 0, 1).is_ok());
  EXPECT_FALSE(pointers.add(1, 0x5000, 0).is_ok());
  EXPECT_FALSE(pointers.add(1, 0x5000, UINT64_MAX).is_ok());
}

TEST(DevicePointers, ALostWorkerTakesItsPointersAlong) {
  DevicePointers pointers;
  for (const uint32_t worker : {0u, 1u, 2u}) ASSERT_TRUE(pointers.add(worker, 0x1000, 100).is_ok());
  pointers.drop_worker(1);
  EXPECT_EQ(pointers.live_bytes(0), 100u);
  EXPECT_EQ(pointers.live_bytes(1), 0u);
  EXPECT_EQ(pointers.live_bytes(2), 100u);
}

}  // namespace
}  // namespace simpler::memory
