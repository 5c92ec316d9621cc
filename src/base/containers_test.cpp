#include <algorithm>
#include <memory>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "base/bounded_vector.h"
#include "base/generation_table.h"
#include "base/seeded_random.h"
#include "base/slab.h"
#include "base/spsc_queue.h"

namespace simpler {
namespace {

TEST(Slab, HandsOutTheLastReturnedPlaceFirstAndRefusesWhenFull) {
  Slab<int> slab(3);
  const uint32_t a = slab.emplace(10);
  const uint32_t b = slab.emplace(20);
  slab.erase(a);
  EXPECT_EQ(slab.emplace(30), a);
  const uint32_t c = slab.emplace(40);
  EXPECT_TRUE(slab.full());
  EXPECT_EQ(slab.emplace(50), Slab<int>::kNone);
  EXPECT_EQ(slab[a] + slab[b] + slab[c], 30 + 20 + 40);
}

TEST(Slab, DestroysWhatIsStillInUseAndNothingTwice) {
  const auto counted = std::make_shared<int>(0);
  {
    Slab<std::shared_ptr<int>> slab(8);
    for (int i = 0; i < 5; ++i) slab.emplace(counted);
    slab.erase(1);
    slab.erase(3);
    EXPECT_EQ(counted.use_count(), 4);
  }
  EXPECT_EQ(counted.use_count(), 1);
}

TEST(Slab, AgreesWithASetOverRandomOperations) {
  SeededRandom random(1);
  Slab<uint64_t> slab(64);
  std::set<uint32_t> used;
  for (int step = 0; step < 20'000; ++step) {
    if (random.chance(1, 2)) {
      const uint32_t index = slab.emplace(random.next());
      ASSERT_EQ(index == Slab<uint64_t>::kNone, used.size() == 64);
      if (index != Slab<uint64_t>::kNone) {
        ASSERT_TRUE(used.insert(index).second);
      }
    } else if (!used.empty()) {
      const auto victim = std::next(used.begin(), static_cast<std::ptrdiff_t>(random.below(used.size())));
      slab.erase(*victim);
      used.erase(victim);
    }
    ASSERT_EQ(slab.in_use(), used.size());
  }
  for (uint32_t index = 0; index < 64; ++index) EXPECT_EQ(slab.contains(index), used.contains(index));
}

TEST(SlabDeathTest, ErasingAFreePlaceEndsTheProcess) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  Slab<int> slab(2);
  const uint32_t index = slab.emplace(1);
  slab.erase(index);
  EXPECT_DEATH(slab.erase(index), "contains");
}

TEST(GenerationTable, ANameKeptTooLongFindsNothing) {
  GenerationTable<std::string> table(2);
  const GenerationId first = *table.emplace("one");
  EXPECT_EQ(*table.find(first), "one");
  EXPECT_TRUE(table.erase(first));
  const GenerationId second = *table.emplace("two");
  EXPECT_EQ(second.index, first.index);
  EXPECT_EQ(table.find(first), nullptr);
  EXPECT_FALSE(table.erase(first));
  EXPECT_EQ(*table.find(second), "two");
}

TEST(GenerationTable, NothingIsNamedByZeroAndAFullTableRefuses) {
  GenerationTable<int> table(2);
  EXPECT_EQ(table.find({}), nullptr);
  EXPECT_EQ(table.find({99, 1}), nullptr);
  const auto a = table.emplace(1);
  const auto b = table.emplace(2);
  EXPECT_TRUE(a && a->index != 0 && b && b->index != 0);
  EXPECT_FALSE(table.emplace(3).has_value());
  int sum = 0;
  table.for_each([&](GenerationId, int& value) { sum += value; });
  EXPECT_EQ(sum, 3);
  EXPECT_EQ(table.size(), 2U);
}

TEST(BoundedVector, RefusesTheElementThatDoesNotFit) {
  BoundedVector<int, 2> vector;
  EXPECT_TRUE(vector.try_push(1));
  EXPECT_TRUE(vector.try_push(2));
  EXPECT_FALSE(vector.try_push(3));
  vector.remove_unordered(0);
  EXPECT_EQ(vector.size(), 1U);
  EXPECT_EQ(vector[0], 2);
  EXPECT_EQ(vector.pop(), 2);
  EXPECT_TRUE(vector.empty());
}

TEST(SpscQueue, IsFullAtItsCapacityAndKeepsOrder) {
  SpscQueue<int> queue(4);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(queue.try_push(i));
  EXPECT_FALSE(queue.try_push(4));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(queue.try_pop(), i);
  EXPECT_EQ(queue.try_pop(), std::nullopt);
  EXPECT_TRUE(queue.empty());
}

TEST(SpscQueue, DeliversEverythingInOrderBetweenTwoThreads) {
  SpscQueue<std::unique_ptr<uint32_t>> queue(64);
  constexpr uint32_t kItems = 50'000;
  std::thread producer([&] {
    for (uint32_t i = 0; i < kItems;) {
      if (queue.try_push(std::make_unique<uint32_t>(i))) {
        ++i;
      } else {
        std::this_thread::yield();
      }
    }
  });
  uint32_t expected = 0;
  uint32_t wrong = 0;
  while (expected < kItems) {
    auto item = queue.try_pop();
    if (!item) {
      std::this_thread::yield();
      continue;
    }
    if (**item != expected) ++wrong;
    ++expected;
  }
  producer.join();
  EXPECT_EQ(wrong, 0U);
}

// Numbers from an independent implementation of xoshiro256** seeded by SplitMix64 with 42.
TEST(SeededRandom, GivesTheSameNumbersEverywhere) {
  SeededRandom random(42);
  EXPECT_EQ(random.next(), 0x15780b2e0c2ec716U);
  EXPECT_EQ(random.next(), 0x6104d9866d113a7eU);
  EXPECT_EQ(random.next(), 0xae17533239e499a1U);
  EXPECT_EQ(random.next(), 0xecb8ad4703b360a1U);
}

TEST(SeededRandom, StaysInsideItsLimitsAndReachesThem) {
  SeededRandom random(7);
  std::set<int64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random.between(-2, 2));
  EXPECT_EQ(seen, (std::set<int64_t>{-2, -1, 0, 1, 2}));
  for (int i = 0; i < 1000; ++i) {
    const double value = random.unit();
    EXPECT_TRUE(value >= 0.0 && value < 1.0) << value;
  }
}

}  // namespace
}  // namespace simpler
