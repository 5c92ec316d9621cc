// A world: one engine, simulated children, and builders that do what the seed says, checked against a byte oracle.
//
// Everything that happens is drawn from the seed, so a seed replays exactly. At each start of a task the world checks
// that every earlier task that one of its bytes demands has ended well; at the end it compares all cells with a serial
// execution of the tasks that ran, and that nothing is left in slots, arena, heap, tables or counts. A quarter of the
// seeds run under the weaker inference rules: half of these only check the orders that the rules promise, in the other
// half each task names the accesses that the rules leave unordered, and the bytes must be serial again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace simpler::simulation {

struct WorldResult {
  std::string problem;  // empty: the world was as it should be
  uint64_t digest = 0;  // of everything that happened: the same seed gives the same
  uint32_t tasks = 0;
  uint32_t pushed_early = 0;
  uint32_t failed_runs = 0;
  uint32_t lost_lanes = 0;
  uint32_t blocked = 0;     // times a builder had to wait
  uint32_t overtaking = 0;  // starts before an earlier task that touches the same bytes, as the weaker rules allow
};

// Shared tables, arena and heap, made once and used by one world after the other.
class Ground;

class Worlds {
 public:
  Worlds();
  ~Worlds();
  WorldResult run(uint64_t seed, bool trace = false);

 private:
  std::unique_ptr<Ground> ground_;
};

}  // namespace simpler::simulation
