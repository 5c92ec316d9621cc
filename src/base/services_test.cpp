#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "base/check.h"
#include "base/environment.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/unique_fd.h"

namespace simpler {
namespace {

TEST(CheckDeathTest, PrintsConditionValuesAndPlace) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const int head = 3;
  EXPECT_DEATH(SIMPLER_CHECK(head < 2, head, "while retiring", true),
               "services_test.cpp:[0-9]+: head < 2 \\[3, while retiring, true\\]");
  EXPECT_DEATH(SIMPLER_UNREACHABLE(head), "unreachable \\[3\\]");
}

TEST(FaultPlan, FailsOneNamedReachOnlyAndCountsAll) {
  FaultPlan plan;
  plan.fail_at("map", 2, resource_exhausted("planned"));
  EXPECT_TRUE(fault_point(&plan, "map").is_ok());
  EXPECT_TRUE(fault_point(&plan, "fork").is_ok());
  EXPECT_EQ(fault_point(&plan, "map").message(), "planned");
  EXPECT_TRUE(fault_point(&plan, "map").is_ok());
  EXPECT_EQ(plan.reached(), (std::vector<std::string>{"map", "fork", "map", "map"}));
  EXPECT_TRUE(fault_point(nullptr, "map").is_ok());
}

TEST(FaultPlan, AHookIsCalledAtEveryPointAndMayFailIt) {
  FaultPlan plan;
  std::vector<std::string> seen;
  plan.on_reach([&](std::string_view point) {
    seen.emplace_back(point);
    return plan.reached().size() == 1 ? internal_error("by the hook") : Status::ok();  // no lock of the plan is held
  });
  plan.fail_at("fork", 1, resource_exhausted("planned"));
  EXPECT_TRUE(fault_point(&plan, "map").is_ok());
  EXPECT_EQ(fault_point(&plan, "fork").message(), "by the hook");
  EXPECT_TRUE(fault_point(&plan, "fork").is_ok());
  EXPECT_EQ(seen, (std::vector<std::string>{"map", "fork", "fork"}));
}

TEST(FaultPlan, ASweepFailsEachStepOnceAndEndsWhenNoneIsLeft) {
  std::set<size_t> failed_at;
  uint64_t nth = 1;
  for (;; ++nth) {
    FaultPlan plan;
    plan.fail_nth(nth, internal_error("planned"));
    for (size_t step = 0; step < 3; ++step) {
      if (!fault_point(&plan, "step").is_ok()) {
        failed_at.insert(step);
        break;
      }
    }
    if (!plan.fired()) break;
  }
  EXPECT_EQ(failed_at, (std::set<size_t>{0, 1, 2}));
  EXPECT_EQ(nth, 4U);
}

TEST(Environment, ReadsNumbersAndNamesTheVariableThatIsWrong) {
  Environment environment;
  environment.set(Variable::kSchedulerTimeoutMs, "250").set(Variable::kRingHeap, "1,2,3,4");
  EXPECT_EQ(*environment.number(Variable::kSchedulerTimeoutMs), 250U);
  EXPECT_EQ(*environment.four_numbers(Variable::kRingHeap), (std::array<uint64_t, 4>{1, 2, 3, 4}));
  EXPECT_FALSE(Environment().number(Variable::kSchedulerTimeoutMs)->has_value());
  environment.set(Variable::kRingTaskWindow, "9");
  EXPECT_EQ(*environment.four_numbers(Variable::kRingTaskWindow), (std::array<uint64_t, 4>{9, 9, 9, 9}));
  environment.set(Variable::kRingHeap, "1,2");
  EXPECT_EQ(environment.four_numbers(Variable::kRingHeap).status().message(),
            "environment variable PTO2_RING_HEAP has 2 values, 1 or 4 are needed");
  environment.set(Variable::kSchedulerTimeoutMs, "5s");
  EXPECT_EQ(environment.number(Variable::kSchedulerTimeoutMs).status().code(), StatusCode::kInvalidArgument);
}

TEST(Environment, CapturesWhatTheProcessWasGivenAndTakesEmptyAsNotSet) {
  ::setenv("SIMPLER_KERNEL_ISA", "x86-64-v3", 1);
  ::setenv("SIMPLER_TRACE", "", 1);
  const Environment environment = Environment::capture();
  EXPECT_EQ(environment.text(Variable::kKernelIsa), "x86-64-v3");
  EXPECT_EQ(environment.text(Variable::kTrace), std::nullopt);
  ::unsetenv("SIMPLER_KERNEL_ISA");
  ::unsetenv("SIMPLER_TRACE");
}

TEST(Log, KnowsLevelsByNameAndNumber) {
  LogLevel level = LogLevel::kError;
  EXPECT_TRUE(parse_log_level("warning", level));
  EXPECT_EQ(level, LogLevel::kWarn);
  EXPECT_TRUE(parse_log_level("25", level));
  EXPECT_EQ(level, LogLevel::kTiming);
  EXPECT_FALSE(parse_log_level("loud", level));
  EXPECT_FALSE(parse_log_level("61", level));
  EXPECT_EQ(level, LogLevel::kTiming);
}

TEST(Log, PassesOnlyRecordsAtOrAboveItsLevel) {
  std::vector<std::string> seen;
  Logger logger(LogLevel::kWarn, [&](const LogRecord& record) { seen.emplace_back(record.text); });
  logger.log(LogLevel::kInfo, "test", "quiet");
  logger.log(LogLevel::kWarn, "test", "heard");
  logger.set_level(LogLevel::kNul);
  logger.log(LogLevel::kError, "test", "silenced");
  logger.log(LogLevel::kNul, "test", "never a record");
  EXPECT_EQ(seen, (std::vector<std::string>{"heard"}));
}

TEST(Log, CutsLongTextBetweenCharactersAndEscapesControls) {
  const std::string text = std::string(300, 'x') + "\xc3\xa9\n" + "bell\x07";
  const auto lines = format_log_lines({LogLevel::kError, "part", text}, "T", 128);
  std::string joined;
  for (const std::string& line : lines) {
    EXPECT_LE(line.size(), 128U);
    EXPECT_EQ(line.back(), '\n');
    EXPECT_TRUE(line.starts_with("T simpler ERROR ["));
    const size_t start = line.find("part: ") + 6;
    joined += line.substr(start, line.size() - start - 1);
  }
  EXPECT_EQ(joined, std::string(300, 'x') + "\xc3\xa9" + "bell\\x07");
}

// Several processes write to one pipe; every line must arrive whole and say who wrote it.
TEST(Log, LinesOfManyProcessesStayWhole) {
  constexpr int kProcesses = 4;
  constexpr int kRecords = 500;
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  for (int child = 0; child < kProcesses; ++child) {
    if (::fork() != 0) continue;
    const Logger logger(LogLevel::kInfo, log_to_fd(writer.get()));
    for (int n = 0; n < kRecords; ++n) {
      const size_t length = n % 100 == 99 ? 6'000 : 20;
      logger.log(LogLevel::kInfo, "child", "<" + std::string(length, 'a') + ">");
    }
    ::_exit(0);
  }
  writer.reset();
  std::string all;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = ::read(reader.get(), buffer.data(), buffer.size())) > 0;) {
    all.append(buffer.data(), static_cast<size_t>(got));
  }
  for (int child = 0; child < kProcesses; ++child) ::wait(nullptr);

  std::map<std::string, std::string> text_of;
  size_t begin = 0;
  while (begin < all.size()) {
    const size_t end = all.find('\n', begin);
    ASSERT_NE(end, std::string::npos);
    const std::string line = all.substr(begin, end - begin);
    begin = end + 1;
    ASSERT_LE(line.size(), 4095U);
    const size_t bracket = line.find("] child: ");
    ASSERT_NE(bracket, std::string::npos) << line;
    const size_t open = line.find('[');
    text_of[line.substr(open + 1, line.find('/') - open - 1)] += line.substr(bracket + 9);
  }
  ASSERT_EQ(text_of.size(), static_cast<size_t>(kProcesses));
  for (const auto& [pid, text] : text_of) {
    EXPECT_EQ(std::count(text.begin(), text.end(), '<'), kRecords);
    EXPECT_EQ(std::count(text.begin(), text.end(), 'a'), 495 * 20 + 5 * 6'000) << pid;
  }
}

}  // namespace
}  // namespace simpler
