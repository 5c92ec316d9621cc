// Ratios of interleaved arms, measured in one process: the frame of every benchmark program.
//
// A program registers checks (run first; a failed one ends the program) and comparisons. A comparison alternates
// batches of its subject with batches of its yardsticks, takes medians per round, and reports the median of the
// per-round ratios. With several yardsticks the smallest median of the round counts. Times are recorded, never judged;
// what is judged is the ratio against its target. `holds` has no slack; `--check` exits 1 past 1.5 times the target.
//
// Options: --only TEXT (names containing TEXT)  --json FILE  --check  --rounds N  --batches N  --list
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace simpler::bench {

// Nanoseconds of a monotonic clock.
inline double now_ns() {
  const auto since_epoch = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch).count());
}

// Keeps a value, and what led to it, from being optimised away.
template <class T>
inline void keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

inline double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

inline double mean(std::vector<double> values) {
  if (values.empty()) return 0.0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Runs one batch and returns its cost for one unit of work (a task, a hop), in the comparison's unit.
struct Arm {
  std::string name;
  std::function<double()> batch;
};

enum class Direction { kAtMost, kAtLeast };

// What stands for the batches of a round. The mean where now and then a batch loses a time slice to a stranger: how
// often that happens is part of the cost, and a median only tells whether it is more than every second batch.
enum class Centre { kMedian, kMean };

struct Comparison {
  std::string name;  // as in docs/performance.md, "dispatch/rtt"
  std::string unit = "ns";
  Arm subject;
  std::vector<Arm> yardsticks;
  double target = 1.0;
  Direction direction = Direction::kAtMost;
  uint32_t rounds = 5;
  uint32_t batches = 200;  // per arm and round
  Centre centre = Centre::kMedian;
};

// One line of the report; the field names are those of the JSON file.
struct Record {
  std::string name;
  double value = 0.0;
  std::string unit;
  std::string yardstick;
  double yardstick_value = 0.0;
  double ratio = 0.0;
  double target = 0.0;
  Direction direction = Direction::kAtMost;
  uint32_t rounds = 1;
  double spread = 0.0;  // (largest - smallest ratio of a round) / median ratio

  bool holds(double slack = 1.0) const {
    return direction == Direction::kAtMost ? ratio <= target * slack : ratio * slack >= target;
  }
};

class Harness {
 public:
  Harness(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) parse(argv[i], i + 1 < argc ? argv[i + 1] : nullptr, i);
    take_own_scheduling_group();
  }

  // True when the name is selected; lets a program skip costly set-up.
  bool wants(std::string_view name) const {
    return !list_ && (only_.empty() || name.find(only_) != std::string_view::npos);
  }

  // A check that must pass before anything is timed.
  void check(const std::string& name, const std::function<bool()>& passes) {
    if (!wants(name)) return;
    if (passes()) {
      std::printf("check  %-34s ok\n", name.c_str());
      return;
    }
    std::printf("check  %-34s FAILED\n", name.c_str());
    std::exit(1);
  }

  void compare(const Comparison& comparison) {
    if (list_) std::printf("%s\n", comparison.name.c_str());
    if (!wants(comparison.name)) return;
    const uint32_t rounds = rounds_ != 0 ? rounds_ : comparison.rounds;
    const uint32_t batches = batches_ != 0 ? batches_ : comparison.batches;
    std::vector<double> values, yards, ratios;
    std::string yard_name;
    for (uint32_t round = 0; round < rounds; ++round) {
      const Round result = run_round(comparison, batches);
      values.push_back(result.value);
      yards.push_back(result.yardstick);
      ratios.push_back(result.value / result.yardstick);
      yard_name = result.yardstick_name;
    }
    Record record;
    record.name = comparison.name;
    record.value = median(values);
    record.unit = comparison.unit;
    record.yardstick = yard_name;
    record.yardstick_value = median(yards);
    record.ratio = median(ratios);
    record.target = comparison.target;
    record.direction = comparison.direction;
    record.rounds = rounds;
    const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
    record.spread = record.ratio != 0.0 ? (*high - *low) / record.ratio : 0.0;
    add(record);
  }

  // A figure that is not a ratio of times (a count, a share): judged against `bound` directly.
  void measure(const std::string& name, const std::string& unit, double bound, const std::function<double()>& sample,
               uint32_t rounds = 1) {
    if (list_) std::printf("%s\n", name.c_str());
    if (!wants(name)) return;
    std::vector<double> values;
    for (uint32_t round = 0; round < rounds; ++round) values.push_back(sample());
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    Record record;
    record.name = name;
    record.value = median(values);
    record.unit = unit;
    record.yardstick = "bound";
    record.yardstick_value = bound;
    record.ratio = bound != 0.0 ? record.value / bound : (record.value == 0.0 ? 0.0 : 1e9);
    record.target = 1.0;
    record.rounds = rounds;
    record.spread = record.value != 0.0 ? (*high - *low) / record.value : 0.0;
    add(record);
  }

  void add(const Record& record) {
    std::printf("%-28s %10.2f %-4s  %-10s %10.2f  ratio %6.3f  target %s %-6.3g %-5s spread %4.0f%%  rounds %u\n",
                record.name.c_str(), record.value, record.unit.c_str(), record.yardstick.c_str(),
                record.yardstick_value, record.ratio,
                record.direction == Direction::kAtMost ? "<=" : ">=", record.target, record.holds() ? "holds" : "MISS",
                record.spread * 100.0, record.rounds);
    std::fflush(stdout);
    records_.push_back(record);
  }

  const std::vector<Record>& records() const { return records_; }

  // Writes the JSON file when one was asked for; the program's exit status.
  int finish() const {
    if (!json_.empty() && !write_json()) return 2;
    if (!check_) return 0;
    const bool good = std::all_of(records_.begin(), records_.end(), [](const Record& r) { return r.holds(1.5); });
    return good ? 0 : 1;
  }

 private:
  struct Round {
    double value = 0.0;
    double yardstick = 0.0;
    std::string yardstick_name;
  };

  void parse(std::string_view word, const char* next, int& index) {
    const auto number = [&] { return static_cast<uint32_t>(std::strtoul(next, nullptr, 10)); };
    if (word == "--check") {
      check_ = true;
    } else if (word == "--list") {
      list_ = true;
    } else if (next != nullptr && word == "--only") {
      only_ = next, ++index;
    } else if (next != nullptr && word == "--json") {
      json_ = next, ++index;
    } else if (next != nullptr && word == "--rounds") {
      rounds_ = number(), ++index;
    } else if (next != nullptr && word == "--batches") {
      batches_ = number(), ++index;
    } else {
      std::fprintf(stderr, "unknown option: %.*s\n", static_cast<int>(word.size()), word.data());
      std::exit(2);
    }
  }

  // A session of its own, and the top weight for it where the system allows that: other programs disturb less.
  static void take_own_scheduling_group() {
    if (::setsid() < 0) return;
    const int file = ::open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
    if (file < 0) return;
    if (::write(file, "-20", 3) < 0) std::fprintf(stderr, "scheduling group stays at its default weight\n");
    ::close(file);
  }

  // Alternates the arms, forwards and backwards in turn, so that none always follows the same neighbour.
  static Round run_round(const Comparison& comparison, uint32_t batches) {
    std::vector<const Arm*> arms{&comparison.subject};
    for (const Arm& arm : comparison.yardsticks) arms.push_back(&arm);
    std::vector<std::vector<double>> samples(arms.size());
    for (const Arm* arm : arms) arm->batch();
    for (uint32_t batch = 0; batch < batches; ++batch) {
      for (size_t i = 0; i < arms.size(); ++i) {
        const size_t arm = batch % 2 == 0 ? i : arms.size() - 1 - i;
        samples[arm].push_back(arms[arm]->batch());
      }
    }
    Round round;
    const auto centre = comparison.centre == Centre::kMean ? mean : median;
    round.value = centre(samples[0]);
    for (size_t i = 1; i < arms.size(); ++i) {
      const double value = centre(samples[i]);
      if (round.yardstick_name.empty() || value < round.yardstick) {
        round.yardstick = value;
        round.yardstick_name = arms[i]->name;
      }
    }
    return round;
  }

  bool write_json() const {
    std::FILE* file = std::fopen(json_.c_str(), "w");
    if (file == nullptr) {
      std::fprintf(stderr, "cannot write %s\n", json_.c_str());
      return false;
    }
    std::fputs("[\n", file);
    for (size_t i = 0; i < records_.size(); ++i) {
      const Record& r = records_[i];
      std::fprintf(file,
                   "  {\"name\": \"%s\", \"value\": %.4f, \"unit\": \"%s\", \"yardstick\": \"%s\", "
                   "\"yardstick_value\": %.4f, \"ratio\": %.4f, \"target\": %.4f, \"direction\": \"%s\", "
                   "\"holds\": %s, \"rounds\": %u, \"spread\": %.4f}%s\n",
                   r.name.c_str(), r.value, r.unit.c_str(), r.yardstick.c_str(), r.yardstick_value, r.ratio, r.target,
                   r.direction == Direction::kAtMost ? "at most" : "at least", r.holds() ? "true" : "false", r.rounds,
                   r.spread, i + 1 < records_.size() ? "," : "");
    }
    std::fputs("]\n", file);
    return std::fclose(file) == 0;
  }

  std::string only_;
  std::string json_;
  bool check_ = false;
  bool list_ = false;
  uint32_t rounds_ = 0;
  uint32_t batches_ = 0;
  std::vector<Record> records_;
};

}  // namespace simpler::bench
