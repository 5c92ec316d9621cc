#include "wire/args_blob.h"

#include <gtest/gtest.h>

#include "base/seeded_random.h"
#include "wire/golden_test.h"
#include "wire/tensor_ref.h"

namespace simpler::wire {
namespace {

using golden::bytes_of;
using golden::hex_of;
using golden::record_of;

std::vector<Tensor> example_tensors() {
  const Tensor first = record_of<Tensor>(golden::kTensor);
  const uint32_t shape[] = {2};
  const uint32_t stride[] = {3};
  return {first,
          *make_tensor(record_of<BufferDescriptor>(golden::kCowDescriptor), shape, DataType::kFloat16, stride, 6)};
}
const uint64_t kScalars[] = {1, UINT64_MAX, 0x3ff0000000000000};

TEST(ArgsBlob, BytesEqualTheGoldenVector) {
  std::vector<std::byte> out(blob_bytes(2, 3));
  ASSERT_EQ(out.size(), 320u);
  const Result<uint64_t> written = write_blob(out, example_tensors(), kScalars);
  ASSERT_TRUE(written.ok());
  EXPECT_EQ(*written, 320u);
  EXPECT_EQ(hex_of(out.data(), out.size()), golden::kBlob);
}

TEST(ArgsBlob, ReadsBackAlsoFromUnalignedMemory) {
  const std::vector<std::byte> blob = bytes_of(golden::kBlob);
  for (size_t shift = 0; shift < 8; ++shift) {
    std::vector<std::byte> moved(shift + blob.size());
    std::copy(blob.begin(), blob.end(), moved.begin() + static_cast<std::ptrdiff_t>(shift));
    const Result<TaskArgsView> view = read_blob(std::span(moved).subspan(shift));
    ASSERT_TRUE(view.ok());
    EXPECT_EQ(view->tensor_count, 2);
    EXPECT_EQ(view->scalar_count, 3);
    EXPECT_EQ(hex_of(*view->tensor(0)), golden::kTensor);
    EXPECT_EQ(hex_of(*view->tensor(1)), hex_of(example_tensors()[1]));
    for (int i = 0; i < 3; ++i) EXPECT_EQ(*view->scalar(i), kScalars[i]);
    for (const int64_t bad : {int64_t{-1}, int64_t{2}, INT64_MAX, INT64_MIN}) {
      EXPECT_EQ(view->tensor(bad).status().code(), StatusCode::kOutOfRange);
    }
    EXPECT_EQ(view->scalar(3).status().code(), StatusCode::kOutOfRange);
    EXPECT_EQ(view->scalar(-1).status().code(), StatusCode::kOutOfRange);
  }
}

TEST(ArgsBlob, ATensorIsCheckedWhenItIsTaken) {
  std::vector<std::byte> blob = bytes_of(golden::kBlob);
  blob[8 + 144] = std::byte{0};  // magic of tensor 1
  const Result<TaskArgsView> view = read_blob(blob);
  ASSERT_TRUE(view.ok());
  EXPECT_TRUE(view->tensor(0).ok());
  EXPECT_EQ(view->tensor(1).status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(view->tensor(1).status().message().find("tensor 1"), std::string_view::npos);
}

TEST(ArgsBlob, CountsMustFitTheBytes) {
  const std::vector<std::byte> blob = bytes_of(golden::kBlob);
  for (size_t size = 0; size < blob.size(); ++size) {
    EXPECT_FALSE(read_blob(std::span(blob).first(size)).ok()) << size;
  }
  for (const int32_t count : {-1, 3, INT32_MAX, INT32_MIN}) {
    for (const size_t at : {size_t{0}, size_t{4}}) {
      std::vector<std::byte> wrong = blob;
      const int32_t value = at == 4 && count == 3 ? 4 : count;
      std::memcpy(wrong.data() + at, &value, sizeof value);
      EXPECT_FALSE(read_blob(wrong).ok()) << count << " at " << at;
    }
  }
}

TEST(ArgsBlob, AnOutputThatIsTooSmallIsNamedWithBothSizes) {
  std::vector<std::byte> out(319);
  const Result<uint64_t> written = write_blob(out, example_tensors(), kScalars);
  ASSERT_FALSE(written.ok());
  EXPECT_NE(written.status().message().find("320"), std::string_view::npos);
  EXPECT_NE(written.status().message().find("319"), std::string_view::npos);
}

TEST(ArgsBlob, EmptyArgumentsAreEightBytes) {
  std::vector<std::byte> out(8);
  EXPECT_EQ(*write_blob(out, {}, {}), 8u);
  EXPECT_EQ(read_blob(out)->tensor_count, 0);
}

TEST(ArgsBlob, RandomBytesAreReadWithoutHarm) {
  SeededRandom random(5);
  const std::vector<std::byte> blob = bytes_of(golden::kBlob);
  for (int round = 0; round < 50000; ++round) {
    std::vector<std::byte> bytes(blob.begin(),
                                 blob.begin() + static_cast<std::ptrdiff_t>(random.below(blob.size() + 1)));
    for (int i = 0; i < 3 && !bytes.empty(); ++i) {
      bytes[random.below(bytes.size())] = static_cast<std::byte>(random.next());
    }
    const Result<TaskArgsView> view = read_blob(bytes);
    if (!view.ok()) continue;
    for (int i = 0; i < view->tensor_count; ++i) {
      const Result<Tensor> tensor = view->tensor(i);
      EXPECT_TRUE(!tensor.ok() || validate(*tensor).is_ok());
    }
    for (int i = 0; i < view->scalar_count; ++i) EXPECT_TRUE(view->scalar(i).ok());
  }
}

TEST(TensorRef, BytesEqualTheGoldenVector) {
  const TensorRef ref{0x01020304, 0x05060708, 0x090a0b0c, kTensorRefInlineLayout, 0x1112131415161718};
  EXPECT_EQ(hex_of(ref), golden::kTensorRef);
  EXPECT_EQ(record_of<TensorRef>(golden::kTensorRef), ref);
}

}  // namespace
}  // namespace simpler::wire
