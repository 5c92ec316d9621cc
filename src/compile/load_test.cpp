#include "compile/load.h"

#include <fstream>
#include <iterator>
#include <vector>

#include <gtest/gtest.h>

#include "compile/depfile.h"

namespace simpler::compile {
namespace {

std::vector<uint8_t> own_program() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(LoadedObject, BytesThatAreNoObjectAreRefusedByName) {
  const std::vector<uint8_t> bytes = {1, 2, 3, 4};
  const auto result = LoadedObject::load(bytes, "noise");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().message().rfind("'noise' cannot be loaded: ", 0), 0U) << result.status().message();
}

TEST(ExportsSymbol, TruncatedObjectsNeverReadBehindTheirEnd) {
  const std::vector<uint8_t> whole = own_program();
  for (size_t size = 0; size < 2000; size += 7) {
    const std::vector<uint8_t> part(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(exports_function(part, "kernel_entry"));
  }
  EXPECT_FALSE(exports_function(whole, "a_symbol_that_does_not_exist"));
}

TEST(Depfile, SpacesDollarsHashesAndContinuedLinesAreUnderstood) {
  const auto files = parse_depfile("object: /a/b.cpp \\\n /with\\ space/x.h /d$$r/y.h \\\n  /h\\#sh/z.h\n/other: q\n");
  const std::vector<std::string> expected = {"/a/b.cpp", "/with space/x.h", "/d$r/y.h", "/h#sh/z.h"};
  EXPECT_EQ(files, expected);
}

TEST(Depfile, AnEmptyRuleHasNoFiles) {
  EXPECT_TRUE(parse_depfile("").empty());
  EXPECT_TRUE(parse_depfile("object:\n").empty());
}

}  // namespace
}  // namespace simpler::compile
