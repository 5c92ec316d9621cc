// Random bytes in a mailbox: the child refuses or goes on, the parent condemns or goes on, and nobody crashes.
#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

#include "base/seeded_random.h"
#include "conformance/lane/bodies.h"

namespace simpler::lane {
namespace {

struct Range {
  size_t offset;
  size_t bytes;
};

// What the other side reads and acts on. Wake words are left out: whoever overwrites those takes away the wake itself.
constexpr Range kRanges[] = {
    {offsetof(wire::Mailbox, parent), sizeof(wire::ParentWords)},
    {offsetof(wire::Mailbox, statistics), sizeof(wire::ChildStatistics)},
    {offsetof(wire::Mailbox, lines), sizeof(wire::DispatchLine) * 8},
    {offsetof(wire::Mailbox, reports), sizeof(wire::Report) * 8},
    {offsetof(wire::Mailbox, side), sizeof(wire::SideReport)},
    {offsetof(wire::Mailbox, request), 48},
    {offsetof(wire::Mailbox, reply), 32},
};

void flip(wire::Mailbox& mailbox, SeededRandom& random) {
  const Range& range = kRanges[random.below(std::size(kRanges))];
  auto* byte = reinterpret_cast<uint8_t*>(&mailbox) + range.offset + random.below(range.bytes);
  std::atomic_ref(*byte).fetch_xor(static_cast<uint8_t>(1 + random.below(255)), std::memory_order_seq_cst);
}

TEST(LaneBytes, RandomBytesInAMailboxCrashNeitherSide) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(seed);
    std::unique_ptr<Body> body = make_mailbox_in_child({.worker_id = 3, .queue_depth = 8});
    body->board().open_gate();
    uint32_t pushed = 0;
    uint32_t ended = 0;
    std::vector<Completion> some(8);
    for (int step = 0; step < 20 && body->lane().alive(); ++step) {
      for (uint32_t room = static_cast<uint32_t>(random.below(body->lane().free_lines() + 1)); room > 0; --room) {
        body->lane().push(task(pushed++, random.chance(1, 4) ? kFailLong : kSucceed));
      }
      flip(*body->mailbox(), random);
      wake(body->mailbox()->child_wake);
      const uint32_t got = body->lane().poll(some);
      for (uint32_t i = 0; i < got; ++i) {
        ASSERT_EQ(some[i].slot, ended) << "slots come from the parent's own record";
        ++ended;
        if (some[i].outcome != Outcome::kSuccess) {
          EXPECT_FALSE(body->lane().take_failure(some[i]).is_ok());
        }
      }
    }
    const Status how = body->kill();
    EXPECT_TRUE(how.signal() == 0 || how.signal() == 9) << how.message();
    EXPECT_TRUE(how.signal() != 0 || how.exit_status() == 0 || how.exit_status() == 3 || how.exit_status() == 7)
        << how.message();
    body->lane().lose(how);
    while (const uint32_t got = body->lane().poll(some)) ended += got;
    EXPECT_EQ(ended, pushed) << "every line that was pushed ends";
  }
}

}  // namespace
}  // namespace simpler::lane
