#include "chip/tensor_map.h"

#include <vector>

#include <gtest/gtest.h>

namespace simpler::chip {
namespace {

Footprint row(uint32_t first, uint32_t rows) {
  Footprint f{};
  f.start = uint64_t{first} * 8;
  f.ndims = 2;
  f.width = 4;
  f.extent = uint64_t{rows} * 8;
  f.shapes[0] = rows;
  f.shapes[1] = 8;
  f.strides[0] = 8;
  f.strides[1] = 1;
  return f;
}

std::vector<uint32_t> writers(TensorMap& map, uint64_t addr, const Footprint& access, bool replace = false) {
  std::vector<uint32_t> out;
  map.look_up(addr, access, replace, [&](uint32_t task) { out.push_back(task); });
  return out;
}

TEST(TensorMap, FindsWritersOfTheSameBufferOnly) {
  TensorMap map;
  ASSERT_TRUE(map.reserve(8, 4).is_ok());
  map.reset();
  EXPECT_TRUE(map.add(0x1000, row(0, 4), 1));
  EXPECT_TRUE(map.add(0x1000, row(4, 4), 2));
  EXPECT_TRUE(map.add(0x2000, row(0, 8), 3));
  EXPECT_EQ(writers(map, 0x1000, row(0, 2)), (std::vector<uint32_t>{1}));
  EXPECT_EQ(writers(map, 0x1000, row(3, 2)), (std::vector<uint32_t>{2, 1}));
  EXPECT_EQ(writers(map, 0x3000, row(0, 8)), (std::vector<uint32_t>{}));
}

TEST(TensorMap, ACoveringUpdateReplacesWhatItCovers) {
  TensorMap map;
  ASSERT_TRUE(map.reserve(4, 4).is_ok());
  map.reset();
  for (uint32_t task = 0; task < 100; ++task) {
    const auto found = writers(map, 0x1000, row(0, 4), true);
    EXPECT_EQ(found, task == 0 ? std::vector<uint32_t>{} : std::vector<uint32_t>{task - 1});
    ASSERT_TRUE(map.add(0x1000, row(0, 4), task));
    EXPECT_EQ(map.used_entries(), 1u);
  }
}

TEST(TensorMap, AFullMapRefusesAndStaysAsItWas) {
  TensorMap map;
  ASSERT_TRUE(map.reserve(2, 4).is_ok());
  map.reset();
  EXPECT_TRUE(map.add(0x1000, row(0, 1), 1));
  EXPECT_TRUE(map.add(0x1000, row(1, 1), 2));
  EXPECT_FALSE(map.add(0x1000, row(2, 1), 3));
  EXPECT_EQ(writers(map, 0x1000, row(0, 8)), (std::vector<uint32_t>{2, 1}));
}

TEST(TensorMap, AfterAResetNothingIsFoundAndEverythingFitsAgain) {
  TensorMap map;
  ASSERT_TRUE(map.reserve(16, 4).is_ok());
  for (int round = 0; round < 3; ++round) {
    map.reset();
    EXPECT_EQ(map.free_entries(), 16u);
    EXPECT_TRUE(writers(map, 0x1000, row(0, 64)).empty());
    for (uint32_t task = 0; task < 16; ++task) EXPECT_TRUE(map.add(0x1000 + 64 * task, row(0, 1), task));
    EXPECT_FALSE(map.add(0x1000, row(9, 1), 99));
  }
}

}  // namespace
}  // namespace simpler::chip
