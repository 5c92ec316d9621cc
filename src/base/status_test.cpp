#include "simpler/status.h"

#include <cerrno>
#include <memory>
#include <set>

#include <gtest/gtest.h>

#include "base/status_macros.h"
#include "simpler/ids.h"

namespace simpler {
namespace {

TEST(Status, IsOnePointerWideAndOkByDefault) {
  static_assert(sizeof(Status) == sizeof(void*));
  EXPECT_TRUE(Status::ok().is_ok());
  EXPECT_EQ(Status().code(), StatusCode::kOk);
  EXPECT_EQ(Status().describe(), "ok");
  EXPECT_TRUE(Status(StatusCode::kOk, "dropped").is_ok());
}

TEST(Status, EveryCodeHasItsOwnName) {
  std::set<std::string_view> names;
  for (uint16_t code = 0; code < kStatusCodeCount; ++code) names.insert(to_string(static_cast<StatusCode>(code)));
  EXPECT_EQ(names.size(), kStatusCodeCount);
  EXPECT_EQ(to_string(StatusCode::kPeerLost), "peer_lost");
  EXPECT_EQ(to_string(StatusCode::kInternal), "internal");
  EXPECT_EQ(to_string(static_cast<StatusCode>(kStatusCodeCount)), "unknown");
}

TEST(Status, CarriesEveryDetailAndTellsThemInOneText) {
  const Status status = task_failed("boom")
                            .with_worker_path("L3/sub1")
                            .with_callable("scale")
                            .with_task("17")
                            .with_type_name("ValueError")
                            .with_traceback("line 1\nline 2")
                            .with_run_code(-9)
                            .with_pid(123)
                            .with_exit_status(4)
                            .with_signal(11);
  EXPECT_EQ(status.code(), StatusCode::kTaskFailed);
  EXPECT_EQ(status.message(), "boom");
  EXPECT_EQ(status.type_name(), "ValueError");
  EXPECT_EQ(status.run_code(), -9);
  EXPECT_EQ(status.describe(),
            "boom (worker L3/sub1, callable scale, task 17, exception ValueError, run code -9, pid 123, exit status 4, "
            "signal 11)\nline 1\nline 2");
}

TEST(Status, ContextGoesInFrontAndACopyIsIndependent) {
  Status first = not_found("no such buffer").with_pid(7);
  const Status copy = first;
  first = std::move(first).context("free");
  EXPECT_EQ(first.message(), "free: no such buffer");
  EXPECT_EQ(copy.message(), "no such buffer");
  EXPECT_EQ(copy.pid(), 7);
  EXPECT_TRUE(Status::ok().context("unused").with_pid(3).is_ok());
}

TEST(Status, ASystemErrorNamesTheErrno) {
  EXPECT_EQ(system_error(ENOENT, "open /x").message(), "open /x: No such file or directory");
}

Result<int> half(int value) {
  if (value % 2 != 0) return invalid_argument("odd");
  return value / 2;
}

Result<int> quarter(int value) {
  SIMPLER_ASSIGN_OR_RETURN(const int once, half(value));
  SIMPLER_ASSIGN_OR_RETURN(const int twice, half(once));
  return twice;
}

Status check_quarter(int value) {
  SIMPLER_RETURN_IF_ERROR(quarter(value).status());
  return Status::ok();
}

TEST(Result, IsAValueOrAStatusAndMacrosReturnEarly) {
  EXPECT_EQ(*quarter(12), 3);
  EXPECT_EQ(quarter(6).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(quarter(6).value_or(-1), -1);
  EXPECT_TRUE(check_quarter(8).is_ok());
  EXPECT_EQ(check_quarter(5).message(), "odd");
}

TEST(Result, HoldsThingsThatOnlyMove) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
  ASSERT_TRUE(result.ok());
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 5);
}

TEST(Result, ASuccessfulStatusWithoutAValueIsAnInternalError) {
  const Result<int> result = Status::ok();
  EXPECT_EQ(result.status().code(), StatusCode::kInternal);
}

TEST(ResultDeathTest, ReadingAFailedResultEndsTheProcessWithItsReason) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  Result<int> result = not_found("the missing thing");
  EXPECT_DEATH(static_cast<void>(*result), "the missing thing");
}

TEST(Error, CarriesTheStatusThroughCopies) {
  const Error error(peer_lost("gone").with_signal(9));
  const Error copy = error;  // NOLINT(performance-unnecessary-copy-initialization): the copy is what is tested
  EXPECT_STREQ(copy.what(), "gone (signal 9)");
  EXPECT_EQ(copy.status().signal(), 9);
  EXPECT_EQ(copy.code(), StatusCode::kPeerLost);
}

template <class A, class B>
concept Comparable = requires(A a, B b) {
  a == b;
};

TEST(Ids, OfDifferentThingsDoNotCompare) {
  static_assert(Comparable<SlotId, SlotId>);
  static_assert(!Comparable<SlotId, WorkerId>);
  static_assert(!std::is_convertible_v<uint32_t, SlotId>);
  EXPECT_LT(SlotId{1}, SlotId{2});
  EXPECT_EQ(std::hash<RunId>{}(RunId{1}), std::hash<RunId>{}(RunId{1}));
}

}  // namespace
}  // namespace simpler
