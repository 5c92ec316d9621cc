#include "chip/overlap.h"

#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace simpler::chip {
namespace {

Footprint footprint(uint64_t start, std::vector<uint32_t> shapes, std::vector<uint32_t> strides, uint32_t width = 4) {
  Footprint f{};
  f.start = start;
  f.ndims = static_cast<uint32_t>(shapes.size());
  f.width = width;
  f.dtype = width == 4 ? 0 : 1;
  f.extent = 1;
  for (uint32_t d = 0; d < f.ndims; ++d) {
    f.shapes[d] = shapes[d];
    f.strides[d] = strides[d];
    f.extent += uint64_t{shapes[d] - 1} * strides[d];
    if (shapes[d] == 0) f.extent = 0;
  }
  return f;
}

std::set<uint64_t> bytes_of(const Footprint& f) {
  std::set<uint64_t> out;
  if (f.extent == 0) return out;
  std::vector<uint32_t> index(f.ndims, 0);
  while (true) {
    uint64_t element = f.start;
    for (uint32_t d = 0; d < f.ndims; ++d) element += uint64_t{index[d]} * f.strides[d];
    for (uint32_t b = 0; b < f.width; ++b) out.insert(element * f.width + b);
    uint32_t d = f.ndims;
    while (d > 0 && ++index[d - 1] == f.shapes[d - 1]) index[--d] = 0;
    if (d == 0) return out;
  }
}

TEST(Overlap, RowsAndTilesOfOneMatrixAreToldApart) {
  const Footprint top = footprint(0, {4, 8}, {8, 1});
  const Footprint bottom = footprint(32, {4, 8}, {8, 1});
  EXPECT_EQ(overlap(top, bottom), Overlap::kNone);
  const Footprint left = footprint(0, {8, 4}, {8, 1});
  const Footprint right = footprint(4, {8, 4}, {8, 1});
  EXPECT_EQ(overlap(left, right), Overlap::kNone);
  EXPECT_EQ(overlap(left, top), Overlap::kOther);
}

TEST(Overlap, AnAccessThatContainsTheEarlierOneCoversIt) {
  const Footprint whole = footprint(0, {8, 8}, {8, 1});
  const Footprint tile = footprint(18, {2, 2}, {8, 1});
  EXPECT_EQ(overlap(whole, tile), Overlap::kCovered);
  EXPECT_EQ(overlap(tile, whole), Overlap::kOther);
  EXPECT_EQ(overlap(whole, whole), Overlap::kCovered);
}

TEST(Overlap, ATransposedViewOverSharedBytesCountsAsOverlap) {
  EXPECT_EQ(overlap(footprint(0, {8, 8}, {1, 8}), footprint(63, {1, 1}, {8, 1})), Overlap::kOther);
}

TEST(Overlap, AHigherVersionOfTheEarlierAccessIsConservative) {
  Footprint earlier = footprint(4, {8, 4}, {8, 1});
  earlier.version = 1;
  EXPECT_EQ(overlap(footprint(0, {8, 4}, {8, 1}), earlier), Overlap::kOther);
}

TEST(Overlap, AViewWithoutElementsMeetsNothing) {
  EXPECT_EQ(overlap(footprint(0, {0, 8}, {8, 1}), footprint(0, {8, 8}, {8, 1})), Overlap::kNone);
}

TEST(Overlap, AnswersAgreeWithTheSetsOfBytes) {
  std::mt19937 engine(3);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(engine() % n); };
  for (int round = 0; round < 20000; ++round) {
    Footprint f[2];
    for (Footprint& one : f) {
      const uint32_t width = below(6) == 0 ? 2 : 4;
      switch (below(3)) {
        case 0:
          one = footprint(below(60), {1 + below(4), 1 + below(4)}, {8, 1}, width);
          break;
        case 1:
          one = footprint(below(60), {1 + below(3), 1 + below(3)}, {8, 2}, width);
          break;
        default:
          one = footprint(below(60), {1 + below(3), 1 + below(3)}, {1 + below(9), 1 + below(9)}, width);
      }
    }
    const auto a = bytes_of(f[0]), b = bytes_of(f[1]);
    bool meet = false, contains = true;
    for (uint64_t byte : b) {
      if (a.count(byte) != 0) {
        meet = true;
      } else {
        contains = false;
      }
    }
    const Overlap got = overlap(f[0], f[1]);
    EXPECT_FALSE(meet && got == Overlap::kNone);
    EXPECT_FALSE(got == Overlap::kCovered && !contains);
  }
}

}  // namespace
}  // namespace simpler::chip
