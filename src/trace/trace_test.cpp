#include <cstdlib>
#include <signal.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trace/chrome_export.h"
#include "trace/recorder.h"
#include "trace/ring.h"
#include "trace/snapshot.h"

namespace simpler::trace {
namespace {

std::unique_ptr<Recorder> make(RecorderOptions options = {}) {
  return Recorder::create(options).value();
}

TEST(Recorder, RecordsNothingUntilItIsOn) {
  auto recorder = make();
  const NameId name = recorder->name("submit");
  recorder->instant(name);
  { Span span(recorder.get(), name); }
  { Span span(nullptr, name); }
  EXPECT_TRUE(recorder->snapshot().tracks.empty());
  recorder->start();
  recorder->instant(name, 7);
  recorder->stop();
  recorder->instant(name, 8);
  const Snapshot snapshot = recorder->snapshot();
  ASSERT_EQ(snapshot.tracks.size(), 1U);
  ASSERT_EQ(snapshot.tracks[0].events.size(), 1U);
  EXPECT_EQ(snapshot.tracks[0].events[0].arg, 7U);
  EXPECT_EQ(snapshot.name(snapshot.tracks[0].events[0].name), "submit");
}

TEST(Recorder, ASpanCoversItsScopeAndACounterKeepsItsSign) {
  auto recorder = make();
  recorder->start();
  const Nanos before = monotonic_now();
  { Span span(recorder.get(), recorder->name("work"), 3); }
  recorder->counter(recorder->name("depth"), -5);
  const Nanos after = monotonic_now();
  const Snapshot snapshot = recorder->snapshot();
  ASSERT_EQ(snapshot.tracks.at(0).events.size(), 2U);
  const Event& span = snapshot.tracks[0].events[0];
  EXPECT_EQ(span.kind, EventKind::kSpan);
  EXPECT_GE(span.at, before);
  EXPECT_GE(span.extent, 0);
  EXPECT_LE(span.at + span.extent, after);
  EXPECT_EQ(snapshot.tracks[0].events[1].extent, -5);
}

TEST(Recorder, GivesOneIdPerNameAndCutsLongOnes) {
  auto recorder = make();
  EXPECT_EQ(recorder->name("a"), recorder->name("a"));
  EXPECT_NE(recorder->name("a"), recorder->name("b"));
  const NameId cut = recorder->name(std::string(100, 'x'));
  EXPECT_EQ(recorder->snapshot().name(cut), std::string(63, 'x'));
}

TEST(Recorder, RefusesImpossibleOptions) {
  EXPECT_EQ(Recorder::create({.threads = 0}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Recorder::create({.events_per_thread = 1000}).status().code(), StatusCode::kInvalidArgument);
}

TEST(Recorder, KeepsTheNewestEventsAndCountsTheLost) {
  auto recorder = make({.threads = 1, .events_per_thread = 8});
  recorder->start();
  const NameId name = recorder->name("n");
  for (uint64_t i = 0; i < 20; ++i) recorder->instant(name, i);
  const Snapshot snapshot = recorder->snapshot();
  ASSERT_EQ(snapshot.tracks.at(0).events.size(), 7U);
  EXPECT_EQ(snapshot.tracks[0].lost, 13U);
  for (uint64_t i = 0; i < 7; ++i) EXPECT_EQ(snapshot.tracks[0].events[i].arg, 13 + i);
}

TEST(Recorder, GivesEachThreadItsOwnTrackAndCountsThreadsWithoutOne) {
  auto recorder = make({.threads = 2, .events_per_thread = 64});
  recorder->start();
  const NameId name = recorder->name("n");
  for (uint64_t i = 0; i < 3; ++i) {
    std::thread([&, i] {
      recorder->name_thread("thread " + std::to_string(i));
      recorder->instant(name, i);
      recorder->instant(name, i);
    }).join();
  }
  const Snapshot snapshot = recorder->snapshot();
  ASSERT_EQ(snapshot.tracks.size(), 2U);
  EXPECT_EQ(snapshot.tracks[1].thread_name, "thread 1");
  EXPECT_EQ(snapshot.tracks[1].events.size(), 2U);
  EXPECT_NE(snapshot.tracks[0].tid, snapshot.tracks[1].tid);
  EXPECT_EQ(snapshot.refused_threads, 1U);
}

TEST(Recorder, TheEventsOfAKilledChildSurvive) {
  auto recorder = make({.process_name = "top"});
  recorder->start();
  const NameId name = recorder->name("kernel");
  recorder->instant(name, 1);
  const pid_t child = ::fork();
  if (child == 0) {
    recorder->after_fork_in_child("chip 0");
    recorder->instant(name, 2);
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  recorder->instant(name, 3);
  const Snapshot snapshot = recorder->snapshot();
  ASSERT_EQ(snapshot.tracks.size(), 2U);
  EXPECT_EQ(snapshot.tracks[0].process_name, "top");
  EXPECT_EQ(snapshot.tracks[0].events.size(), 2U);
  EXPECT_EQ(snapshot.tracks[1].process_name, "chip 0");
  EXPECT_EQ(snapshot.tracks[1].pid, static_cast<uint32_t>(child));
  EXPECT_EQ(snapshot.tracks[1].events.at(0).arg, 2U);
}

// The writer laps the reader all the time; every event that the reader is given must be whole and in order.
TEST(Ring, AReaderBesideTheWriterGetsWholeEventsInOrder) {
  constexpr uint32_t kCapacity = 64;
  std::vector<uint64_t> memory(Ring::bytes(kCapacity) / 8 + 8, 0);
  const Ring ring(reinterpret_cast<std::byte*>(memory.data()), kCapacity);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t i = 1; !stop.load(); ++i) {
      Ring(ring).push({.at = static_cast<Nanos>(i), .extent = static_cast<int64_t>(i), .arg = i});
    }
  });
  uint64_t seen = 0;
  uint64_t wrong = 0;
  for (int round = 0; round < 3'000 || seen == 0; ++round) {
    std::vector<Event> events;
    const uint64_t lost = ring.read(events);
    for (size_t i = 0; i < events.size(); ++i) {
      const uint64_t expected = lost + i + 1;
      if (events[i].arg != expected || events[i].at != static_cast<Nanos>(expected) ||
          events[i].extent != static_cast<int64_t>(expected)) {
        ++wrong;
      }
    }
    seen += events.size();
  }
  stop = true;
  writer.join();
  EXPECT_EQ(wrong, 0U);
  EXPECT_GT(seen, 0U);
}

Snapshot sample() {
  Snapshot snapshot;
  snapshot.names = {"", "submit \"a\"", "depth"};
  snapshot.tracks.push_back({10, 11, "top", "builder", 2, {}});
  snapshot.tracks[0].events = {{.at = 5'000, .extent = 1'234, .name = {1}, .kind = EventKind::kSpan, .arg = 9},
                               {.at = 7'001, .name = {1}, .kind = EventKind::kInstant},
                               {.at = 9'000, .extent = -4, .name = {2}, .kind = EventKind::kCounter}};
  snapshot.tracks.push_back(
      {20, 20, "chip 0", "", 0, {{.at = 6'000, .extent = 10, .name = {2}, .kind = EventKind::kSpan}}});
  snapshot.refused_threads = 1;
  return snapshot;
}

TEST(Snapshot, SurvivesItsFile) {
  const std::string path = testing::TempDir() + "simpler_trace_test.bin";
  ASSERT_TRUE(write_file(sample(), path).is_ok());
  const Snapshot read = read_file(path).value();
  ::unlink(path.c_str());
  EXPECT_EQ(encode(read), encode(sample()));
  EXPECT_EQ(read.tracks.at(0).events, sample().tracks.at(0).events);
  EXPECT_EQ(read_file(path).status().code(), StatusCode::kSystem);
}

TEST(Snapshot, EveryCutOrSpoiltFileIsRefusedOrReadsAsSomethingElse) {
  const std::vector<std::byte> whole = encode(sample());
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(decode(std::span(whole).first(length)).ok()) << length;
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    std::vector<std::byte> spoilt = whole;
    spoilt[at] ^= std::byte{0xff};
    const auto read = decode(spoilt);
    if (read.ok()) {
      EXPECT_EQ(encode(*read), spoilt) << at;
    }
  }
}

TEST(Snapshot, MergingJoinsEqualNamesAndSortsTracks) {
  Snapshot other;
  other.names = {"", "depth", "other"};
  other.tracks.push_back({5, 5, "first", "", 0, {{.at = 1, .name = {1}}, {.at = 2, .name = {2}}}});
  const std::array<Snapshot, 2> parts = {sample(), other};
  const Snapshot merged = merge(parts);
  EXPECT_EQ(merged.names, (std::vector<std::string>{"", "submit \"a\"", "depth", "other"}));
  ASSERT_EQ(merged.tracks.size(), 3U);
  EXPECT_EQ(merged.tracks[0].process_name, "first");
  EXPECT_EQ(merged.name(merged.tracks[0].events[0].name), "depth");
  EXPECT_EQ(merged.name(merged.tracks[0].events[1].name), "other");
  EXPECT_EQ(merged.refused_threads, 1U);
}

TEST(ChromeExport, IsTheJsonThatViewersExpect) {
  const auto json = nlohmann::json::parse(to_chrome_json(sample()));
  const auto& events = json.at("traceEvents");
  ASSERT_EQ(events.size(), 3U + 4U);
  EXPECT_EQ(events[0],
            nlohmann::json::parse(R"({"name":"process_name","ph":"M","pid":10,"tid":11,"args":{"name":"top"}})"));
  EXPECT_EQ(events[2],
            nlohmann::json::parse(
                R"({"name":"submit \"a\"","ph":"X","pid":10,"tid":11,"ts":0.0,"dur":1.234,"args":{"arg":9}})"));
  EXPECT_EQ(events[3],
            nlohmann::json::parse(
                R"({"name":"submit \"a\"","ph":"i","s":"t","pid":10,"tid":11,"ts":2.001,"args":{"arg":0}})"));
  EXPECT_EQ(events[4],
            nlohmann::json::parse(R"({"name":"depth","ph":"C","pid":10,"tid":11,"ts":4.0,"args":{"value":-4}})"));
  EXPECT_EQ(events[6].at("pid"), 20);
  EXPECT_EQ(json.at("otherData").at("lost_events"), 2);
  EXPECT_EQ(json.at("otherData").at("refused_threads"), 1);
}

TEST(ChromeExport, AnEmptySnapshotAndBrokenTextStillGiveValidJson) {
  EXPECT_TRUE(nlohmann::json::parse(to_chrome_json({})).at("traceEvents").empty());
  Snapshot broken;
  broken.names = {"", "\xff\xfe"};
  broken.tracks.push_back({1, 1, "p", "t", 0, {{.at = 1, .name = {1}}, {.at = 1, .name = {99}}}});
  EXPECT_EQ(nlohmann::json::parse(to_chrome_json(broken)).at("traceEvents").size(), 4U);
}

}  // namespace
}  // namespace simpler::trace
