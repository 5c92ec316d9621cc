#include "simpler/tensor.h"

#include <limits>

#include <gtest/gtest.h>

#include "base/seeded_random.h"
#include "wire/golden_test.h"
#include "wire/shared_tables.h"

namespace simpler {
namespace {

using wire::golden::hex_of;
using wire::golden::record_of;

BufferDescriptor buffer(uint64_t nbytes) {
  BufferDescriptor d;
  d.identity = {{1}, 1, 1, {}};
  d.nbytes = nbytes;
  set_body_address(d, 0x10000);
  return d;
}

Result<Tensor> view(uint64_t nbytes, std::initializer_list<uint32_t> shapes, DataType dtype,
                    std::initializer_list<uint32_t> strides = {}, uint64_t offset = 0) {
  return make_tensor(buffer(nbytes), {shapes.begin(), shapes.size()}, dtype, {strides.begin(), strides.size()}, offset);
}

TEST(Tensor, BytesEqualTheGoldenVector) {
  const auto shared = record_of<BufferDescriptor>(wire::golden::kSharedDescriptor);
  const uint32_t shapes[] = {3, 4, 5};
  const Result<Tensor> tensor = make_tensor(shared, shapes, DataType::kFloat32, {}, 4096);
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(hex_of(*tensor), wire::golden::kTensor);
  EXPECT_TRUE(validate(record_of<Tensor>(wire::golden::kTensor)).is_ok());
  EXPECT_EQ(extent_bytes(*tensor), 240u);
}

TEST(Tensor, ElementSizesAndNamesFollowTheTable) {
  const uint32_t sizes[] = {4, 2, 4, 2, 1, 1, 2, 8, 8, 2, 4, 1, 1, 1, 1};
  for (int code = 0; code < 256; ++code) {
    const auto dtype = static_cast<DataType>(code);
    EXPECT_EQ(is_known(dtype), code < 15);
    EXPECT_EQ(element_size(dtype), code < 15 ? sizes[code] : 0u);
    EXPECT_EQ(name_of(dtype) == "unknown", code >= 15);
  }
}

TEST(Tensor, EachFieldThatIsWrongIsRefused) {
  const Tensor good = *view(240, {3, 4, 5}, DataType::kFloat32);
  const auto spoiled = [&](auto&& change) {
    Tensor t = good;
    change(t);
    return validate(t).code() == StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(spoiled([](Tensor& t) { t.buffer.magic = 0; }));
  EXPECT_TRUE(spoiled([](Tensor& t) { t.ndims = 0; }));
  for (const uint32_t rank : {2u, 4u, 6u, 0xFFFFFFFFu}) {
    EXPECT_TRUE(spoiled([&](Tensor& t) { t.ndims = rank; })) << rank;
  }
  for (int code = 15; code < 256; ++code) {
    EXPECT_TRUE(spoiled([&](Tensor& t) { t.dtype = static_cast<DataType>(code); })) << code;
  }
  for (uint32_t axis = 0; axis < 3; ++axis) {
    EXPECT_TRUE(spoiled([&](Tensor& t) { t.strides[axis] = 0; })) << axis;
  }
  for (uint32_t axis = 3; axis < 5; ++axis) {
    EXPECT_TRUE(spoiled([&](Tensor& t) { t.shapes[axis] = 1; })) << axis;
    EXPECT_TRUE(spoiled([&](Tensor& t) { t.strides[axis] = 1; })) << axis;
  }
  EXPECT_TRUE(spoiled([](Tensor& t) { t.byte_offset = 4; }));  // leaves the buffer
  EXPECT_TRUE(spoiled([](Tensor& t) { t.byte_offset = 2; }));  // not a multiple of the element
  EXPECT_TRUE(spoiled([](Tensor& t) { t.byte_offset = std::numeric_limits<uint64_t>::max() - 3; }));
  EXPECT_TRUE(spoiled([](Tensor& t) { t.shapes[0] = 4; }));
  EXPECT_TRUE(spoiled([](Tensor& t) { t.strides[2] = 2; }));
  EXPECT_TRUE(spoiled([](Tensor& t) { t.buffer.nbytes = 239; }));
}

TEST(Tensor, ExtentsSaturateInsteadOfWrapping) {
  constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();
  Tensor t = *view(8, {1}, DataType::kInt64);
  t.ndims = 5;
  t.shapes.fill(kMost);
  t.strides.fill(kMost);
  EXPECT_EQ(extent_bytes(t), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(logical_bytes(t), std::numeric_limits<uint64_t>::max());
  t.buffer.nbytes = std::numeric_limits<uint64_t>::max();
  EXPECT_FALSE(validate(t).is_ok());
}

TEST(Tensor, ViewsMayLieAnywhereInsideABufferOfFiveGibibytes) {
  constexpr uint64_t kBytes = uint64_t{5} << 30;
  EXPECT_TRUE(view(kBytes, {1}, DataType::kUint8, {}, kBytes - 1).ok());
  EXPECT_FALSE(view(kBytes, {2}, DataType::kUint8, {}, kBytes - 1).ok());
  EXPECT_TRUE(view(kBytes, {5, 1 << 28}, DataType::kFloat32).ok());
  EXPECT_FALSE(view(kBytes, {5, (1 << 28) + 1}, DataType::kFloat32).ok());
}

TEST(Tensor, ZeroSizeViewsAreLegalAndNeedNoBytes) {  // B053
  for (const auto& shape : {std::initializer_list<uint32_t>{0}, {0, 100}, {3, 0, 5}}) {
    const Result<Tensor> tensor = view(16, shape, DataType::kFloat32);
    ASSERT_TRUE(tensor.ok()) << tensor.status().message();
    EXPECT_EQ(extent_bytes(*tensor), 0u);
    EXPECT_EQ(logical_bytes(*tensor), 0u);
  }
  EXPECT_TRUE(view(16, {0}, DataType::kFloat32, {}, 16).ok());  // at the very end
  EXPECT_FALSE(view(16, {0}, DataType::kFloat32, {}, 20).ok());
  EXPECT_TRUE(view(0, {0}, DataType::kFloat32).ok());
}

TEST(Tensor, RowMajorStridesAreTheDefaultAndMismatchesAreRefused) {
  const Tensor t = *view(1000, {2, 3, 4}, DataType::kUint8);
  EXPECT_EQ(t.strides, (std::array<uint32_t, 5>{12, 4, 1, 0, 0}));
  EXPECT_FALSE(view(1000, {}, DataType::kUint8).ok());
  EXPECT_FALSE(view(1000, {1, 1, 1, 1, 1, 1}, DataType::kUint8).ok());
  EXPECT_FALSE(view(1000, {2, 3}, DataType::kUint8, {1}).ok());
  EXPECT_TRUE(view(1000, {2, 3}, DataType::kUint8, {1, 2}).ok());  // transposed
}

TEST(Tensor, RandomBytesAreJudgedWithoutHarmAndAcceptedViewsStayInside) {
  SeededRandom random(11);
  int accepted = 0;
  for (int round = 0; round < 200000; ++round) {
    Tensor t = *view(4096, {4, 8}, DataType::kFloat32, {16, 2}, 64);
    const int flips = 1 + static_cast<int>(random.below(3));
    for (int i = 0; i < flips; ++i) {
      reinterpret_cast<uint8_t*>(&t)[88 + random.below(56)] =
          static_cast<uint8_t>(random.below(8) == 0 ? random.next() : random.below(6));
    }
    if (!validate(t).is_ok()) continue;
    ++accepted;
    uint64_t last = 0;
    bool empty = false;
    for (uint32_t i = 0; i < t.ndims; ++i) {
      empty |= t.shapes[i] == 0;
      last += (uint64_t{t.shapes[i]} - 1) * t.strides[i];
    }
    EXPECT_TRUE(empty || t.byte_offset + (last + 1) * element_size(t.dtype) <= 4096u);
  }
  EXPECT_GT(accepted, 1000);
}

TEST(Layout, HoldsTheShapeOnceAndGivesTheTensorBack) {
  const Tensor t = record_of<Tensor>(wire::golden::kTensor);
  const wire::Layout layout = wire::layout_of(t);
  EXPECT_EQ(hex_of(layout),
            "030000000000000003000000040000000500000000000000000000001400000005000000010000000000000000000000"
            "f000000000000000f000000000000000");
  EXPECT_TRUE(validate(layout).is_ok());
  const Result<Tensor> back = wire::tensor_of(t.buffer, layout, t.byte_offset);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(hex_of(*back), wire::golden::kTensor);
  EXPECT_FALSE(wire::tensor_of(t.buffer, layout, t.buffer.nbytes - 236).ok());
  wire::Layout wrong = layout;
  wrong.extent_bytes = 1;
  EXPECT_FALSE(validate(wrong).is_ok());
  wrong = layout;
  wrong.logical_bytes = 1;
  EXPECT_FALSE(validate(wrong).is_ok());
}

}  // namespace
}  // namespace simpler
