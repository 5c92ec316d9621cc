#include "kernels/kernel_check.h"

namespace simpler::kernels {
namespace {

class ElementwiseTest : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Isa, ElementwiseTest,
                         testing::ValuesIn(built_instruction_sets().begin(), built_instruction_sets().end()), isa_name);

TEST_P(ElementwiseTest, AddAndMultiplyAreExactForEverySizeAndRank) {
  for (const Shape& shape :
       {Shape{1}, Shape{15}, Shape{16}, Shape{17}, Shape{3000}, Shape{3, 33}, Shape{2, 3, 4, 5, 6}}) {
    const Value a = Value::random(shape, 1), b = Value::random(shape, 2);
    const auto sum = run_every_way({"add", {a, b}, {Value::blank(shape)}, {}});
    const auto product = run_every_way({"multiply", {a, b}, {Value::blank(shape)}, {}});
    for (size_t i = 0; i < a.floats.size(); ++i) {
      ASSERT_EQ(sum[0].floats[i], a.floats[i] + b.floats[i]) << i;
      ASSERT_EQ(product[0].floats[i], a.floats[i] * b.floats[i]) << i;
    }
  }
}

TEST_P(ElementwiseTest, InputsBroadcastOverMissingAndSingleDimensions) {
  const Value a = Value::random({3, 1, 20}, 3), b = Value::random({4, 1}, 4), row = Value::random({20}, 5);
  const auto out = run_every_way({"add", {a, b}, {Value::blank({3, 4, 20})}, {}});
  for (size_t i = 0; i < out[0].floats.size(); ++i) {
    ASSERT_EQ(out[0].floats[i], a.floats[i / 80 * 20 + i % 20] + b.floats[i / 20 % 4]) << i;
  }
  const Value full = Value::random({6, 20}, 6);
  const auto scaled = run_every_way({"multiply", {full, row}, {Value::blank({6, 20})}, {}});
  for (size_t i = 0; i < 120; ++i) ASSERT_EQ(scaled[0].floats[i], full.floats[i] * row.floats[i % 20]) << i;
  EXPECT_EQ(refusal({"add", {full, Value::blank({19})}, {Value::blank({6, 20})}, {}}),
            "add: b has shape [19], which does not broadcast to [6, 20] of out");
}

TEST_P(ElementwiseTest, GeluReluAndTanhAgreeWithDoublePrecisionOverTheirRange) {
  Value x = Value::blank({4001});
  for (size_t i = 0; i < 4001; ++i) x.floats[i] = static_cast<float>(i) * 0.005F - 10.0F;
  const auto at = [&](size_t i) { return static_cast<double>(x.floats[i]); };
  check(
      {"gelu", {x}, {Value::blank({4001})}, {}},
      [&](size_t i) { return 0.5 * at(i) * std::erfc(-at(i) / std::sqrt(2.0)); }, 7e-7);
  check(
      {"tanh", {x}, {Value::blank({4001})}, {}}, [&](size_t i) { return std::tanh(at(i)); }, 3e-7,
      [&](size_t i) { return std::max(1e-3, std::fabs(std::tanh(at(i)))); });
  check(
      {"relu", {x}, {Value::blank({4001})}, {}}, [&](size_t i) { return std::max(0.0, at(i)); }, 0);
}

TEST_P(ElementwiseTest, SpecialNumbersGiveTheirLimits) {
  const Value x = Value::of({7}, {INFINITY, -INFINITY, NAN, 0.0F, -0.0F, 1e-30F, 3e38F});
  const auto gelu = run_every_way({"gelu", {x}, {Value::blank({7})}, {}})[0].floats;
  const auto tanh = run_every_way({"tanh", {x}, {Value::blank({7})}, {}})[0].floats;
  const auto relu = run_every_way({"relu", {x}, {Value::blank({7})}, {}})[0].floats;
  EXPECT_EQ(gelu[0], INFINITY);
  EXPECT_TRUE(std::isnan(gelu[2]) && std::isnan(tanh[2]) && std::isnan(relu[2]));
  EXPECT_EQ(gelu[6], 3e38F);
  EXPECT_NEAR(static_cast<double>(gelu[5]) / 0.5e-30, 1, 1e-6);
  EXPECT_EQ(tanh[0], 1.0F);
  EXPECT_EQ(tanh[1], -1.0F);
  EXPECT_NEAR(static_cast<double>(tanh[5]) / 1e-30, 1, 1e-6);
  EXPECT_EQ(relu[0], INFINITY);
  EXPECT_EQ(relu[1], 0.0F);
}

}  // namespace
}  // namespace simpler::kernels
