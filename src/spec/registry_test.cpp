#include "spec/registry.h"

#include <set>

#include <gtest/gtest.h>

namespace simpler::spec {
namespace {

TEST(Spec, EveryGenerationIsConsistentAndFoundByItsName) {
  std::set<std::string_view> names;
  for (const ChipSpec* chip : chips()) {
    EXPECT_TRUE(is_consistent(*chip)) << chip->name;
    EXPECT_TRUE(names.insert(chip->name).second) << chip->name;
    EXPECT_EQ(find_chip(chip->name), chip);
  }
  EXPECT_EQ(find_chip("nothing"), nullptr);
}

TEST(Spec, TheDocumentedGenerationsHaveTheDocumentedNumbers) {
  const ChipSpec* a = find_chip("a2a3");
  const ChipSpec* b = find_chip("a5");
  ASSERT_NE(a, nullptr);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(a->topology.clusters, 24u);
  EXPECT_EQ(a->topology.cores, 72u);
  EXPECT_EQ(a->control.active_default, 4u);
  EXPECT_EQ(a->counter_hz, 50'000'000u);
  EXPECT_EQ(a->dispatch_register, 0xA0u);
  EXPECT_EQ(b->topology.clusters, 36u);
  EXPECT_EQ(b->topology.cores, 108u);
  EXPECT_EQ(b->control.active_default, 5u);
  EXPECT_EQ(b->counter_hz, 1'000'000'000u);
  EXPECT_EQ(b->dispatch_register, 0xD0u);
}

TEST(Spec, EveryPlatformNamesAGenerationAndFitsIntoIt) {
  for (const Platform& platform : platforms()) {
    ASSERT_NE(platform.chip, nullptr);
    EXPECT_EQ(find_platform(platform.name), &platform);
    EXPECT_GE(platform.default_clusters, 1u);
    EXPECT_LE(platform.default_clusters, platform.chip->topology.clusters);
    EXPECT_NE(platform_names().find(platform.name), std::string::npos);
  }
  EXPECT_EQ(find_platform("a2a3sim")->default_clusters, 8u);
  EXPECT_EQ(find_platform("a2a3"), nullptr) << "the generation itself needs silicon, which nothing here drives";
}

TEST(Spec, InconsistentNumbersAreNoticed) {
  ChipSpec bad = *find_chip("tiny");
  bad.topology.cores += 1;
  EXPECT_FALSE(is_consistent(bad));
  bad = *find_chip("tiny");
  bad.graph.task_window = 6;
  EXPECT_FALSE(is_consistent(bad));
}

}  // namespace
}  // namespace simpler::spec
