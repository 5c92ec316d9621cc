#include "wire/report.h"

#include <memory>

#include <gtest/gtest.h>

#include "base/seeded_random.h"

namespace simpler::wire {
namespace {

struct Area {
  Report report{};
  SideReport side{};
};

Failure example() {
  return {StatusCode::kTaskFailed, -9, "ValueError", "shape (3, 4) is not square", "File \"x.py\", line 3\n", false};
}

TEST(Report, ShortTextIsKeptWholeInTheRecord) {
  const auto area = std::make_unique<Area>();
  write_report(area->report, &area->side, 42, example());
  EXPECT_EQ(area->report.flags, 0);
  const Failure read = read_report(area->report, &area->side, 42);
  EXPECT_EQ(read.code, StatusCode::kTaskFailed);
  EXPECT_EQ(read.run_code, -9);
  EXPECT_EQ(read.type_name, example().type_name);
  EXPECT_EQ(read.message, example().message);
  EXPECT_EQ(read.traceback, example().traceback);
  EXPECT_FALSE(read.cut);
  const Status status = to_status(read);
  EXPECT_EQ(status.type_name(), "ValueError");
  EXPECT_EQ(status.run_code(), -9);
}

TEST(Report, LongTextComesFromTheSideAreaInFull) {
  const auto area = std::make_unique<Area>();
  Failure failure = example();
  failure.message = std::string(3000, 'm');
  failure.traceback = std::string(9000, 't');
  write_report(area->report, &area->side, 7, failure);
  const Failure read = read_report(area->report, &area->side, 7);
  EXPECT_EQ(read.message, failure.message);
  EXPECT_EQ(read.traceback, failure.traceback);
  EXPECT_FALSE(read.cut);
}

TEST(Report, WithoutItsSideAreaLongTextIsCutWithAMark) {
  const auto area = std::make_unique<Area>();
  Failure failure = example();
  failure.message = std::string(3000, 'm');
  failure.traceback = std::string(9000, 't');
  write_report(area->report, &area->side, 7, failure);
  failure.message = "newer";
  failure.traceback = std::string(5000, 'n');
  Report other{};
  write_report(other, &area->side, 8, failure);  // the side area belongs to line 8 now
  const Failure read = read_report(area->report, &area->side, 7);
  EXPECT_TRUE(read.cut);
  EXPECT_EQ(read.type_name, "ValueError");
  EXPECT_TRUE(read.message.starts_with("mmmm"));
  EXPECT_TRUE(read.message.ends_with(kCutMark));
  EXPECT_TRUE(read.traceback.ends_with(kCutMark));
  EXPECT_GT(read.message.size(), 255u);
}

TEST(Report, CutsFallBetweenCharacters) {
  const std::string text = "a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80z";  // 1, 2, 3, 4 and 1 bytes
  const size_t starts[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
  for (size_t limit = 0; limit < 12; ++limit) EXPECT_EQ(utf8_prefix(text, limit).size(), starts[limit]) << limit;
  EXPECT_EQ(utf8_prefix(std::string(8, '\x80'), 6).size(), 3u);  // no text at all: still bounded
}

TEST(Report, AForeignSequenceOrCodeIsSaidToBeUnreadable) {
  const auto area = std::make_unique<Area>();
  write_report(area->report, nullptr, 42, example());
  EXPECT_EQ(read_report(area->report, nullptr, 43).code, StatusCode::kCorrupt);
  area->report.code = 0;
  EXPECT_EQ(read_report(area->report, nullptr, 42).code, StatusCode::kCorrupt);
  area->report.code = kStatusCodeCount;
  EXPECT_EQ(read_report(area->report, nullptr, 42).code, StatusCode::kCorrupt);
}

TEST(Report, RandomRecordsAreReadWithoutHarm) {
  SeededRandom random(9);
  const auto area = std::make_unique<Area>();
  Failure failure = example();
  failure.traceback = std::string(5000, 't');
  for (int round = 0; round < 50000; ++round) {
    write_report(area->report, &area->side, 1, failure);
    for (int i = 0; i < 3; ++i) {
      reinterpret_cast<uint8_t*>(&area->report)[random.below(20)] = static_cast<uint8_t>(random.next());
      reinterpret_cast<uint8_t*>(&area->side)[random.below(20)] = static_cast<uint8_t>(random.next());
    }
    const Failure read = read_report(area->report, &area->side, 1);
    EXPECT_LE(read.message.size() + read.traceback.size() + read.type_name.size(), size_t{kSideBytes});
  }
}

}  // namespace
}  // namespace simpler::wire
