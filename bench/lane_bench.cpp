// What the door to a child costs by itself: entries 7 (the leg alone), 10, 17 and 18 of docs/performance.md.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <time.h>

#include "harness/harness.h"
#include "lane_rig.h"
#include "yardsticks/crowd.h"
#include "yardsticks/exchange.h"

namespace simpler::bench {
namespace {

template <class Work>
double timed(uint32_t units, Work&& work) {
  const double begin = now_ns();
  work();
  return (now_ns() - begin) / units;
}

bool digest_matches(LaneRig& rig, uint32_t tasks, bool chained) {
  uint64_t expected = rig.digest(0);
  for (uint32_t slot = 0; slot < tasks; ++slot) expected = LaneRig::fold(expected, slot);
  if (chained) {
    rig.chain(0, tasks, LaneRig::kDigest);
  } else {
    for (uint32_t slot = 0; slot < tasks; ++slot) rig.hop(0, slot, LaneRig::kDigest);
  }
  return rig.digest(0) == expected;
}

// Parent and child on a processor each.
void pinned_entries(Harness& harness) {
  if (!harness.wants("lane/leg") && !harness.wants("lane/chain")) return;
  ExchangeYardstick exchange;
  // What a line costs depends on where it lies (yardsticks/exchange.h), and a mailbox keeps its lines: eight take
  // turns.
  std::deque<LaneRig> rigs;
  for (int i = 0; i < 8; ++i) rigs.emplace_back(1, 1, LaneRig::Manners::kNone);
  size_t turn = 0;
  const auto next = [&]() -> LaneRig& { return rigs[++turn % rigs.size()]; };
  harness.check("lane/leg", [&] { return digest_matches(next(), 10'000, false); });
  harness.check("lane/chain", [&] { return digest_matches(next(), 10'000, true); });
  constexpr uint32_t kUnits = 1000;
  harness.compare({.name = "lane/leg",
                   .subject = {"lane",
                               [&] {
                                 Pinned near(0);
                                 LaneRig& rig = next();
                                 rig.hop(0);
                                 return timed(kUnits, [&] {
                                   for (uint32_t i = 0; i < kUnits; ++i) rig.hop(0);
                                 });
                               }},
                   .yardsticks = {{"PPF", [&] { return exchange.ppf(kUnits); }}},
                   .target = 1.3});
  harness.compare({.name = "lane/chain",
                   .subject = {"lane",
                               [&] {
                                 Pinned near(0);
                                 LaneRig& rig = next();
                                 rig.hop(0);
                                 return timed(kUnits, [&] { rig.chain(0, kUnits); });
                               }},
                   .yardsticks = {{"PP1", [&] { return exchange.pp1(kUnits); }}},
                   .target = 0.8});
}

// Where we and the strangers run. Whether the two sides of an exchange share a processor changes its cost by a factor
// of twenty here, for FUT as for us, and where the kernel puts them stays for a whole measurement; so each placement is
// measured for itself too.
enum class Placement {
  kFree,  // where the kernel puts them
  kOne,   // ours and the strangers on the first processor
  kTwo,   // the parent on the first processor, the children on the second, the strangers on both by turns
};

double hops_round_the_children(LaneRig& rig, uint32_t rounds) {
  for (uint32_t child = 0; child < rig.children(); ++child) rig.hop(child);
  return timed(rounds * rig.children(), [&] {
    for (uint32_t i = 0; i < rounds; ++i) {
      for (uint32_t child = 0; child < rig.children(); ++child) rig.hop(child);
    }
  });
}

// A chain that goes round the children, with more of us than processors.
void crowd_without_strangers(Harness& harness, uint32_t children) {
  const std::string name = "over/hop." + std::to_string(children);
  if (!harness.wants(name)) return;
  CrowdYardstick crowd(children);
  LaneRig rig(children, -1, LaneRig::Manners::kNone);
  constexpr uint32_t kRounds = 50;
  harness.compare(
      {.name = name,
       .subject = {"lane", [&] { return hops_round_the_children(rig, kRounds); }},
       .yardsticks = {{"FUT", [&] { return crowd.fut(kRounds); }}, {"PPY", [&] { return crowd.ppy(kRounds); }}},
       .target = 2.0,
       .batches = 60});
}

// Makes batches long enough that many time slices of the strangers lie in each, in one go: what a side has used beyond
// its fair share of a processor it waits for later, a slice at a time, and a pause would forgive it that debt.
// `batch(rounds)` returns ns for one exchange; a batch is as long as the one before it suggests.
template <class Batch>
std::function<double()> over_many_slices(uint32_t children, Batch&& batch) {
  return [children, batch, rounds = 100U]() mutable {
    constexpr double kSpan = 5e7;  // ns; a slice is 0.7 to 4 ms
    const double ns = batch(rounds);
    rounds = static_cast<uint32_t>(std::clamp(kSpan / (ns * children), 100.0, 10'000.0));
    return ns;
  };
}

// The same beside processes that compute.
void crowd_beside_strangers(Harness& harness, ComputingProcesses& load, uint32_t children, uint32_t strangers,
                            Placement placement) {
  std::string name = "over/hop." + std::to_string(children) + "+" + std::to_string(strangers);
  if (placement != Placement::kFree) name += placement == Placement::kOne ? ".one" : ".two";
  if (!harness.wants(name)) return;
  if (placement == Placement::kTwo && ::sysconf(_SC_NPROCESSORS_ONLN) < 2) return;
  if (placement == Placement::kOne) pin_to_cpu(0);  // before the children are forked and count their processors
  const int cpu = placement == Placement::kTwo ? 1 : -1;
  CrowdYardstick crowd(children, cpu);
  LaneRig rig(children, cpu);
  if (placement == Placement::kTwo) pin_to_cpu(0);
  load.start(strangers, placement == Placement::kFree ? 0 : placement == Placement::kOne ? 1 : 2);
  const auto hops = [&](uint32_t rounds) { return hops_round_the_children(rig, rounds); };
  const auto exchanges = [&](uint32_t rounds) { return crowd.fut(rounds); };
  const Arm ours{"lane", over_many_slices(children, hops)};
  const Arm futex{"FUT", over_many_slices(children, exchanges)};
  for (const double end = now_ns() + 5e8; now_ns() < end;) {  // until all know how busy the machine is
    ours.batch();
    futex.batch();
  }
  harness.compare(
      {.name = name, .subject = ours, .yardsticks = {futex}, .target = 1.5, .batches = 8, .centre = Centre::kMean});
  load.stop();
  unpin();
}

void crowded_entries(Harness& harness, ComputingProcesses& load) {
  for (const uint32_t children : {2U, 4U}) {
    crowd_without_strangers(harness, children);
    for (const uint32_t strangers : {1U, 2U, 4U}) {
      for (const Placement placement : {Placement::kOne, Placement::kTwo, Placement::kFree}) {
        crowd_beside_strangers(harness, load, children, strangers, placement);
      }
    }
  }
}

double cpu_ns(pid_t pid) {
  clockid_t clock = CLOCK_PROCESS_CPUTIME_ID;
  if (pid != ::getpid() && ::clock_getcpuclockid(pid, &clock) != 0) return 0.0;
  timespec spent{};
  ::clock_gettime(clock, &spent);
  return static_cast<double>(spent.tv_sec) * 1e9 + static_cast<double>(spent.tv_nsec);
}

void idle_entries(Harness& harness) {
  if (harness.wants("idle/cpu")) {
    LaneRig rig(8, -1);
    for (int round = 0; round < 100; ++round) {
      for (uint32_t child = 0; child < rig.children(); ++child) rig.hop(child);
    }
    harness.measure(
        "idle/cpu", "% CPU", 0.5,
        [&] {
          constexpr int64_t kSpan = 1'000'000'000;
          double before = cpu_ns(::getpid());
          for (const pid_t pid : rig.pids()) before += cpu_ns(pid);
          CrowdYardstick::sleep_for(kSpan);
          double after = cpu_ns(::getpid());
          for (const pid_t pid : rig.pids()) after += cpu_ns(pid);
          return (after - before) / static_cast<double>(kSpan) * 100.0;
        },
        3);
  }
  if (harness.wants("idle/wake")) {
    constexpr int64_t kIdle = 5'000'000;
    CrowdYardstick crowd(1);
    LaneRig rig(8, -1);
    harness.compare({.name = "idle/wake",
                     .subject = {"lane",
                                 [&] {
                                   rig.hop(3);  // both sides of both arms are awake just before they sleep
                                   CrowdYardstick::sleep_for(kIdle);
                                   return timed(1, [&] { rig.hop(3); });
                                 }},
                     .yardsticks = {{"FUT", [&] { return crowd.slept_hop(kIdle); }}},
                     .target = 1.5,
                     .batches = 60});
  }
}

}  // namespace
}  // namespace simpler::bench

int main(int argc, char** argv) {
  simpler::bench::Harness harness(argc, argv);
  simpler::bench::ComputingProcesses load(4);
  simpler::bench::pinned_entries(harness);
  simpler::bench::crowded_entries(harness, load);
  simpler::bench::idle_entries(harness);
  return harness.finish();
}
