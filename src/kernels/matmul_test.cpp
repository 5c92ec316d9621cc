#include "kernels/kernel_check.h"

namespace simpler::kernels {
namespace {

class MatmulTest : public KernelTest {};
INSTANTIATE_TEST_SUITE_P(Isa, MatmulTest,
                         testing::ValuesIn(built_instruction_sets().begin(), built_instruction_sets().end()), isa_name);

struct Size {
  uint32_t m, k, n;
};
// Around every tile and panel edge of every instruction set, around the depth of a chunk, and plain odd ones.
constexpr Size kSizes[] = {{1, 1, 1},    {2, 3, 4},     {5, 7, 15},   {6, 8, 16},    {7, 9, 17},    {13, 31, 31},
                           {14, 32, 32}, {15, 33, 33},  {27, 64, 47}, {28, 255, 48}, {29, 256, 49}, {43, 257, 63},
                           {3, 512, 64}, {1, 513, 100}, {61, 19, 1},  {1, 40, 129},  {100, 1, 65},  {57, 300, 97}};

// A[m, k] * B, B stored [k, n] or [n, k], in double.
std::function<double(size_t)> product(const Value& a, const Value& b, Size s, bool transposed) {
  return [&a, &b, s, transposed](size_t index) {
    const size_t i = index / s.n, j = index % s.n;
    double sum = 0;
    for (size_t p = 0; p < s.k; ++p) {
      const size_t at = transposed ? j * s.k + p : p * s.n + j;
      sum += static_cast<double>(a.floats[i * s.k + p]) * static_cast<double>(b.floats[at]);
    }
    return sum;
  };
}

TEST_P(MatmulTest, ProductsOfManySizesAgreeWithDoublePrecisionInBothLayouts) {
  for (const Size& s : kSizes) {
    for (const bool transposed : {false, true}) {
      SCOPED_TRACE(testing::Message() << s.m << "x" << s.k << "x" << s.n << (transposed ? " [n,k]" : " [k,n]"));
      const Value a = Value::random({s.m, s.k}, 1);
      const Value b = Value::random(transposed ? Shape{s.n, s.k} : Shape{s.k, s.n}, 2);
      check({"matmul", {a, b}, {Value::blank({s.m, s.n})}, {kActivationNone, transposed ? kLayoutNk : kLayoutKn}},
            product(a, b, s, transposed), 4e-7 * std::sqrt(static_cast<double>(s.k)) + 1e-7);
    }
  }
}

double activate(uint64_t kind, double x) {
  switch (kind) {
    case kActivationRelu:
      return x > 0 ? x : 0;
    case kActivationGelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case kActivationTanh:
      return std::tanh(x);
    default:
      return x;
  }
}

TEST_P(MatmulTest, BiasAndActivationAreAppliedToTheFinishedSum) {
  for (const Size& s : {Size{14, 300, 33}, Size{3, 5, 64}, Size{20, 17, 40}}) {
    for (uint64_t kind = 0; kind <= kActivationTanh; ++kind) {
      SCOPED_TRACE(testing::Message() << s.m << "x" << s.k << "x" << s.n << " activation " << kind);
      const Value a = Value::random({s.m, s.k}, 3), b = Value::random({s.k, s.n}, 4), bias = Value::random({s.n}, 5);
      const auto plain = product(a, b, s, false);
      check(
          {"matmul_bias", {a, b, bias}, {Value::blank({s.m, s.n})}, {kind, kLayoutKn}},
          [&](size_t i) { return activate(kind, plain(i) + static_cast<double>(bias.floats[i % s.n])); },
          1e-6 * std::sqrt(static_cast<double>(s.k)));
    }
  }
}

TEST_P(MatmulTest, BatchesShareOneBOrHaveTheirOwn) {
  const Size s{9, 21, 35};
  const Value a = Value::random({2, 3, s.m, s.k}, 6), shared = Value::random({s.k, s.n}, 7);
  const Value own = Value::random({2, 3, s.k, s.n}, 8);
  check({"matmul", {a, shared}, {Value::blank({2, 3, s.m, s.n})}, {0, kLayoutKn}}, product(a, shared, s, false), 2e-6);
  check(
      {"matmul", {a, own}, {Value::blank({2, 3, s.m, s.n})}, {0, kLayoutKn}},
      [&](size_t index) {
        const size_t batch = index / (s.m * s.n), i = index / s.n % s.m, j = index % s.n;
        double sum = 0;
        for (size_t p = 0; p < s.k; ++p) {
          sum += static_cast<double>(a.floats[(batch * s.m + i) * s.k + p]) *
                 static_cast<double>(own.floats[(batch * s.k + p) * s.n + j]);
        }
        return sum;
      },
      2e-6);
}

TEST_P(MatmulTest, EmptyShapesWriteNothingAndAnEmptySumIsTheActivatedBias) {
  for (const Size& s : {Size{0, 4, 5}, Size{4, 0, 0}, Size{3, 7, 0}}) {
    check(
        {"matmul", {Value::blank({s.m, s.k}), Value::blank({s.k, s.n})}, {Value::blank({s.m, s.n})}, {0, 0}},
        [](size_t) { return 0.0; }, 0);
  }
  const Value bias = Value::random({19}, 9);
  check(
      {"matmul_bias", {Value::blank({4, 0}), Value::blank({0, 19}), bias}, {Value::blank({4, 19})}, {1, 0}},
      [&](size_t i) { return activate(kActivationRelu, static_cast<double>(bias.floats[i % 19])); }, 0);
}

TEST_P(MatmulTest, NotANumberStaysInItsRowAndColumn) {
  Value a = Value::random({5, 40}, 10);
  a.floats[2 * 40 + 39] = NAN;
  const auto out = run_every_way({"matmul", {a, Value::random({40, 33}, 11)}, {Value::blank({5, 33})}, {0, 0}});
  for (size_t i = 0; i < 5 * 33; ++i) EXPECT_EQ(std::isnan(out[0].floats[i]), i / 33 == 2) << i;
}

TEST_P(MatmulTest, RowsComputedAloneHaveTheBytesThatTheyHaveInTheWhole) {
  const Value a = Value::random({31, 700}, 12), b = Value::random({700, 50}, 13);
  const auto whole =
      run_case(entry("matmul"), {"matmul", {a, b}, {Value::blank({31, 50})}, {2, 0}}, Layout::kContiguous, 1);
  for (uint32_t i = 0; i < 31; ++i) {
    const Value row = Value::of({1, 700}, {a.floats.begin() + i * 700, a.floats.begin() + (i + 1) * 700});
    const auto one =
        run_case(entry("matmul"), {"matmul", {row, b}, {Value::blank({1, 50})}, {2, 0}}, Layout::kContiguous, 1);
    EXPECT_EQ(std::memcmp(one[0].bytes(), whole[0].floats.data() + i * 50, 200), 0) << "row " << i;
  }
}

TEST_P(MatmulTest, ArgumentsThatDoNotFitAreRefusedByName) {
  const auto text = [&](Shape a, Shape b, Shape out, std::vector<uint64_t> scalars) {
    return refusal({"matmul", {Value::blank(a), Value::blank(b)}, {Value::blank(out)}, std::move(scalars)});
  };
  EXPECT_EQ(text({2, 3}, {4, 5}, {2, 5}, {0, 0}),
            "matmul: a row of a has 3 elements, a column of b has 4; they must be equal");
  EXPECT_EQ(text({2, 3}, {3, 5}, {2, 6}, {0, 0}),
            "matmul: a row of out has 6 elements, a row of b has 5; they must be equal");
  EXPECT_EQ(text({2, 3}, {3, 5}, {2, 5}, {4, 0}), "matmul: activation 4 is not one of 0 none, 1 relu, 2 gelu, 3 tanh");
  EXPECT_EQ(text({2, 3}, {3, 5}, {2, 5}, {0, 2}), "matmul: b_layout 2 is not one of 0 [k, n], 1 [n, k]");
  EXPECT_EQ(text({2, 3}, {3, 5}, {2, 5}, {0}), "matmul: takes 3 tensors and 2 scalars, got 3 and 1");
  EXPECT_EQ(text({3}, {3, 5}, {5}, {0, 0}), "matmul: argument 0 (a) has rank 1, must be 2 to 5");
  EXPECT_EQ(text({2, 3, 4}, {3, 4, 5}, {2, 3, 5}, {0, 0}),
            "matmul: a batch dimension of b has 3 elements, that of a has 2; they must be equal");
  const Value wrong = Value::blank({3, 5}, true);
  EXPECT_EQ(refusal({"matmul", {Value::blank({2, 3}), wrong}, {Value::blank({2, 5})}, {0, 0}}),
            "matmul: argument 1 (b) is INT32, must be FLOAT32");
}

TEST_P(MatmulTest, DescriptorsThatPointOutsideTheirBufferAreRefused) {
  const Case c{"matmul", {Value::blank({2, 3}), Value::blank({3, 5})}, {Value::blank({2, 5})}, {0, 0}};
  using Tensors = std::vector<kernel::TensorDescriptor*>;
  EXPECT_EQ(refusal(c, [](Tensors& t) { t[0]->start_offset = 1; }),
            "matmul: argument 0 (a) of shape [2, 3] starting at element 1 does not fit its buffer of 6 elements");
  EXPECT_NE(refusal(c, [](Tensors& t) { t[1]->strides[0] = 6; }), "");
  EXPECT_NE(refusal(c, [](Tensors& t) { t[2]->size = 36; }), "");
  EXPECT_EQ(refusal(c, [](Tensors& t) { t[2]->addr = 0; }), "matmul: argument 2 (out) has no memory");
  EXPECT_EQ(refusal(c, [](Tensors& t) { t[0]->strides[1] = 0; }),
            "matmul: argument 0 (a) has stride 0 in dimension 1, must be at least 1");
  EXPECT_EQ(refusal(c, [](Tensors& t) { t[0]->ndims = 6; }), "matmul: argument 0 (a) has rank 6, must be 2 to 5");
  EXPECT_NE(refusal(c, [](Tensors& t) { t[0]->dtype = static_cast<kernel::DataType>(99); }), "");
  EXPECT_NE(refusal(c, [](Tensors& t) { t[0]->start_offset = UINT64_MAX; }), "");
  EXPECT_EQ(refusal(c,
                    [](Tensors& t) {
                      t[2]->addr = t[0]->addr;
                      t[2]->size = 1000;
                    }),
            "matmul: out must not be the memory of a or b");
}

// A fused multiply-add rounds the same way everywhere, and every other order is fixed.
TEST(InstructionSets, TheTwoWithFusedMultiplyAddGiveTheSameBytes) {
  for (const InstructionSet isa : {InstructionSet::kX86V3, InstructionSet::kX86V4}) {
    if (!is_supported(isa) || !find_module(isa, "").ok()) GTEST_SKIP() << "needs v3 and v4";
  }
  const auto v3 = Catalog::open({InstructionSet::kX86V3, ""}), v4 = Catalog::open({InstructionSet::kX86V4, ""});
  ASSERT_TRUE(v3.ok() && v4.ok());
  const Value a = Value::random({37, 515}, 1), b = Value::random({515, 77}, 2), bias = Value::random({77}, 3);
  const Value gamma = Value::random({515}, 4), beta = Value::random({515}, 5);
  const Value qkv = Value::random({2, 21, 3 * 48}, 6, -3, 3), lengths = Value::of_ints({2}, {21, 8});
  const Case cases[] = {{"matmul_bias", {a, b, bias}, {Value::blank({37, 77})}, {kActivationGelu, kLayoutKn}},
                        {"matmul_bias", {a, b, bias}, {Value::blank({37, 77})}, {kActivationTanh, kLayoutKn}},
                        {"layernorm", {a, gamma, beta}, {Value::blank({37, 515})}, {word_of(1e-5F)}},
                        {"softmax", {a}, {Value::blank({37, 515})}, {word_of(3)}},
                        {"l2norm", {a}, {Value::blank({37, 515})}, {word_of(0)}},
                        {"attention", {qkv, lengths}, {Value::blank({2, 21, 48})}, {3, word_of(0.25F)}}};
  for (const Case& c : cases) {
    const auto narrow = run_case((*v3)->find(c.kernel.data(), c.kernel.size(), 0)->entry, c, Layout::kContiguous, 1);
    const auto wide = run_case((*v4)->find(c.kernel.data(), c.kernel.size(), 0)->entry, c, Layout::kContiguous, 1);
    EXPECT_TRUE(same_bytes(narrow[0], wide[0])) << c.kernel;
  }
}

}  // namespace
}  // namespace simpler::kernels
