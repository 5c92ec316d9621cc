#include "kernels/kernel_check.h"

namespace simpler::kernels {
namespace {

class RowsTest : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Isa, RowsTest,
                         testing::ValuesIn(built_instruction_sets().begin(), built_instruction_sets().end()), isa_name);

constexpr uint32_t kWidths[] = {1, 2, 3, 15, 16, 17, 31, 33, 64, 100, 384, 1000};

// Mean and 1 / sqrt(variance + eps) of one row, in double.
struct Moments {
  double mean = 0, factor = 0;
};
Moments moments(const std::vector<double>& row, double epsilon) {
  Moments m;
  for (const double x : row) m.mean += x / static_cast<double>(row.size());
  double variance = 0;
  for (const double x : row) variance += (x - m.mean) * (x - m.mean) / static_cast<double>(row.size());
  m.factor = 1 / std::sqrt(variance + epsilon);
  return m;
}

// Layer normalisation of given rows, element by element.
std::function<double(size_t)> normalised(std::vector<std::vector<double>> rows, const Value& gamma, const Value& beta,
                                         double epsilon) {
  std::vector<double> out;
  for (const auto& row : rows) {
    const Moments m = moments(row, epsilon);
    for (size_t j = 0; j < row.size(); ++j) {
      out.push_back((row[j] - m.mean) * m.factor * static_cast<double>(gamma.floats[j]) +
                    static_cast<double>(beta.floats[j]));
    }
  }
  return [out](size_t i) { return out[i]; };
}

std::vector<std::vector<double>> rows_of(const Value& x, size_t width) {
  std::vector<std::vector<double>> rows;
  for (size_t i = 0; i + width <= x.floats.size() && width > 0; i += width) {
    rows.emplace_back(x.floats.begin() + static_cast<ptrdiff_t>(i),
                      x.floats.begin() + static_cast<ptrdiff_t>(i + width));
  }
  return rows;
}

TEST_P(RowsTest, LayernormAgreesWithDoublePrecisionForEveryWidth) {
  for (const uint32_t width : kWidths) {
    SCOPED_TRACE(width);
    const Value x = Value::random({3, 5, width}, 1, -3, 5), gamma = Value::random({width}, 2),
                beta = Value::random({width}, 3);
    check({"layernorm", {x, gamma, beta}, {Value::blank({3, 5, width})}, {word_of(1e-5F)}},
          normalised(rows_of(x, width), gamma, beta, static_cast<double>(1e-5F)), 2e-6);
  }
}

TEST_P(RowsTest, LayernormOfRowsWithALargeOffsetKeepsItsPrecision) {
  const Value x = Value::random({4, 384}, 4, 999, 1001), gamma = Value::random({384}, 5),
              beta = Value::random({384}, 6);
  check({"layernorm", {x, gamma, beta}, {Value::blank({4, 384})}, {word_of(1e-12F)}},
        normalised(rows_of(x, 384), gamma, beta, 1e-12), 3e-4);
}

TEST_P(RowsTest, AddLayernormIsLayernormOfTheSum) {
  for (const uint32_t width : {7U, 16U, 384U}) {
    const Value x = Value::random({2, 9, width}, 7), r = Value::random({2, 9, width}, 8);
    const Value gamma = Value::random({width}, 9), beta = Value::random({width}, 10);
    Value sum = x;
    for (size_t i = 0; i < sum.floats.size(); ++i) sum.floats[i] += r.floats[i];
    check({"add_layernorm", {x, r, gamma, beta}, {Value::blank({2, 9, width})}, {word_of(1e-12F)}},
          normalised(rows_of(sum, width), gamma, beta, 1e-12), 2e-6);
  }
}

TEST_P(RowsTest, EmbeddingLayernormAddsWordTypeAndPosition) {
  const Value word = Value::random({50, 40}, 11), position = Value::random({12, 40}, 12),
              type = Value::random({2, 40}, 13);
  const Value gamma = Value::random({40}, 14), beta = Value::random({40}, 15);
  const Value ids = Value::of_ints({3, 4}, {0, 49, 7, 7, 1, 2, 3, 4, 48, 20, 0, 30});
  std::vector<std::vector<double>> rows;
  for (size_t i = 0; i < 12; ++i) {
    std::vector<double> row;
    for (size_t j = 0; j < 40; ++j) {
      row.push_back(static_cast<double>(word.floats[static_cast<size_t>(ids.ints[i]) * 40 + j] + type.floats[40 + j] +
                                        position.floats[i % 4 * 40 + j]));
    }
    rows.push_back(row);
  }
  const Case c{"embedding_layernorm",
               {word, position, type, ids, gamma, beta},
               {Value::blank({3, 4, 40})},
               {1, word_of(1e-12F)}};
  check(c, normalised(rows, gamma, beta, 1e-12), 2e-6);
  Case bad = c;
  bad.inputs[3].ints[5] = 50;
  EXPECT_EQ(refusal(bad), "embedding_layernorm: ids element 5 is 50, word has 50 rows");
  bad = c;
  bad.scalars[0] = 2;
  EXPECT_EQ(refusal(bad), "embedding_layernorm: type_index 2 is not below 2");
}

TEST_P(RowsTest, L2normGivesRowsOfLengthOneAndLeavesZeroRowsZero) {
  for (const uint32_t width : kWidths) {
    Value x = Value::random({4, width}, 16);
    std::fill_n(x.floats.begin() + width, width, 0.0F);
    check(
        {"l2norm", {x}, {Value::blank({4, width})}, {word_of(1e-12F)}},
        [&](size_t i) {
          double sum = 0;
          const std::vector<double> row = rows_of(x, width)[i / width];
          for (const double v : row) sum += v * v;
          return static_cast<double>(x.floats[i]) / std::max(std::sqrt(sum), 1e-12);
        },
        1e-6);
  }
}

// Softmax of the first `length` elements of row `index / width`.
double softmax_at(const Value& x, size_t width, size_t index, size_t length, double scale) {
  const size_t row = index / width * width;
  if (index - row >= length) return 0;
  double top = -INFINITY, sum = 0;
  for (size_t j = 0; j < length; ++j) top = std::max(top, scale * static_cast<double>(x.floats[row + j]));
  for (size_t j = 0; j < length; ++j) sum += std::exp(scale * static_cast<double>(x.floats[row + j]) - top);
  return std::exp(scale * static_cast<double>(x.floats[index]) - top) / sum;
}

TEST_P(RowsTest, SoftmaxAgreesWithDoublePrecisionForEveryWidth) {
  for (const uint32_t width : kWidths) {
    SCOPED_TRACE(width);
    const Value x = Value::random({2, 3, width}, 17, -40, 40);
    for (const float scale : {1.0F, 0.176776695F, -2.0F}) {
      check(
          {"softmax", {x}, {Value::blank({2, 3, width})}, {word_of(scale)}},
          [&](size_t i) { return softmax_at(x, width, i, width, static_cast<double>(scale)); }, 1e-5);
    }
  }
}

TEST_P(RowsTest, SoftmaxMaskedCountsTheFirstColumnsOfItsItemAndIsZeroBehindThem) {
  for (const uint32_t width : {1U, 16U, 33U, 70U}) {
    const Value x = Value::random({5, 2, 3, width}, 18, -5, 5);
    const auto w = static_cast<int32_t>(width);
    const Value lengths = Value::of_ints({5}, {0, 1, w / 2, w - 1, w});
    check(
        {"softmax_masked", {x, lengths}, {Value::blank({5, 2, 3, width})}, {word_of(1.5F)}},
        [&](size_t i) {
          return softmax_at(x, width, i, static_cast<size_t>(lengths.ints[i / (size_t{6} * width)]), 1.5);
        },
        2e-6);
  }
  EXPECT_EQ(refusal({"softmax_masked",
                     {Value::blank({2, 4}), Value::of_ints({2}, {1, 5})},
                     {Value::blank({2, 4})},
                     {word_of(1)}}),
            "softmax_masked: lengths element 1 is 5, must be 0 to 4");
}

TEST_P(RowsTest, MeanPoolAveragesTheValidRowsAndIsZeroForNone) {
  for (const uint32_t width : {1U, 16U, 50U}) {
    const Value x = Value::random({4, 6, width}, 19);
    const Value lengths = Value::of_ints({4}, {6, 0, 1, 4});
    check(
        {"mean_pool", {x, lengths}, {Value::blank({4, width})}, {}},
        [&](size_t i) {
          const size_t item = i / width;
          const auto length = static_cast<size_t>(lengths.ints[item]);
          double sum = 0;
          for (size_t s = 0; s < length; ++s) sum += static_cast<double>(x.floats[(item * 6 + s) * width + i % width]);
          return length == 0 ? 0.0 : sum / static_cast<double>(length);
        },
        1e-6);
  }
}

TEST_P(RowsTest, EmptyTensorsAreFineEverywhere) {
  const Value one = Value::random({0}, 1);
  run_every_way({"layernorm", {Value::blank({3, 0}), one, one}, {Value::blank({3, 0})}, {word_of(0)}});
  run_every_way({"softmax", {Value::blank({0, 7})}, {Value::blank({0, 7})}, {word_of(1)}});
  run_every_way(
      {"softmax_masked", {Value::blank({0, 7}), Value::of_ints({0}, {})}, {Value::blank({0, 7})}, {word_of(1)}});
  run_every_way({"l2norm", {Value::blank({2, 0, 3})}, {Value::blank({2, 0, 3})}, {word_of(0)}});
  run_every_way({"gelu", {Value::blank({0})}, {Value::blank({0})}, {}});
  run_every_way({"add", {Value::blank({4, 0}), Value::blank({0})}, {Value::blank({4, 0})}, {}});
  run_every_way({"gather", {Value::blank({0, 4}), Value::of_ints({0}, {})}, {Value::blank({0, 4})}, {}});
  run_every_way({"mean_pool", {Value::blank({0, 3, 4}), Value::of_ints({0}, {})}, {Value::blank({0, 4})}, {}});
  run_every_way({"topk", {Value::blank({3, 5})}, {Value::blank({3, 0}), Value::blank({3, 0}, true)}, {}});
  const auto zeros =
      run_every_way({"mean_pool", {Value::blank({2, 0, 4}), Value::of_ints({2}, {0, 0})}, {Value::blank({2, 4})}, {}});
  for (const float x : zeros[0].floats) EXPECT_EQ(x, 0.0F);
}

TEST_P(RowsTest, MismatchedShapesAreRefusedByName) {
  EXPECT_EQ(refusal({"layernorm",
                     {Value::blank({2, 3}), Value::blank({4}), Value::blank({3})},
                     {Value::blank({2, 3})},
                     {word_of(0)}}),
            "layernorm: gamma has 4 elements, a row of out has 3; they must be equal");
  EXPECT_EQ(refusal({"softmax", {Value::blank({2, 3})}, {Value::blank({3, 2})}, {word_of(1)}}),
            "softmax: x has shape [2, 3], out has [3, 2]; they must be equal");
  EXPECT_EQ(refusal({"l2norm", {Value::blank({2, 3})}, {Value::blank({2, 3})}, {word_of(-1)}}),
            "l2norm: eps must be a float of at least 0");
}

}  // namespace
}  // namespace simpler::kernels
