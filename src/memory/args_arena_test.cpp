#include "memory/args_arena.h"

#include <cstring>
#include <map>
#include <sys/resource.h>

#include "base/seeded_random.h"
#include "memory/memory_testing.h"

namespace simpler::memory {
namespace {

using testing::FixedSpace;

std::unique_ptr<ArgsArena> make_arena(uint32_t slots = 64, uint64_t large = uint64_t{1} << 20) {
  return std::move(*ArgsArena::create({.slots = slots, .large_bytes = large}));
}

TEST(ArgsArena, EverySlotHasABlockOfItsOwn) {
  const auto arena = make_arena();
  for (uint32_t slot = 0; slot < 64; ++slot) {
    std::memset(arena->at(arena->slot_block(slot)), static_cast<int>(slot), kSlotBlockBytes);
  }
  for (uint32_t slot = 0; slot < 64; ++slot) {
    EXPECT_NE(arena->slot_block(slot), 0u);
    EXPECT_EQ(arena->at(arena->slot_block(slot))[0], static_cast<std::byte>(slot));
    EXPECT_EQ(arena->at(arena->slot_block(slot))[127], static_cast<std::byte>(slot));
  }
  EXPECT_EQ(arena->place_for(3, 128), arena->slot_block(3));
  EXPECT_NE(arena->place_for(3, 129), arena->slot_block(3));
}

TEST(ArgsArena, BlocksOfAllSizesStayApart) {
  SeededRandom random(3);
  const auto arena = make_arena();
  struct Block {
    uint32_t bytes;
    uint8_t mark;
  };
  std::map<uint32_t, Block> live;
  for (int step = 0; step < 200000; ++step) {
    if (random.below(2) == 0 || live.empty()) {
      const uint32_t bytes = 1 + static_cast<uint32_t>(random.below(uint64_t{1} << (4 + random.below(13))));
      const uint32_t place = arena->alloc(bytes);
      if (place == 0) {
        ASSERT_EQ(arena->why_exhausted().code(), StatusCode::kWouldBlock);
        continue;
      }
      const auto next = live.upper_bound(place);
      ASSERT_TRUE(next == live.end() || uint64_t{place} * 8 + bytes <= uint64_t{next->first} * 8);
      ASSERT_TRUE(next == live.begin() ||
                  uint64_t{std::prev(next)->first} * 8 + std::prev(next)->second.bytes <= uint64_t{place} * 8);
      live[place] = {bytes, static_cast<uint8_t>(step)};
      std::memset(arena->at(place), static_cast<uint8_t>(step), bytes);
    } else {
      auto victim = live.lower_bound(static_cast<uint32_t>(random.below(arena->mapping().size() / 8)));
      if (victim == live.end()) victim = live.begin();
      const auto [place, block] = *victim;
      ASSERT_EQ(static_cast<uint8_t>(arena->at(place)[0]), block.mark);
      ASSERT_EQ(static_cast<uint8_t>(arena->at(place)[block.bytes - 1]), block.mark);
      arena->free(place, block.bytes);
      live.erase(victim);
    }
    ASSERT_EQ(arena->live_blocks(), live.size());
  }
}

TEST(ArgsArena, ADrainedArenaServesEveryClassAgain) {
  const auto arena = make_arena();
  const uint32_t chunks = arena->chunk_capacity();
  for (const uint32_t bytes : {256u, 512u, 1000u, 4096u, 65536u, 200u, 32768u}) {
    std::vector<uint32_t> places;
    while (const uint32_t place = arena->alloc(bytes)) places.push_back(place);
    uint32_t rounded = 256;
    while (rounded < bytes) rounded *= 2;
    EXPECT_EQ(places.size(), uint64_t{chunks} * (kArenaChunkBytes / rounded));
    for (const uint32_t place : places) arena->free(place, bytes);
    EXPECT_EQ(arena->chunks_in_use(), 0u);
    EXPECT_EQ(arena->live_blocks(), 0u);
  }
}

TEST(ArgsArena, ASteadyLoadTouchesNoNewPageAndAllocatesNothing) {
  const auto arena = make_arena(64, uint64_t{64} << 20);
  const auto round = [&](uint32_t window) {
    uint32_t ring[256] = {};
    for (uint32_t i = 0; i < 100000; ++i) {
      uint32_t& place = ring[i % window];
      if (place != 0) arena->free(place, 600);
      place = arena->alloc(600);
      std::memset(arena->at(place), 1, 600);
    }
    for (uint32_t i = 0; i < window; ++i) arena->free(ring[i], 600);
  };
  round(256);
  struct rusage before {};
  struct rusage after {};
  getrusage(RUSAGE_SELF, &before);
  round(256);
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LE(after.ru_minflt - before.ru_minflt, 2);  // the stack of this test
  EXPECT_EQ(arena->chunks_in_use(), 0u);
}

TEST(ArgsArena, AShortageIsToldFromAFullArena) {
  FixedSpace space(uint64_t{1} << 40);
  const auto arena = std::move(*ArgsArena::create({.slots = 8, .large_bytes = uint64_t{8} << 20, .space = &space}));
  space.set(0);
  EXPECT_EQ(arena->alloc(1000), 0u);
  EXPECT_EQ(arena->why_exhausted().code(), StatusCode::kResourceExhausted);
  space.set(uint64_t{1} << 40);
  EXPECT_NE(arena->alloc(1000), 0u);
}

TEST(ArgsArena, ImpossibleSizesAreRefused) {
  EXPECT_FALSE(ArgsArena::create({.slots = 0}).ok());
  EXPECT_FALSE(ArgsArena::create({.slots = 1, .large_bytes = 0}).ok());
  EXPECT_FALSE(ArgsArena::create({.slots = 1, .large_bytes = uint64_t{64} << 30}).ok());
}

TEST(ArgsArenaView, RefusesEveryPlaceOutsideTheArena) {
  const auto arena = make_arena();
  const uint64_t size = arena->mapping().size();
  const ArgsArenaView view(arena->mapping().data(), size);
  EXPECT_EQ(view.at(0, 8), nullptr);
  EXPECT_EQ(view.at(1, 8), arena->at(1));
  const auto last = static_cast<uint32_t>(size / 8 - 1);
  EXPECT_NE(view.at(last, 8), nullptr);
  EXPECT_EQ(view.at(last, 9), nullptr);
  EXPECT_EQ(view.at(last + 1, 0), nullptr);
  EXPECT_EQ(view.at(UINT32_MAX, 1), nullptr);
  EXPECT_EQ(view.at(1, UINT64_MAX), nullptr);
  EXPECT_EQ(ArgsArenaView().at(1, 8), nullptr);
}

}  // namespace
}  // namespace simpler::memory
