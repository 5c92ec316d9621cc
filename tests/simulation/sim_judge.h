// Decides whether what happens in a world is allowed: a serial oracle for the bytes, and invariants on the way.
//
// The Judge owns the cells that the children see and the oracle's picture of who used each cell last. It draws nothing
// and changes nothing but the fates, digests and demands of tasks; the first broken rule becomes the world's problem.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "simulation/sim_scene.h"

namespace simpler::simulation {

class Judge {
 public:
  explicit Judge(Scene& scene);

  // Building.
  void run_begins();
  void space_added();
  // Says what the task must wait for, and what the rules leave unordered: to be asked before it is submitted.
  void demand(SimTask& task) const;
  void accepted(const SimTask& task);

  // Children.
  void skipped(SimTask& task);
  void starts(SimTask& task, size_t member, const wire::Dispatch& dispatch);
  void ends(SimTask& task, size_t member);
  void lost(SimTask& task);

  // What the engine has to tell; to be called after each call of the engine.
  void hear_news();
  // Everything has ended.
  void close();

 private:
  using Bytes = std::array<uint64_t, kCells>;
  struct Users {
    uint32_t writer = kNoOne;
    std::vector<uint32_t> readers;  // since that writer
  };
  using Usage = std::array<Users, kCells>;

  void check_arguments(const SimTask& task, size_t member, const wire::Dispatch& dispatch);
  void check_start(const SimTask& task);
  void check_run_end(SimRun& run);
  void check_leftovers();
  void compare_with_serial();
  uint64_t digest_of(const std::deque<Bytes>& spaces, const SimTask& task, size_t member) const;
  static void write(std::deque<Bytes>& spaces, const SimTask& task, size_t member);
  bool is_head(uint32_t run) const;

  Scene& scene_;
  std::deque<Bytes> spaces_;  // what the children see
  std::deque<Usage> usage_;   // by tasks of the run that is being built
};

}  // namespace simpler::simulation
