#include <gtest/gtest.h>

#include "simulation/sim_world.h"

namespace simpler::simulation {
namespace {

TEST(Simulation, EveryWorldKeepsWhatItsRulesPromise) {
  Worlds worlds;
  uint64_t early = 0, failed = 0, lost = 0, blocked = 0, overtaking = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    const WorldResult result = worlds.run(seed);
    ASSERT_EQ(result.problem, "") << "seed=" << seed;
    early += result.pushed_early;
    failed += result.failed_runs;
    lost += result.lost_lanes;
    blocked += result.blocked;
    overtaking += result.overtaking;
  }
  // The worlds contain what they are for.
  EXPECT_GT(early, 0U);
  EXPECT_GT(failed, 0U);
  EXPECT_GT(lost, 0U);
  EXPECT_GT(blocked, 0U);
  EXPECT_GT(overtaking, 0U);
}

TEST(Simulation, ASeedReplaysExactly) {
  Worlds worlds;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    EXPECT_EQ(worlds.run(seed).digest, worlds.run(seed).digest) << "seed=" << seed;
  }
}

}  // namespace
}  // namespace simpler::simulation
