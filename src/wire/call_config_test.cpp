#include "simpler/call_config.h"

#include <gtest/gtest.h>

#include "base/seeded_random.h"
#include "base/sha256.h"
#include "wire/golden_test.h"

namespace simpler {
namespace {

CallConfig example() {
  CallConfig c;
  c.aicpu_thread_num = 2;
  c.enable_chip_swimlane = 4;
  c.enable_dump_args = 1;
  c.enable_pmu = 7;
  c.enable_dep_gen = 1;
  c.enable_scope_stats = 1;
  c.runtime_env.ring_task_window = {4, 8, 16, 32};
  c.runtime_env.ring_heap = {1024, 2048, 0, uint64_t{1} << 33};
  c.runtime_env.ring_dep_pool = {4, 5, 6, 7};
  EXPECT_TRUE(set_output_prefix(c, "/tmp/out").is_ok());
  return c;
}

TEST(CallConfig, BytesEqualTheGoldenVector) {
  const CallConfig c = example();
  EXPECT_EQ(wire::golden::hex_of(&c, 120), wire::golden::kConfigHead);
  EXPECT_EQ(to_hex(sha256(std::as_bytes(std::span(&c, 1)))), wire::golden::kConfigDigest);
  EXPECT_TRUE(validate(c).is_ok());
  EXPECT_EQ(output_prefix(c), "/tmp/out");
}

TEST(CallConfig, ADefaultOneIsValidAndAsksForNothing) {
  EXPECT_TRUE(validate(CallConfig{}).is_ok());
  EXPECT_FALSE(wants_diagnostics(CallConfig{}));
}

TEST(CallConfig, EachFieldThatIsWrongIsRefused) {
  const auto accepts = [](auto&& change) {
    CallConfig c = example();
    change(c);
    return validate(c).is_ok();
  };
  for (const int threads : {-1, 1}) EXPECT_FALSE(accepts([&](CallConfig& c) { c.aicpu_thread_num = threads; }));
  for (const int threads : {0, 2, 3, 1000}) EXPECT_TRUE(accepts([&](CallConfig& c) { c.aicpu_thread_num = threads; }));
  for (const int level : {-1, 5}) EXPECT_FALSE(accepts([&](CallConfig& c) { c.enable_chip_swimlane = level; }));
  for (const int level : {-1, 4}) EXPECT_FALSE(accepts([&](CallConfig& c) { c.enable_dump_args = level; }));
  EXPECT_FALSE(accepts([](CallConfig& c) { c.enable_pmu = -1; }));
  for (uint32_t ring = 0; ring < kRuntimeEnvRings; ++ring) {
    for (const uint64_t window : {1ULL, 2ULL, 5ULL, 12ULL, 1ULL << 31, 1ULL << 63}) {
      EXPECT_FALSE(accepts([&](CallConfig& c) { c.runtime_env.ring_task_window[ring] = window; })) << window;
    }
    for (const uint64_t window : {0ULL, 4ULL, 1ULL << 30}) {
      EXPECT_TRUE(accepts([&](CallConfig& c) { c.runtime_env.ring_task_window[ring] = window; })) << window;
    }
    for (const uint64_t heap : {1ULL, 1023ULL}) {
      EXPECT_FALSE(accepts([&](CallConfig& c) { c.runtime_env.ring_heap[ring] = heap; })) << heap;
    }
    EXPECT_TRUE(accepts([&](CallConfig& c) { c.runtime_env.ring_heap[ring] = UINT64_MAX; }));
    for (const uint64_t pool : {1ULL, 3ULL, 1ULL << 31}) {
      EXPECT_FALSE(accepts([&](CallConfig& c) { c.runtime_env.ring_dep_pool[ring] = pool; })) << pool;
    }
    EXPECT_TRUE(accepts([&](CallConfig& c) { c.runtime_env.ring_dep_pool[ring] = 2147483647; }));
  }
  EXPECT_FALSE(accepts([](CallConfig& c) { c.output_prefix.fill('x'); }));    // no terminator
  EXPECT_FALSE(accepts([](CallConfig& c) { c.output_prefix[1023] = 'x'; }));  // something after it
}

TEST(CallConfig, EachDiagnosticNeedsAPrefix) {
  for (int field = 0; field < 5; ++field) {
    CallConfig c;
    int32_t* flags[] = {&c.enable_chip_swimlane, &c.enable_dump_args, &c.enable_pmu, &c.enable_dep_gen,
                        &c.enable_scope_stats};
    *flags[field] = 1;
    EXPECT_FALSE(validate(c).is_ok()) << field;
    EXPECT_TRUE(set_output_prefix(c, "d").is_ok());
    EXPECT_TRUE(validate(c).is_ok()) << field;
  }
}

TEST(CallConfig, PrefixesThatDoNotFitAreRefused) {
  CallConfig c;
  EXPECT_TRUE(set_output_prefix(c, std::string(1023, 'p')).is_ok());
  EXPECT_EQ(output_prefix(c).size(), 1023u);
  EXPECT_FALSE(set_output_prefix(c, std::string(1024, 'p')).is_ok());
  EXPECT_FALSE(set_output_prefix(c, std::string_view("a\0b", 3)).is_ok());
  EXPECT_EQ(output_prefix(c).size(), 1023u);
}

TEST(CallConfig, RandomBytesAreJudgedWithoutHarm) {
  SeededRandom random(3);
  for (int round = 0; round < 20000; ++round) {
    CallConfig c = example();
    for (int i = 0; i < 4; ++i) {
      reinterpret_cast<uint8_t*>(&c)[random.below(sizeof c)] = static_cast<uint8_t>(random.next());
    }
    EXPECT_TRUE(!validate(c).is_ok() || output_prefix(c).size() < kOutputPrefixBytes);
  }
}

}  // namespace
}  // namespace simpler
