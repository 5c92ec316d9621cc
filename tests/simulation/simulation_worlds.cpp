// Runs many seeded worlds: --seeds N (default 1000)  --first S (default 1)  --seconds T (stop then)  --trace
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "simulation/sim_world.h"

int main(int argc, char** argv) {
  uint64_t seeds = 1000;
  uint64_t first = 1;
  double seconds = 1e9;
  bool trace = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const char* const next = i + 1 < argc ? argv[i + 1] : nullptr;
    if (word == "--trace") {
      trace = true;
    } else if (word == "--seeds" && next != nullptr) {
      seeds = std::strtoull(next, nullptr, 10), ++i;
    } else if (word == "--first" && next != nullptr) {
      first = std::strtoull(next, nullptr, 10), ++i;
    } else if (word == "--seconds" && next != nullptr) {
      seconds = std::strtod(next, nullptr), ++i;
    } else {
      std::fprintf(stderr, "usage: %s [--seeds N] [--first S] [--seconds T] [--trace]\n", argv[0]);
      return 2;
    }
  }
  simpler::simulation::Worlds worlds;
  const auto begin = std::chrono::steady_clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  uint64_t ran = 0, tasks = 0, early = 0, failed_runs = 0, lost = 0, blocked = 0, bad = 0;
  for (uint64_t seed = first; seed < first + seeds && spent() < seconds; ++seed, ++ran) {
    const auto result = worlds.run(seed, trace);
    tasks += result.tasks;
    early += result.pushed_early;
    failed_runs += result.failed_runs;
    lost += result.lost_lanes;
    blocked += result.blocked;
    if (trace) std::printf("digest %016llx\n", static_cast<unsigned long long>(result.digest));
    if (result.problem.empty()) continue;
    std::printf("seed=%llu: %s\n", static_cast<unsigned long long>(seed), result.problem.c_str());
    if (++bad == 20) break;
  }
  std::printf(
      "%llu worlds (%.0f a second), %llu tasks, %llu pushed early, %llu failed runs, %llu lost lanes, %llu waits, "
      "%llu bad\n",
      static_cast<unsigned long long>(ran), static_cast<double>(ran) / spent(), static_cast<unsigned long long>(tasks),
      static_cast<unsigned long long>(early), static_cast<unsigned long long>(failed_runs),
      static_cast<unsigned long long>(lost), static_cast<unsigned long long>(blocked),
      static_cast<unsigned long long>(bad));
  return bad == 0 ? 0 : 1;
}
