#include "base/wake_word.h"

#include <functional>
#include <new>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace simpler {
namespace {

constexpr Nanos kWatchdog = 20 * kSecond;

// Who pays for the order of post and announcement.
enum class Payer {
  kSleeper,  // membarrier at every sleep
  kPoster,   // a fence at every post, from the first sleep on; no membarrier at all
  kBanned,   // a fence at every post, as long as the sleeper is under a ban
  kTurns,    // the last and the first in turn, so that the mark comes and goes
  kNobody,   // membarrier that passes by everybody: posts are missed and found at the second look
  kProven,   // a fence at every post, and no second look from the first sleep on
};

// Of a process whose bad yields ban for good, however much room the machine has.
WakeOptions banned_for_good() {
  return {.first_ban = 3600 * kSecond, .longest_ban = 3600 * kSecond, .cpu_room = [] { return CpuRoom{}; }};
}
void ban(WakePolicy& policy) {
  EXPECT_FALSE(policy.note_yield(monotonic_now(), kSecond));
  EXPECT_TRUE(policy.banned(monotonic_now()));
}

WakeOptions sleep_at_once(Payer payer = Payer::kSleeper) {
  WakeOptions options = banned_for_good();
  options.spin = 0;
  options.yield = 0;
  options.runnable_threads = 1000;
  options.use_membarrier = payer != Payer::kPoster && payer != Payer::kProven;
  if (payer == Payer::kNobody) options.barrier = [] { return true; };
  return options;
}

// The policies of a waiter, by turns.
class Policies {
 public:
  explicit Policies(Payer payer) : even_(sleep_at_once(payer)), odd_(sleep_at_once(payer)) {
    if (payer == Payer::kBanned || payer == Payer::kTurns) ban(odd_);
    if (payer == Payer::kBanned) ban(even_);
  }
  WakePolicy& of(uint32_t round) { return round % 2 == 0 ? even_ : odd_; }

 private:
  WakePolicy even_;
  WakePolicy odd_;
};

struct Channel {
  WakeWord word;
  alignas(128) std::atomic<uint32_t> number{0};  // release by the poster, acquire by the waiter

  void post(uint32_t value) {
    number.store(value, std::memory_order_release);
    wake(word);
  }
  // A sleeper that nobody woke finds its post at the watchdog: that is too late, not a success.
  bool await(WakePolicy& policy, uint32_t value) {
    const Nanos started = monotonic_now();
    return wait(word, policy, Deadline::after(kWatchdog),
                [&] { return number.load(std::memory_order_acquire) >= value; }) &&
           monotonic_now() - started < kWatchdog / 2;
  }
};

// On a word whose mark has stood for long, if that is what the mode is about.
void prepare(Payer payer, Channel& channel) {
  if (payer == Payer::kProven) channel.word.value = WakeWord::kPosterFence | WakeWord::kProven;
}

// Answers on `there` each number that arrives on `here`.
bool echo(Channel& here, Channel& there, Policies& policies, uint32_t rounds) {
  for (uint32_t round = 1; round <= rounds; ++round) {
    if (!here.await(policies.of(round), round)) return false;
    there.post(round);
  }
  return true;
}

bool call(Channel& there, Channel& here, Policies& policies, uint32_t rounds) {
  for (uint32_t round = 1; round <= rounds; ++round) {
    there.post(round);
    if (!here.await(policies.of(round), round)) return false;
  }
  return true;
}

class WakeWordModes : public testing::TestWithParam<Payer> {};

std::string name_of_mode(const testing::TestParamInfo<Payer>& mode) {
  switch (mode.param) {
    case Payer::kSleeper:
      return "WithMembarrier";
    case Payer::kPoster:
      return "WithPosterFence";
    case Payer::kBanned:
      return "UnderABan";
    case Payer::kTurns:
      return "UnderABanByTurns";
    case Payer::kNobody:
      return "WithABarrierThatReachesNobody";
    case Payer::kProven:
      return "OnAProvenWord";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(, WakeWordModes,
                         testing::Values(Payer::kSleeper, Payer::kPoster, Payer::kBanned, Payer::kTurns, Payer::kNobody,
                                         Payer::kProven),
                         name_of_mode);

TEST(WakeWord, ZeroBytesAreAValidWord) {
  alignas(WakeWord) std::array<std::byte, sizeof(WakeWord)> bytes{};
  auto* word = std::launder(reinterpret_cast<WakeWord*>(bytes.data()));
  WakePolicy policy(sleep_at_once());
  EXPECT_FALSE(wait(*word, policy, Deadline::after(kMillisecond), [] { return false; }));
  EXPECT_TRUE(wait(*word, policy, Deadline::never(), [] { return true; }));
}

TEST(WakeWord, AWaitEndsAtItsDeadlineAndNotBefore) {
  WakeWord word;
  WakePolicy policy;
  const Nanos started = monotonic_now();
  EXPECT_FALSE(wait(word, policy, Deadline::after(30 * kMillisecond), [] { return false; }));
  EXPECT_GE(monotonic_now() - started, 30 * kMillisecond);
}

TEST(WakeWord, AWakeWithoutASleeperLeavesTheWordUntouched) {
  WakeWord word;
  wake(word);
  EXPECT_EQ(word.value.load(), 0U);
}

TEST(WakeWord, ASleeperWhoseWordWasPostedAfterItsAnnouncementDoesNotSleep) {
  WakeWord word;
  WakePolicy policy(sleep_at_once());
  const uint32_t announced = internal::announce_sleep(word, policy);
  wake(word);
  EXPECT_NE(word.value.load(), announced);
  EXPECT_EQ(internal::sleep_on(word, announced, Deadline::after(kWatchdog)), internal::Nap::kAgain);
}

TEST(WakeWord, OneWakeServesEverySleeperThatAnnouncedItself) {
  WakeWord word;
  std::atomic<bool> go{false};
  std::atomic<int> woken{0};
  WakePolicy policy(sleep_at_once());
  std::vector<std::thread> sleepers;
  for (int i = 0; i < 4; ++i) {
    sleepers.emplace_back([&] {
      if (wait(word, policy, Deadline::after(kWatchdog), [&] { return go.load(std::memory_order_acquire); })) ++woken;
    });
  }
  go.store(true, std::memory_order_release);
  wake(word);
  for (auto& sleeper : sleepers) sleeper.join();
  EXPECT_EQ(woken.load(), 4);
}

TEST_P(WakeWordModes, NoWakeIsLostBetweenThreadsThatSleepAtOnce) {
  Channel there;
  Channel here;
  prepare(GetParam(), there);
  prepare(GetParam(), here);
  Policies policies(GetParam());
  bool served = false;
  constexpr uint32_t kRounds = 8'000;
  std::thread server([&] { served = echo(there, here, policies, kRounds); });
  EXPECT_TRUE(call(there, here, policies, kRounds));
  server.join();
  EXPECT_TRUE(served);
}

// The store-load race itself: both sides start together, round after round, and afterwards either the sleeper saw the
// post or the poster saw the sleeper. Nothing sleeps, so nearly every round is a close meeting.
class WakeWordFences : public WakeWordModes {};

INSTANTIATE_TEST_SUITE_P(, WakeWordFences,
                         testing::Values(Payer::kSleeper, Payer::kPoster, Payer::kBanned, Payer::kTurns), name_of_mode);

// The kernel's barriers pass by a CPU on which this process ran before it registered, until another process has run
// there (base/membarrier.h): one does on every CPU. Every later thread of ours is reached.
void let_another_process_run_everywhere() {
  const pid_t child = ::fork();
  if (child == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      ::sched_setaffinity(0, sizeof one, &one);  // fails for a CPU that there is not
    }
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
}

TEST_P(WakeWordFences, EitherTheSleeperSeesThePostOrThePosterSeesTheSleeper) {
  constexpr uint32_t kRounds = 30'000;
  const Deadline enough = Deadline::after(kSecond);  // a loaded machine makes do with fewer meetings
  std::atomic<bool> stop{false};
  Policies policies(GetParam());
  let_another_process_run_everywhere();
  WakeWord word;
  // The mark that makes posters fence is there before the first meeting where no barrier can settle it.
  if (GetParam() == Payer::kPoster) internal::announce_sleep(word, policies.of(0));
  alignas(128) std::atomic<uint32_t> posted{0};
  alignas(128) std::atomic<uint32_t> arrived{0};
  const auto meet = [&](uint32_t target) {
    arrived.fetch_add(1, std::memory_order_acq_rel);
    for (uint32_t spins = 0; arrived.load(std::memory_order_acquire) < target; ++spins) {
      if (spins % 1024 == 1023) std::this_thread::yield();
    }
  };
  std::thread poster([&] {
    for (uint32_t round = 1; !stop.load(std::memory_order_relaxed); ++round) {
      meet(4 * round - 2);
      posted.store(round, std::memory_order_release);
      wake(word);
      meet(4 * round);
    }
  });
  uint32_t lost = 0;
  for (uint32_t round = 1; !stop.load(std::memory_order_relaxed); ++round) {
    word.value.fetch_and(~WakeWord::kSleeper, std::memory_order_relaxed);
    meet(4 * round - 2);
    internal::announce_sleep(word, policies.of(round));
    const bool saw_post = posted.load(std::memory_order_acquire) == round;
    if (round == kRounds || enough.expired()) stop = true;
    meet(4 * round);
    const bool poster_saw_sleeper = (word.value.load(std::memory_order_relaxed) & WakeWord::kSleeper) == 0;
    if (!saw_post && !poster_saw_sleeper) ++lost;
  }
  poster.join();
  EXPECT_EQ(lost, 0U);
}

TEST_P(WakeWordModes, NoWakeIsLostBetweenProcessesThatSleepAtOnce) {
  struct Shared {
    Channel there;
    Channel here;
  };
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* shared = new (memory) Shared;
  prepare(GetParam(), shared->there);
  prepare(GetParam(), shared->here);
  constexpr uint32_t kRounds = 8'000;
  const pid_t child = ::fork();
  if (child == 0) {
    Policies policies(GetParam());
    ::_exit(echo(shared->there, shared->here, policies, kRounds) ? 0 : 1);
  }
  Policies policies(GetParam());
  EXPECT_TRUE(call(shared->there, shared->here, policies, kRounds));
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  ::munmap(memory, sizeof(Shared));
}

TEST(WakeWord, NoWakeIsLostWithAllThreePhasesAndManyPosters) {
  constexpr uint32_t kPosters = 3;
  constexpr uint32_t kEach = 3'000;
  WakeWord doorbell;
  Channel acknowledged;
  WakePolicy policy;
  std::atomic<uint32_t> posted{0};
  std::vector<std::thread> posters;
  for (uint32_t i = 0; i < kPosters; ++i) {
    posters.emplace_back([&] {
      for (uint32_t n = 0; n < kEach; ++n) {
        const uint32_t mine = posted.fetch_add(1, std::memory_order_release) + 1;
        wake(doorbell);
        EXPECT_TRUE(acknowledged.await(policy, mine));
      }
    });
  }
  uint32_t seen = 0;
  while (seen < kPosters * kEach) {
    const bool more = wait(doorbell, policy, Deadline::after(kWatchdog),
                           [&] { return posted.load(std::memory_order_acquire) > seen; });
    EXPECT_TRUE(more) << "stopped at " << seen;
    seen = posted.load(std::memory_order_acquire);
    acknowledged.post(seen);
  }
  for (auto& poster : posters) poster.join();
  EXPECT_EQ(seen, kPosters * kEach);
}

// What happens while a sleeper is inside its barrier, and how often one was there.
std::function<void()> inside_the_barrier;
int barriers = 0;

bool observed_barrier() {
  ++barriers;
  if (inside_the_barrier) std::exchange(inside_the_barrier, nullptr)();
  return membarrier_all_registered();
}

class SettlingWord : public testing::Test {
 protected:
  void SetUp() override {
    if (!banned.has_membarrier()) GTEST_SKIP() << "membarrier is refused here";
    barriers = 0;
    ban(banned);
  }
  void TearDown() override { inside_the_barrier = nullptr; }

  static WakeOptions options() {
    WakeOptions options = banned_for_good();
    options.barrier = observed_barrier;
    return options;
  }
  WakeWord word;
  WakePolicy banned{options()};
};

TEST_F(SettlingWord, WithoutABanEverySleeperSendsABarrier) {
  WakePolicy plain(options());
  barriers = 0;
  for (int sleep = 1; sleep <= 3; ++sleep) {
    internal::announce_sleep(word, plain);
    EXPECT_EQ(barriers, sleep);
    wake(word);
  }
}

// The post of a poster that saw no sleeper and whose store arrives late: nothing will wake the sleeper.
TEST(WakeWord, APostThatTheBarrierPassedByIsFoundAtTheSecondLook) {
  WakeWord word;
  WakePolicy policy(sleep_at_once());
  int looks = 0;
  const Nanos started = monotonic_now();
  EXPECT_TRUE(wait(word, policy, Deadline::after(kWatchdog), [&] { return ++looks == 3; }));
  EXPECT_GE(monotonic_now() - started, internal::kSecondLook);
  EXPECT_LT(monotonic_now() - started, kWatchdog);
}

TEST(WakeWord, ASleeperLooksTwiceAndThenSleepsUntilItsDeadline) {
  WakeWord word;
  WakePolicy policy(sleep_at_once());
  int looks = 0;
  EXPECT_FALSE(wait(word, policy, Deadline::after(15 * internal::kSecondLook), [&] { return ++looks > 100; }));
  // Before the wait, after the announcement, the second look, at the deadline; a signal may add one.
  EXPECT_LE(looks, 6);
}

// A sleeper that has looked for the second time is woken by the post and by nothing else.
TEST_P(WakeWordModes, ASleeperIsWokenAfterItsSecondLook) {
  Policies policies(GetParam());
  for (uint32_t round = 0; round < 4; ++round) {
    WakeWord word;
    std::atomic<int> looks{0};
    std::atomic<bool> posted{false};
    Nanos slept = 0;
    std::thread sleeper([&] {
      const Nanos started = monotonic_now();
      EXPECT_TRUE(wait(word, policies.of(round), Deadline::after(kWatchdog), [&] {
        ++looks;
        return posted.load(std::memory_order_acquire);
      }));
      slept = monotonic_now() - started;
    });
    while (looks.load() < 3) std::this_thread::yield();
    posted.store(true, std::memory_order_release);
    wake(word);
    sleeper.join();
    EXPECT_LT(slept, kWatchdog / 2) << round;
  }
}

TEST_F(SettlingWord, OneBarrierIsEnoughForAllSleepers) {
  for (int sleep = 0; sleep < 5; ++sleep) {
    internal::announce_sleep(word, banned);
    wake(word);
  }
  EXPECT_EQ(barriers, 1);
}

// A post that wakes whoever announced itself but is not what this sleeper waits for.
TEST_F(SettlingWord, ASleeperWhoseAnnouncementIsTakenInItsBarrierDoesNotSleep) {
  inside_the_barrier = [this] { wake(word); };
  const uint32_t announced = internal::announce_sleep(word, banned);
  EXPECT_NE(announced & WakeWord::kSleeper, 0U);
  EXPECT_EQ(internal::sleep_on(word, announced, Deadline::after(kWatchdog)), internal::Nap::kAgain);
}

TEST_F(SettlingWord, NeitherDoesOneWhomAnotherSleeperOvertook) {
  inside_the_barrier = [this] {
    internal::announce_sleep(word, banned);  // this one settles the word
    wake(word);
  };
  const uint32_t announced = internal::announce_sleep(word, banned);
  EXPECT_EQ(internal::sleep_on(word, announced, Deadline::after(kWatchdog)), internal::Nap::kAgain);
}

TEST_F(SettlingWord, NeitherDoesOneWhoseMarkWasTakenAway) {
  WakePolicy plain;
  inside_the_barrier = [&] {
    internal::announce_sleep(word, plain);
    wake(word);
  };
  const uint32_t announced = internal::announce_sleep(word, banned);
  EXPECT_EQ(internal::sleep_on(word, announced, Deadline::after(kWatchdog)), internal::Nap::kAgain);
  EXPECT_EQ(word.value.load() & WakeWord::kSettled, 0U);
}

TEST_F(SettlingWord, AMarkThatWasSetAnewInTheBarrierIsNotSettledByIt) {
  WakePolicy plain;
  WakePolicy without({.use_membarrier = false});
  inside_the_barrier = [&] {
    internal::announce_sleep(word, plain);    // takes the mark away
    internal::announce_sleep(word, without);  // sets it again: posters of before know nothing of it
  };
  internal::announce_sleep(word, banned);
  EXPECT_EQ(word.value.load() & (WakeWord::kPosterFence | WakeWord::kSettled), WakeWord::kPosterFence);
}

// Settles the word long ago, as far as its sleepers can tell.
uint32_t announce_on_a_word_settled_long_ago(WakeWord& word, const WakePolicy& banned) {
  internal::announce_sleep(word, banned);
  wake(word);
  word.settled_at = monotonic_now() - internal::kSecondLook;
  return internal::announce_sleep(word, banned);
}

TEST_F(SettlingWord, AWordIsProvenOnceItHasBeenSettledLongEnough) {
  const Nanos before = monotonic_now();
  uint32_t announced = internal::announce_sleep(word, banned);
  EXPECT_GE(word.settled_at.load(), before);
  EXPECT_LE(word.settled_at.load(), monotonic_now());
  word.settled_at = monotonic_now() + 3600 * kSecond;
  EXPECT_FALSE(internal::prove_by_age(word, announced));
  EXPECT_EQ(word.value.load() & WakeWord::kProven, 0U);
  wake(word);
  announced = announce_on_a_word_settled_long_ago(word, banned);
  EXPECT_TRUE(internal::prove_by_age(word, announced));
  EXPECT_NE(word.value.load() & WakeWord::kProven, 0U);
  EXPECT_EQ(word.value.load(), announced) << "otherwise the futex refuses it";
}

TEST_F(SettlingWord, ASleeperOnAProvenWordLooksOnce) {
  announce_on_a_word_settled_long_ago(word, banned);
  int fewest = 100;
  for (int attempt = 0; attempt < 5; ++attempt) {  // a signal adds a look
    int looks = 0;
    EXPECT_FALSE(wait(word, banned, Deadline::after(3 * internal::kSecondLook), [&] { return ++looks > 100; }));
    fewest = std::min(fewest, looks);
    if (fewest == 3) break;
  }
  EXPECT_EQ(fewest, 3) << "before the wait, after the announcement, at the deadline";
}

TEST_F(SettlingWord, AMarkThatIsSetAnewIsNotProvenByTheOldOne) {
  uint32_t announced = announce_on_a_word_settled_long_ago(word, banned);
  ASSERT_TRUE(internal::prove_by_age(word, announced));
  WakePolicy plain;
  internal::announce_sleep(word, plain);
  EXPECT_EQ(word.value.load() & (WakeWord::kSettled | WakeWord::kProven), 0U);
  const Nanos before = monotonic_now();
  announced = internal::announce_sleep(word, banned);
  EXPECT_EQ(announced & (WakeWord::kSettled | WakeWord::kProven), WakeWord::kSettled);
  EXPECT_GE(word.settled_at.load(), before);
}

TEST_F(SettlingWord, AWaitThatEndsEarlyTakesTheMarkAwayWhenNobodyNeedsIt) {
  WakePolicy plain;
  WakePolicy without({.use_membarrier = false});
  const uint32_t announced = internal::announce_sleep(word, banned);
  note_early_end(word, banned);
  note_early_end(word, without);
  EXPECT_EQ(word.value.load(), announced) << "the ban lasts; there is no barrier to do without the mark";
  note_early_end(word, plain);
  EXPECT_EQ(word.value.load(), WakeWord::kSleeper + WakeWord::kStep) << "whoever sleeps is still to be woken";
  note_early_end(word, plain);
  EXPECT_EQ(word.value.load(), WakeWord::kSleeper + WakeWord::kStep);
}

TEST_F(SettlingWord, AWaitWithSpinsOrYieldsTakesItAway) {
  for (const Nanos spin : {Nanos{0}, kSecond}) {
    WakePolicy plain({.spin = spin, .yield = 20 * kSecond, .bad_yield = 20 * kSecond});
    internal::announce_sleep(word, banned);
    int looks = 0;
    EXPECT_TRUE(wait(word, plain, Deadline::after(kWatchdog), [&] { return ++looks > 2; }));
    EXPECT_EQ(word.value.load() & WakeWord::kPosterFence, 0U) << spin;
  }
}

// Two sleepers may settle a word in any order; the later time counts.
TEST_F(SettlingWord, TheTimeOfSettlingIsOnlyRaised) {
  const Nanos later = monotonic_now() + 3600 * kSecond;
  word.settled_at = later;
  internal::announce_sleep(word, banned);
  EXPECT_EQ(word.settled_at.load(), later);
}

TEST_F(SettlingWord, OnlyAnAnnouncementThatStillStandsProvesItsWord) {
  WakePolicy without({.use_membarrier = false});
  uint32_t announced = internal::announce_sleep(word, without);
  WakePolicy plain;
  internal::announce_sleep(word, plain);    // takes the mark away
  internal::announce_sleep(word, without);  // sets it again
  EXPECT_EQ(internal::prove_by_sleep(word, announced), announced);
  EXPECT_EQ(word.value.load() & WakeWord::kProven, 0U);
  announced = internal::announce_sleep(word, plain);
  EXPECT_EQ(internal::prove_by_sleep(word, announced), announced) << "there is no mark to prove";
  EXPECT_EQ(word.value.load() & WakeWord::kProven, 0U);
}

TEST(WakeWord, WithoutMembarrierALongSleepProvesItsWord) {
  WakeWord word;
  WakePolicy policy(sleep_at_once(Payer::kPoster));
  // The look after the second one comes at the deadline, or after a post: to see it the sleeper must have slept on.
  std::atomic<int> looks{0};
  std::atomic<bool> posted{false};
  std::thread sleeper([&] {
    EXPECT_TRUE(wait(word, policy, Deadline::after(kWatchdog), [&] {
      ++looks;
      return posted.load(std::memory_order_acquire);
    }));
  });
  while ((word.value.load() & WakeWord::kProven) == 0 && looks.load() < 100) std::this_thread::yield();
  EXPECT_NE(word.value.load() & WakeWord::kProven, 0U);
  posted.store(true, std::memory_order_release);
  wake(word);
  sleeper.join();
  uint32_t announced = internal::announce_sleep(word, policy);
  EXPECT_TRUE(internal::prove_by_age(word, announced));
}

TEST(WakeWord, UnderABanOneBarrierSettlesTheWordAndAfterItTheMarkGoes) {
  WakeWord word;
  WakePolicy policy(banned_for_good());
  if (!policy.has_membarrier()) GTEST_SKIP() << "membarrier is refused here";
  constexpr uint32_t kSettled = WakeWord::kSleeper | WakeWord::kPosterFence | WakeWord::kSettled;
  EXPECT_EQ(internal::announce_sleep(word, policy), WakeWord::kSleeper);
  ban(policy);
  EXPECT_EQ(internal::announce_sleep(word, policy), kSettled);
  wake(word);
  EXPECT_EQ(word.value.load(), (kSettled + WakeWord::kStep) & ~WakeWord::kSleeper);
  WakePolicy unbanned;
  EXPECT_EQ(internal::announce_sleep(word, unbanned), WakeWord::kSleeper + 2 * WakeWord::kStep);
}

TEST(WakePolicy, RefusedMembarrierMeansThatPostersFence) {
  WakePolicy policy({.use_membarrier = false});
  WakeWord word;
  EXPECT_FALSE(policy.has_membarrier());
  EXPECT_FALSE(wait(word, policy, Deadline::after(kMillisecond), [] { return false; }));
  EXPECT_NE(word.value.load() & WakeWord::kPosterFence, 0U);
}

}  // namespace
}  // namespace simpler
