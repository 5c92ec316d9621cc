// What a submit costs in instructions and system calls: exact counts, so gates without noise.
//
// The program runs itself under valgrind with `--work WORKLOAD ROUNDS`: callgrind counts what is executed inside
// Engine::submit, and valgrind's trace shows the system calls. A few rounds are compared with more of them, so that
// neither start-up nor the first touch of memory counts.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>

#include "engine_rig.h"
#include "harness/harness.h"

namespace simpler::bench {
namespace {

constexpr int kFew = 2;
constexpr int kMore = 4;

sol::Workload workload_named(const std::string& name) {
  for (sol::Workload& workload : sol::standard_workloads()) {
    if (workload.name == name) return workload;
  }
  std::fprintf(stderr, "no workload '%s'\n", name.c_str());
  std::exit(2);
}

int work(const std::string& name, int rounds) {
  const sol::Workload workload = workload_named(name);
  EngineRig rig;
  const Prepared prepared = rig.prepare(workload);
  for (int round = 0; round < rounds; ++round) submit_engine(rig, prepared);
  return 0;
}

std::string own_path() {
  char path[4096];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) std::abort();
  return {path, static_cast<size_t>(length)};
}

// Calls `line` for each line that valgrind prints about `rounds` rounds.
template <class Line>
void under_valgrind(const std::string& tool, const std::string& workload, int rounds, Line&& line) {
  const std::string command =
      "valgrind " + tool + " '" + own_path() + "' --work " + workload + " " + std::to_string(rounds) + " 2>&1";
  FILE* const output = ::popen(command.c_str(), "r");
  if (output == nullptr) std::abort();
  char text[4096];
  while (std::fgets(text, sizeof text, output) != nullptr) line(text);
  if (::pclose(output) != 0) {
    std::fprintf(stderr, "failed: %s\n", command.c_str());
    std::exit(1);
  }
}

double instructions(const std::string& workload, int rounds) {
  double count = 0;
  under_valgrind("--tool=callgrind --callgrind-out-file=/dev/null '--toggle-collect=simpler::engine::Engine::submit(*'",
                 workload, rounds, [&](const char* line) {
                   if (const char* found = std::strstr(line, "Collected : ")) count = std::atof(found + 12);
                 });
  return count;
}

// Without reading the clock, which is a system call under valgrind only.
double system_calls(const std::string& workload, int rounds) {
  double count = 0;
  under_valgrind("--tool=none --trace-syscalls=yes", workload, rounds, [&](const char* line) {
    const bool call = std::strncmp(line, "SYSCALL[", 8) == 0;
    count += call && std::strstr(line, "sys_clock_gettime") == nullptr ? 1 : 0;
  });
  return count;
}

template <class Count>
double per_task(const std::string& workload, Count&& count) {
  const double tasks = workload_named(workload).task_count();
  return (count(workload, kMore) - count(workload, kFew)) / (tasks * (kMore - kFew));
}

void entries(Harness& harness) {
  struct Bound {
    const char* workload;
    double instructions;
  };
  for (const Bound& bound : {Bound{"stencil", 700}, Bound{"chain", 250}}) {
    const std::string workload = bound.workload;
    if (harness.wants("instructions/" + workload)) {
      harness.measure(
          "instructions/" + workload, "", bound.instructions, [&] { return per_task(workload, instructions); }, 1);
    }
    if (harness.wants("system-calls/" + workload)) {
      harness.measure(
          "system-calls/" + workload, "", 0, [&] { return per_task(workload, system_calls); }, 1);
    }
  }
}

}  // namespace
}  // namespace simpler::bench

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "--work") == 0) return simpler::bench::work(argv[2], std::atoi(argv[3]));
  simpler::bench::Harness harness(argc, argv);
  if (std::system("valgrind --version > /dev/null 2>&1") == 0) {
    simpler::bench::entries(harness);
  } else {
    std::printf("instructions and system calls: not measured: valgrind is not installed\n");
  }
  return harness.finish();
}
