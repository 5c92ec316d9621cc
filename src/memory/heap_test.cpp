#include "memory/heap.h"

#include <cstring>
#include <map>

#include "base/seeded_random.h"
#include "memory/memory_testing.h"

namespace simpler::memory {
namespace {

using testing::FixedSpace;

constexpr uint64_t kRegion = uint64_t{1} << 20;

std::unique_ptr<Heap> make_heap(uint64_t region = kRegion) {
  return std::move(*Heap::create({.region_bytes = region}));
}

TEST(SpanAllocator, AllShortSequencesKeepTheSpansApartAndMergeBack) {
  // Sizes 1..4 in a range of 8 units; every sequence of five steps, each a reserve of a size or a release by position.
  constexpr int kChoices = 8;
  int total = 1;
  for (int i = 0; i < 5; ++i) total *= kChoices;
  for (int code = 0; code < total; ++code) {
    SpanAllocator allocator(8 * 128, 128);
    std::vector<SpanAllocator::Span> live;
    for (int step = 0, rest = code; step < 5; ++step, rest /= kChoices) {
      const int choice = rest % kChoices;
      if (choice < 4) {
        const SpanAllocator::Span span = allocator.reserve(static_cast<uint64_t>(choice + 1) * 128);
        if (span.node == SpanAllocator::kNoSpan) {
          ASSERT_LT(allocator.largest_free(), static_cast<uint64_t>(choice + 1) * 128);
          continue;
        }
        for (const auto& other : live) {
          ASSERT_TRUE(span.offset + span.bytes <= other.offset || other.offset + other.bytes <= span.offset);
        }
        live.push_back(span);
      } else if (static_cast<size_t>(choice - 4) < live.size()) {
        allocator.release(live[static_cast<size_t>(choice - 4)].node);
        live.erase(live.begin() + (choice - 4));
      }
      ASSERT_TRUE(allocator.consistent()) << code;
    }
    for (const auto& span : live) allocator.release(span.node);
    ASSERT_TRUE(allocator.consistent()) << code;
    ASSERT_NE(allocator.reserve(8 * 128).node, SpanAllocator::kNoSpan) << code;
  }
}

TEST(SpanAllocator, ARequestFailsOnlyWhenNoFreeSpanHoldsIt) {
  SeededRandom random(21);
  SpanAllocator allocator(1000 * 1024, 1024);
  std::map<uint64_t, SpanAllocator::Span> live;  // by offset
  for (int step = 0; step < 100000; ++step) {
    if (random.below(100) < 55) {
      const uint64_t bytes = 1 + random.below(random.below(10) == 0 ? 400000 : 6000);
      const SpanAllocator::Span span = allocator.reserve(bytes);
      if (span.node == SpanAllocator::kNoSpan) {
        ASSERT_LT(allocator.largest_free(), (bytes + 1023) / 1024 * 1024);
        continue;
      }
      ASSERT_GE(span.bytes, bytes);
      ASSERT_EQ(span.offset % 1024, 0u);
      ASSERT_LE(span.offset + span.bytes, allocator.capacity());
      const auto next = live.upper_bound(span.offset);
      ASSERT_TRUE(next == live.end() || span.offset + span.bytes <= next->first);
      if (next != live.begin()) {
        const auto& before = std::prev(next)->second;
        ASSERT_LE(before.offset + before.bytes, span.offset);
      }
      live.emplace(span.offset, span);
    } else if (!live.empty()) {
      auto victim = live.lower_bound(random.below(allocator.capacity()));
      if (victim == live.end()) victim = live.begin();
      allocator.release(victim->second.node);
      live.erase(victim);
    }
    ASSERT_TRUE(step % 1000 != 0 || allocator.consistent());
    if (step % 20000 == 19999) {  // drained: the full size fits again
      for (const auto& [offset, span] : live) allocator.release(span.node);
      live.clear();
      const SpanAllocator::Span all = allocator.reserve(allocator.capacity());
      ASSERT_NE(all.node, SpanAllocator::kNoSpan);
      allocator.release(all.node);
    }
  }
}

TEST(Heap, ADrainedRegionAcceptsItsFullSizeAgain) {  // P36
  const auto heap = make_heap();
  for (int round = 0; round < 3; ++round) {
    const Result<HeapSpan> all = heap->reserve(0, kRegion);
    ASSERT_TRUE(all.ok());
    EXPECT_EQ(heap->reserve(0, 1).status().code(), StatusCode::kWouldBlock);
    EXPECT_TRUE(heap->reserve(1, 1024).ok());  // other regions are not affected
    heap->release(*all);
    EXPECT_EQ(heap->live_spans(0), 0u);
  }
}

TEST(Heap, OneOldSpanHoldsBackNothingElse) {
  const auto heap = make_heap();
  const HeapSpan old = *heap->reserve(0, 1024);
  for (int round = 0; round < 10000; ++round) {
    const Result<HeapSpan> span = heap->reserve(0, kRegion / 2);
    ASSERT_TRUE(span.ok());
    ASSERT_NE(heap->data(*span), heap->data(old));
    heap->release(*span);
  }
  EXPECT_LE(heap->secured_bytes(), kSecureStep);
}

TEST(Heap, WhatCanNeverFitIsToldFromWhatMustWait) {
  const auto heap = make_heap();
  const Status never = heap->reserve(0, kRegion + 1).status();
  EXPECT_EQ(never.code(), StatusCode::kOutOfRange);
  EXPECT_NE(never.message().find("heap_ring_size"), std::string_view::npos);
  const HeapSpan half = *heap->reserve(0, kRegion / 2);
  EXPECT_EQ(heap->reserve(0, kRegion).status().code(), StatusCode::kWouldBlock);
  heap->release(half);
  EXPECT_TRUE(heap->reserve(0, kRegion).ok());
}

TEST(Heap, DeepScopesShareTheLastRegion) {
  EXPECT_EQ(Heap::region_of(0), 0u);
  EXPECT_EQ(Heap::region_of(3), 3u);
  EXPECT_EQ(Heap::region_of(63), 3u);
}

TEST(Heap, SpansAreAlignedAndSharedWithChildren) {
  const auto heap = make_heap();
  const HeapSpan a = *heap->reserve(2, 5);
  const HeapSpan b = *heap->reserve(2, 5);
  EXPECT_EQ(b.offset - a.offset, kHeapAlignment);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(heap->data(a)) % kHeapAlignment, 0u);
  std::memcpy(heap->data(a), "abcd", 5);
  EXPECT_EQ(testing::in_child([&] { return std::memcmp(heap->data(a), "abcd", 5) == 0; }), 0);
}

TEST(Heap, ZeroBytesHoldNothing) {
  const auto heap = make_heap();
  const Result<HeapSpan> empty = heap->reserve(0, 0);
  ASSERT_TRUE(empty.ok());
  EXPECT_NE(heap->data(*empty), nullptr);
  EXPECT_EQ(heap->live_spans(0), 0u);
  heap->release(*empty);
  EXPECT_TRUE(heap->reserve(0, kRegion).ok());
}

TEST(Heap, AShortageOfMemoryTakesNothing) {
  const FixedSpace space(kSecureStep);
  const auto heap = std::move(*Heap::create({.region_bytes = uint64_t{8} << 20, .space = &space}));
  EXPECT_EQ(heap->reserve(0, uint64_t{4} << 20).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(heap->live_spans(0), 0u);
  EXPECT_TRUE(heap->reserve(0, 1024).ok());
}

TEST(Heap, AGibibyteRegionCostsOnlyWhatIsUsed) {
  const auto heap = make_heap(kDefaultHeapRegionBytes);
  EXPECT_EQ(heap->secured_bytes(), 0u);
  const HeapSpan span = *heap->reserve(0, 100);
  EXPECT_EQ(heap->secured_bytes(), kSecureStep);
  EXPECT_EQ(heap->peak_bytes(), kHeapAlignment);
  heap->release(span);
}

TEST(Heap, RandomSpansHoldTheirBytesUntilTheyAreReleased) {  // P37
  SeededRandom random(5);
  const auto heap = make_heap();
  struct Held {
    HeapSpan span;
    uint8_t mark;
  };
  std::vector<Held> held;
  for (int step = 0; step < 20000; ++step) {
    if (random.below(2) == 0 || held.empty()) {
      const Result<HeapSpan> span = heap->reserve(static_cast<uint32_t>(random.below(5)), 1 + random.below(20000));
      if (!span.ok()) continue;
      held.push_back({*span, static_cast<uint8_t>(step)});
      std::memset(heap->data(*span), held.back().mark, span->bytes);
    } else {
      const size_t victim = random.below(held.size());
      const Held gone = held[victim];
      ASSERT_EQ(static_cast<uint8_t>(heap->data(gone.span)[0]), gone.mark);
      ASSERT_EQ(static_cast<uint8_t>(heap->data(gone.span)[gone.span.bytes - 1]), gone.mark);
      heap->release(gone.span);
      held[victim] = held.back();
      held.pop_back();
    }
  }
}

TEST(Heap, ImpossibleSizesAreRefused) {
  EXPECT_FALSE(Heap::create({.region_bytes = 0}).ok());
  EXPECT_FALSE(Heap::create({.region_bytes = UINT64_MAX}).ok());
}

}  // namespace
}  // namespace simpler::memory
