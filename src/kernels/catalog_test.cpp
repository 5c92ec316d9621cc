#include "kernels/catalog.h"

#include <algorithm>
#include <filesystem>
#include <stdlib.h>

#include <gtest/gtest.h>

namespace simpler::kernels {
namespace {

TEST(Catalog, EveryModuleHasExactlyTheListedKernels) {
  size_t opened = 0;
  for (const InstructionSet isa : built_instruction_sets()) {
    if (!is_supported(isa) || !find_module(isa, "").ok()) continue;
    const auto catalog = Catalog::open({isa, ""});
    ASSERT_TRUE(catalog.ok()) << catalog.status().message();
    ++opened;
    EXPECT_EQ((*catalog)->instruction_set(), isa);
    const auto entries = (*catalog)->entries();
    const auto list = kernel_list();
    ASSERT_EQ(entries.size(), list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      EXPECT_EQ(entries[i].name, list[i].name);
      EXPECT_EQ(entries[i].version, list[i].version);
      EXPECT_EQ(entries[i].core_type, list[i].core_type) << list[i].name;
      EXPECT_NE(entries[i].entry, nullptr);
    }
  }
  EXPECT_GT(opened, 0U);
}

TEST(Catalog, TheListIsSortedAndInputsComeBeforeOutputs) {
  const auto list = kernel_list();
  EXPECT_TRUE(std::is_sorted(list.begin(), list.end(),
                             [](const KernelSpec& a, const KernelSpec& b) { return a.name < b.name; }));
  for (const KernelSpec& spec : list) {
    EXPECT_FALSE(spec.summary.empty()) << spec.name;
    EXPECT_TRUE(std::is_sorted(spec.tensors.begin(), spec.tensors.end(), [](const TensorSpec& a, const TensorSpec& b) {
      return a.direction < b.direction;
    })) << spec.name;
    EXPECT_EQ(spec.tensors.back().direction, Direction::kOut) << spec.name;
  }
}

TEST(Catalog, KernelsAreFoundByNameAndVersionAndAMissingOneIsExplained) {
  const auto catalog = Catalog::open();
  ASSERT_TRUE(catalog.ok()) << catalog.status().message();
  EXPECT_STREQ((*(*catalog)->require("matmul"))->name, "matmul");
  EXPECT_EQ((*catalog)->find("matmul and more", 6, 1), (*catalog)->find("matmul", 6, 0));
  EXPECT_EQ((*catalog)->find("matmul", 6, 2), nullptr);
  EXPECT_EQ((*catalog)->require("matmul", 2).status().message(), "kernel 'matmul' has no version 2; there are: 1");
  EXPECT_EQ((*catalog)->require("matmull").status().message(),
            "no ready-made kernel is called 'matmull'; did you mean 'matmul'?");
  const Status unknown = (*catalog)->require("convolution").status();
  EXPECT_NE(unknown.message().find("there are add, add_layernorm, attention"), std::string_view::npos);
}

TEST(Catalog, TheEnvironmentChoosesTheInstructionSetAndAWrongNameIsExplained) {
  Environment environment;
  EXPECT_FALSE(catalog_options(environment)->instruction_set.has_value());
  environment.set(Variable::kKernelIsa, "v3");
  EXPECT_EQ(catalog_options(environment)->instruction_set, InstructionSet::kX86V3);
  environment.set(Variable::kKernelIsa, "avx");
  EXPECT_EQ(catalog_options(environment).status().message(),
            "environment variable SIMPLER_KERNEL_ISA: instruction set 'avx' is not one of v2, v3, v4, generic");
}

TEST(Catalog, AFolderWithoutModulesIsNamed) {
  const auto catalog = Catalog::open({std::nullopt, "/nonexistent"});
  ASSERT_FALSE(catalog.ok());
  EXPECT_EQ(catalog.status().code(), StatusCode::kNotFound);
  EXPECT_NE(catalog.status().message().find("is in none of: /nonexistent"), std::string_view::npos);
}

TEST(Catalog, WithoutAWishTheBestModuleThatIsInstalledIsTaken) {
  const InstructionSet lowest = built_instruction_sets().back();
  const auto module = find_module(lowest, "");
  ASSERT_TRUE(module.ok()) << module.status().message();
  std::string folder = testing::TempDir() + "modules_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::filesystem::copy(*module, folder);
  const auto catalog = Catalog::open({std::nullopt, folder});
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(catalog.ok()) << catalog.status().message();
  EXPECT_EQ((*catalog)->instruction_set(), lowest);
  EXPECT_EQ((*catalog)->path().rfind(folder, 0), 0U);
}

TEST(Catalog, ArgumentsAreCheckedForCountDirectionTypeAndRank) {
  const KernelSpec& spec = **find_kernel("gather");
  const GivenTensor table{true, false, 0, 2}, ids{true, false, 2, 2}, out{false, true, 0, 3};
  const auto text = [&](std::vector<GivenTensor> tensors, uint32_t scalars = 0) {
    return std::string(check_arguments(spec, tensors, scalars).message());
  };
  EXPECT_EQ(text({table, ids, out}), "");
  EXPECT_EQ(text({table, ids}), "gather: got 2 tensors and 0 scalars, the call is gather(table in, ids in, out out)");
  EXPECT_EQ(text({table, ids, out}, 1),
            "gather: got 3 tensors and 1 scalars, the call is gather(table in, ids in, out out)");
  EXPECT_EQ(text({table, ids, {true, false, 0, 3}}), "gather: argument 2 (out) must be passed as an output");
  EXPECT_EQ(text({{false, true, 0, 2}, ids, out}), "gather: argument 0 (table) must be passed as an input");
  EXPECT_EQ(text({table, {true, false, 7, 2}, out}), "gather: argument 1 (ids) is INT64, must be INT32");
  EXPECT_EQ(text({{true, false, 0, 3}, ids, out}), "gather: argument 0 (table) has rank 3, must be 2");
}

TEST(InstructionSet, TheBestOneIsBuiltSupportedAndNothingBetterIs) {
  const auto best = best_instruction_set();
  ASSERT_TRUE(best.ok()) << best.status().message();
  for (const InstructionSet isa : built_instruction_sets()) {
    if (isa == *best) break;
    EXPECT_FALSE(is_supported(isa)) << name_of(isa);
  }
}

TEST(InstructionSet, NamesGoBothWays) {
  for (const InstructionSet isa :
       {InstructionSet::kGeneric, InstructionSet::kX86V2, InstructionSet::kX86V3, InstructionSet::kX86V4}) {
    EXPECT_EQ(*parse_instruction_set(name_of(isa)), isa);
  }
}

}  // namespace
}  // namespace simpler::kernels
