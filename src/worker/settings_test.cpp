#include "worker/settings.h"

#include <gtest/gtest.h>

namespace simpler::worker {
namespace {

TEST(WorkerSettings, WithoutVariablesTheDefaultsHold) {
  const Result<Settings> settings = settings_of({}, {});
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->log_level, LogLevel::kWarn);
  EXPECT_EQ(settings->watchdog, 10 * kSecond);
  EXPECT_EQ(settings->chip_task_window, 0U);
  EXPECT_EQ(settings->trace_folder, "");
}

TEST(WorkerSettings, VariablesActAndAnArgumentWinsOverThem) {
  Environment environment;
  environment.set(Variable::kSchedulerTimeoutMs, "250")
      .set(Variable::kRingTaskWindow, "64")
      .set(Variable::kRingHeap, "4096,1,2,3")
      .set(Variable::kLogLevel, "ERROR")
      .set(Variable::kTrace, "/traces");
  const Result<Settings> settings = settings_of({}, environment);
  ASSERT_TRUE(settings.ok()) << settings.status().describe();
  EXPECT_EQ(settings->log_level, LogLevel::kError);
  EXPECT_EQ(settings->trace_folder, "/traces");
  const chip::ChipOptions chip = chip_options_of({.platform = "tiny"}, *settings, 3);
  EXPECT_EQ(chip.platform, "tiny");
  EXPECT_EQ(chip.device_id, 3);
  EXPECT_EQ(chip.watchdog, 250 * kMillisecond);
  EXPECT_EQ(chip.task_window, 64U);
  EXPECT_EQ(chip.heap_bytes, 4096U);
  EXPECT_EQ(settings_of({.watchdog_s = 2}, environment)->watchdog, 2 * kSecond);
}

TEST(WorkerSettings, AWrongVariableIsNamedWithItsValue) {
  const auto message = [](Variable variable, const char* value) {
    Environment environment;
    environment.set(variable, value);
    const Result<Settings> settings = settings_of({}, environment);
    EXPECT_FALSE(settings.ok()) << value;
    return settings.ok() ? "" : std::string(settings.status().message());
  };
  EXPECT_NE(message(Variable::kLogLevel, "loud").find("SIMPLER_LOG_LEVEL has 'loud'"), std::string::npos);
  EXPECT_NE(message(Variable::kSchedulerTimeoutMs, "0").find("SIMPLER_SCHEDULER_TIMEOUT_MS has '0'"),
            std::string::npos);
  EXPECT_NE(message(Variable::kSchedulerTimeoutMs, "99999999999999999").find("between 1 and"), std::string::npos);
  EXPECT_NE(message(Variable::kRingHeap, "1,2").find("PTO2_RING_HEAP"), std::string::npos);
  EXPECT_NE(message(Variable::kRingHeap, "512").find("PTO2_RING_HEAP has '512': bytes, from 1024"), std::string::npos);
  EXPECT_NE(message(Variable::kRingTaskWindow, "100").find("PTO2_RING_TASK_WINDOW has '100': a power of two"),
            std::string::npos);
}

}  // namespace
}  // namespace simpler::worker
