#include <algorithm>

#include "kernels/kernel_check.h"

namespace simpler::kernels {
namespace {

class SelectTest : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Isa, SelectTest,
                         testing::ValuesIn(built_instruction_sets().begin(), built_instruction_sets().end()), isa_name);

TEST_P(SelectTest, GatherCopiesTheNamedRows) {
  for (const uint32_t width : {1U, 16U, 21U}) {
    const Value table = Value::random({9, width}, 1), ids = Value::of_ints({2, 3}, {8, 0, 3, 3, 7, 1});
    const auto out = run_every_way({"gather", {table, ids}, {Value::blank({2, 3, width})}, {}});
    for (size_t i = 0; i < out[0].floats.size(); ++i) {
      ASSERT_EQ(out[0].floats[i], table.floats[static_cast<size_t>(ids.ints[i / width]) * width + i % width]);
    }
  }
}

TEST_P(SelectTest, GatherRefusesRowsThatDoNotExist) {
  const auto text = [&](int32_t id) {
    return refusal({"gather", {Value::blank({9, 2}), Value::of_ints({2}, {1, id})}, {Value::blank({2, 2})}, {}});
  };
  EXPECT_EQ(text(9), "gather: ids element 1 is 9, table has 9 rows");
  EXPECT_EQ(text(-1), "gather: ids element 1 is -1, table has 9 rows");
}

TEST_P(SelectTest, TopkGivesTheLargestInOrderAndTheEarlierOfEquals) {
  for (const uint32_t columns : {1U, 5U, 64U, 500U}) {
    for (const uint32_t k : {1U, 2U, 5U, 33U, columns}) {
      if (k > columns) continue;
      Value x = Value::random({3, columns}, columns * 100 + k);
      for (float& v : x.floats) v = std::round(v * 8);  // many equal values
      const auto out = run_every_way({"topk", {x}, {Value::blank({3, k}), Value::blank({3, k}, true)}, {}});
      for (size_t row = 0; row < 3; ++row) {
        std::vector<int32_t> order(columns);
        std::iota(order.begin(), order.end(), 0);
        const float* values = x.floats.data() + row * columns;
        std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return values[a] > values[b]; });
        for (size_t i = 0; i < k; ++i) {
          ASSERT_EQ(out[1].ints[row * k + i], order[i]) << columns << " " << k << " row " << row << " place " << i;
          ASSERT_EQ(out[0].floats[row * k + i], values[order[i]]);
        }
      }
    }
  }
}

TEST_P(SelectTest, TopkPutsNotANumberLastAndRefusesMoreThanThereIs) {
  const Value x = Value::of({4}, {NAN, -INFINITY, 2, NAN});
  const auto out = run_every_way({"topk", {x}, {Value::blank({4}), Value::blank({4}, true)}, {}});
  EXPECT_EQ(out[1].ints, (std::vector<int32_t>{2, 1, 0, 3}));
  EXPECT_EQ(refusal({"topk", {Value::blank({2, 3})}, {Value::blank({2, 4}), Value::blank({2, 4}, true)}, {}}),
            "topk: asks for 4 of rows of 3 elements");
}

}  // namespace
}  // namespace simpler::kernels
