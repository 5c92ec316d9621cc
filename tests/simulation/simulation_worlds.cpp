// Runs many seeded worlds: --seeds N (default 1000)  --first S (default 1)  --seconds T (stop then)  --jobs J (default
// 1)
// --trace (what happens, in this process).
//
// The worlds run in J child processes that take turns with the seeds and note the current one in shared memory: a world
// that dies of a failed check or does not end is named as well, with the command that replays it.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "simulation/sim_world.h"

namespace {

using simpler::simulation::WorldResult;
using simpler::simulation::Worlds;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kMaxJobs = 64;
constexpr unsigned kSecondsPerWorld = 120;  // a world takes less than a millisecond; one that takes so long never ends
constexpr uint64_t kMaxBad = 20;            // of one job: enough to see

struct Options {
  uint64_t seeds = 1000;
  uint64_t first = 1;
  uint64_t jobs = 1;
  double seconds = 1e9;
  bool trace = false;
};

// What one job has done. Written by its process alone; the parent reads it when that has ended.
struct Tally {
  std::atomic<uint64_t> seed{0};
  uint64_t worlds = 0, tasks = 0, early = 0, failed_runs = 0, lost = 0, blocked = 0, overtaking = 0, bad = 0;

  void count(const WorldResult& result) {
    ++worlds;
    tasks += result.tasks;
    early += result.pushed_early;
    failed_runs += result.failed_runs;
    lost += result.lost_lanes;
    blocked += result.blocked;
    overtaking += result.overtaking;
  }
  void add(const Tally& other) {
    worlds += other.worlds;
    tasks += other.tasks;
    early += other.early;
    failed_runs += other.failed_runs;
    lost += other.lost;
    blocked += other.blocked;
    overtaking += other.overtaking;
    bad += other.bad;
  }
};

bool parse(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const char* const next = i + 1 < argc ? argv[i + 1] : nullptr;
    if (word == "--trace") {
      options->trace = true;
    } else if (word == "--seeds" && next != nullptr) {
      options->seeds = std::strtoull(next, nullptr, 10), ++i;
    } else if (word == "--first" && next != nullptr) {
      options->first = std::strtoull(next, nullptr, 10), ++i;
    } else if (word == "--jobs" && next != nullptr) {
      options->jobs = std::strtoull(next, nullptr, 10), ++i;
    } else if (word == "--seconds" && next != nullptr) {
      options->seconds = std::strtod(next, nullptr), ++i;
    } else {
      return false;
    }
  }
  return options->jobs >= 1 && options->jobs <= kMaxJobs;
}

void report(const char* program, uint64_t seed, const std::string& problem) {
  const auto number = static_cast<unsigned long long>(seed);
  std::printf("seed=%llu: %s\n  replay: %s --first %llu --seeds 1 --trace\n", number, problem.c_str(), program, number);
  std::fflush(stdout);
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Every jobs-th seed from the job's first one on.
void run_job(const char* program, const Options& options, uint64_t job, Clock::time_point begin, Tally& tally) {
  Worlds worlds;
  for (uint64_t at = job; at < options.seeds && seconds_since(begin) < options.seconds; at += options.jobs) {
    const uint64_t seed = options.first + at;
    tally.seed.store(seed, std::memory_order_relaxed);
    alarm(kSecondsPerWorld);
    const WorldResult result = worlds.run(seed, options.trace);
    tally.count(result);
    if (options.trace) std::printf("digest %016llx\n", static_cast<unsigned long long>(result.digest));
    if (result.problem.empty()) continue;
    report(program, seed, result.problem);
    if (++tally.bad == kMaxBad) break;
  }
  alarm(0);
}

pid_t start_job(const char* program, const Options& options, uint64_t job, Clock::time_point begin, Tally& tally) {
  std::fflush(stdout);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  run_job(program, options, job, begin, tally);
  std::fflush(stdout);
  _exit(0);
}

void wait_for_job(const char* program, pid_t child, Tally& tally) {
  int status = 0;
  if (child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  ++tally.bad;
  std::string problem = "the process of this world could not be started or watched";
  if (WIFSIGNALED(status)) {
    problem = "the world ended with signal " + std::to_string(WTERMSIG(status));
    if (WTERMSIG(status) == SIGALRM) problem += ": not over after " + std::to_string(kSecondsPerWorld) + " seconds";
  } else if (WIFEXITED(status)) {
    problem = "the world ended with status " + std::to_string(WEXITSTATUS(status));
  }
  report(program, tally.seed.load(std::memory_order_relaxed), problem);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, &options)) {
    std::fprintf(stderr, "usage: %s [--seeds N] [--first S] [--seconds T] [--jobs 1..%llu] [--trace]\n", argv[0],
                 static_cast<unsigned long long>(kMaxJobs));
    return 2;
  }
  const auto begin = Clock::now();
  void* const shared =
      mmap(nullptr, kMaxJobs * sizeof(Tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    std::perror("mmap");
    return 1;
  }
  auto* const tallies = static_cast<Tally*>(shared);
  for (uint64_t job = 0; job < options.jobs; ++job) new (&tallies[job]) Tally;
  if (options.trace) {
    options.jobs = 1;
    run_job(argv[0], options, 0, begin, tallies[0]);
  } else {
    std::vector<pid_t> children;
    for (uint64_t job = 0; job < options.jobs; ++job) {
      children.push_back(start_job(argv[0], options, job, begin, tallies[job]));
    }
    for (uint64_t job = 0; job < options.jobs; ++job) wait_for_job(argv[0], children[job], tallies[job]);
  }
  Tally all;
  for (uint64_t job = 0; job < options.jobs; ++job) all.add(tallies[job]);
  using Wide = unsigned long long;
  std::printf(
      "%llu worlds from seed %llu (%.0f a second), %llu tasks, %llu pushed early, %llu failed runs, %llu lost lanes, "
      "%llu waits, %llu overtaking starts, %llu bad\n",
      Wide{all.worlds}, Wide{options.first}, static_cast<double>(all.worlds) / seconds_since(begin), Wide{all.tasks},
      Wide{all.early}, Wide{all.failed_runs}, Wide{all.lost}, Wide{all.blocked}, Wide{all.overtaking}, Wide{all.bad});
  return all.bad == 0 ? 0 : 1;
}
