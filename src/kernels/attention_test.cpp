#include "kernels/kernel_check.h"

namespace simpler::kernels {
namespace {

class AttentionTest : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Isa, AttentionTest,
                         testing::ValuesIn(built_instruction_sets().begin(), built_instruction_sets().end()), isa_name);

struct Setting {
  uint32_t batch, length, heads, width;
};

// The whole result in double precision.
std::vector<double> attend(const Value& qkv, const Value& lengths, const Setting& s, double scale) {
  const size_t hidden = size_t{s.heads} * s.width;
  std::vector<double> out(size_t{s.batch} * s.length * hidden, 0.0);
  const auto at = [&](size_t item, size_t row, size_t part, size_t head, size_t j) {
    return static_cast<double>(qkv.floats[(item * s.length + row) * 3 * hidden + part * hidden + head * s.width + j]);
  };
  for (size_t item = 0; item < s.batch; ++item) {
    const auto valid = static_cast<size_t>(lengths.ints[item]);
    for (size_t head = 0; head < s.heads; ++head) {
      for (size_t i = 0; i < valid; ++i) {
        std::vector<double> weight(valid, 0.0);
        double top = -INFINITY, sum = 0;
        for (size_t k = 0; k < valid; ++k) {
          for (size_t j = 0; j < s.width; ++j) weight[k] += scale * at(item, i, 0, head, j) * at(item, k, 1, head, j);
          top = std::max(top, weight[k]);
        }
        for (double& w : weight) sum += w = std::exp(w - top);
        for (size_t j = 0; j < s.width; ++j) {
          for (size_t k = 0; k < valid; ++k) {
            out[(item * s.length + i) * hidden + head * s.width + j] += weight[k] / sum * at(item, k, 2, head, j);
          }
        }
      }
    }
  }
  return out;
}

TEST_P(AttentionTest, ManyShapesAndLengthsAgreeWithDoublePrecision) {
  for (const Setting& s : {Setting{1, 1, 1, 1}, Setting{2, 5, 3, 8}, Setting{3, 33, 2, 32}, Setting{2, 17, 4, 20},
                           Setting{1, 130, 2, 64}, Setting{4, 16, 1, 33}}) {
    SCOPED_TRACE(testing::Message() << s.batch << " x " << s.length << ", " << s.heads << " heads of " << s.width);
    const uint32_t hidden = s.heads * s.width;
    const Value qkv = Value::random({s.batch, s.length, 3 * hidden}, 1, -2, 2);
    std::vector<int32_t> valid;
    for (uint32_t i = 0; i < s.batch; ++i) valid.push_back(static_cast<int32_t>((s.length * (i + 1)) / s.batch));
    const Value lengths = Value::of_ints({s.batch}, valid);
    const float scale = 1 / std::sqrt(static_cast<float>(s.width));
    const std::vector<double> expected = attend(qkv, lengths, s, static_cast<double>(scale));
    check(
        {"attention", {qkv, lengths}, {Value::blank({s.batch, s.length, hidden})}, {s.heads, word_of(scale)}},
        [&](size_t i) { return expected[i]; }, 3e-6);
  }
}

TEST_P(AttentionTest, WhatLiesBehindTheLengthHasNoInfluenceAndGivesZero) {
  const Setting s{2, 9, 2, 16};
  const Value lengths = Value::of_ints({2}, {4, 0});
  Value qkv = Value::random({2, 9, 96}, 2);
  const Case c{"attention", {qkv, lengths}, {Value::blank({2, 9, 32})}, {s.heads, word_of(0.25F)}};
  Case spoiled = c;
  for (size_t i = 4 * 96; i < spoiled.inputs[0].floats.size(); ++i) spoiled.inputs[0].floats[i] = NAN;
  const auto clean = run_every_way(c), noisy = run_every_way(spoiled);
  EXPECT_TRUE(same_bytes(clean[0], noisy[0]));
  for (size_t i = 4 * 32; i < clean[0].floats.size(); ++i) ASSERT_EQ(clean[0].floats[i], 0.0F) << i;
}

TEST_P(AttentionTest, QueriesInManyGroupsHaveTheSameBytesAsInOne) {
  // 1500 keys: the scratch of a thread holds 43 queries at once, 300 keys: all of them.
  const Value longer = Value::random({1, 1500, 24}, 3);
  const Value all = Value::of_ints({1}, {300}),
              shorter = Value::of({1, 300, 24}, {longer.floats.begin(), longer.floats.begin() + 7200});
  const std::vector<uint64_t> scalars = {1, word_of(0.3F)};
  const auto a = run_case(entry("attention"), {"attention", {longer, all}, {Value::blank({1, 1500, 8})}, scalars},
                          Layout::kContiguous, 1);
  const auto b = run_case(entry("attention"), {"attention", {shorter, all}, {Value::blank({1, 300, 8})}, scalars},
                          Layout::kContiguous, 1);
  EXPECT_EQ(std::memcmp(a[0].bytes(), b[0].bytes(), 300 * 8 * 4), 0);
  const Value full = Value::of_ints({1}, {1500});
  const auto whole = run_case(entry("attention"), {"attention", {longer, full}, {Value::blank({1, 1500, 8})}, scalars},
                              Layout::kContiguous, 1);
  const std::vector<double> expected = attend(longer, full, {1, 1500, 1, 8}, static_cast<double>(0.3F));
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(static_cast<double>(whole[0].floats[i]), expected[i], 1e-5) << i;
}

TEST_P(AttentionTest, WrongHeadsAndLengthsAreRefused) {
  const auto text = [&](uint64_t heads, std::vector<int32_t> lengths) {
    const auto count = static_cast<uint32_t>(lengths.size());
    return refusal({"attention",
                    {Value::blank({2, 3, 24}), Value::of_ints({count}, std::move(lengths))},
                    {Value::blank({2, 3, 8})},
                    {heads, word_of(1)}});
  };
  EXPECT_EQ(text(3, {1, 1}), "attention: heads is 3, must divide the hidden size 8");
  EXPECT_EQ(text(0, {1, 1}), "attention: heads is 0, must divide the hidden size 8");
  EXPECT_EQ(text(2, {1, 4}), "attention: lengths element 1 is 4, must be 0 to 3");
  EXPECT_EQ(text(2, {1, -1}), "attention: lengths element 1 is -1, must be 0 to 3");
  EXPECT_EQ(text(2, {1}), "attention: lengths has 1 elements, the batch has 2; they must be equal");
}

}  // namespace
}  // namespace simpler::kernels
