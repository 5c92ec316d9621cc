#include <array>

#include <gtest/gtest.h>

#include "base/byte_reader.h"
#include "base/byte_writer.h"
#include "base/sha256.h"
#include "base/units.h"

namespace simpler {
namespace {

std::vector<uint8_t> as_numbers(std::span<const std::byte> bytes) {
  std::vector<uint8_t> numbers;
  for (const std::byte byte : bytes) numbers.push_back(std::to_integer<uint8_t>(byte));
  return numbers;
}

TEST(ByteWriter, WritesLittleEndian) {
  ByteWriter writer;
  writer.u8(0x01);
  writer.u16(0x0203);
  writer.u32(0x04050607);
  writer.i64(-2);
  writer.text("hi");
  writer.align(4);
  EXPECT_EQ(as_numbers(writer.view()), (std::vector<uint8_t>{0x01, 0x03, 0x02, 0x07, 0x06, 0x05, 0x04, 0xfe, 0xff, 0xff,
                                                             0xff, 0xff, 0xff, 0xff, 0xff, 'h',  'i',  0,    0,    0}));
}

TEST(ByteWriter, PatchesALengthThatIsKnownLater) {
  ByteWriter writer;
  writer.u32(0);
  writer.text("abc");
  writer.patch_u32(0, 3);
  EXPECT_EQ(as_numbers(writer.take()), (std::vector<uint8_t>{3, 0, 0, 0, 'a', 'b', 'c'}));
  EXPECT_EQ(writer.size(), 0U);
}

TEST(ByteReader, ReadsWhatAWriterWroteAndAcceptsTheExactEnd) {
  ByteWriter writer;
  writer.u16(65535);
  writer.i32(-7);
  writer.u64(1ULL << 63);
  writer.text("name");
  ByteReader reader(writer.view());
  EXPECT_EQ(reader.u16(), 65535);
  EXPECT_EQ(reader.i32(), -7);
  EXPECT_EQ(reader.u64(), 1ULL << 63);
  EXPECT_EQ(reader.text(4), "name");
  EXPECT_TRUE(reader.finish().is_ok());
}

TEST(ByteReader, FailsForGoodOnceBytesAreMissing) {
  const std::array<std::byte, 3> bytes{std::byte{1}, std::byte{2}, std::byte{3}};
  ByteReader reader(bytes);
  EXPECT_EQ(reader.u32(), 0U);
  EXPECT_EQ(reader.u8(), 0);
  EXPECT_TRUE(reader.bytes(1).empty());
  EXPECT_EQ(reader.remaining(), 0U);
  EXPECT_EQ(reader.finish().code(), StatusCode::kCorrupt);
  EXPECT_EQ(reader.status().message(), "record ends at byte 3, byte 4 was needed");
}

TEST(ByteReader, ALengthNearTheLargestNumberIsNotMistakenForAShortOne) {
  const std::array<std::byte, 8> bytes{};
  ByteReader reader(bytes);
  reader.skip(4);
  EXPECT_TRUE(reader.bytes(static_cast<size_t>(-2)).empty());
  EXPECT_FALSE(reader.ok());
}

TEST(ByteReader, ReportsBytesAfterTheEnd) {
  const std::array<std::byte, 5> bytes{};
  ByteReader reader(bytes);
  reader.u32();
  EXPECT_TRUE(reader.status().is_ok());
  EXPECT_EQ(reader.finish().message(), "record has 1 bytes after its end at byte 4");
}

// Digests computed by Python's hashlib.
TEST(Sha256, MatchesDigestsComputedElsewhere) {
  EXPECT_EQ(to_hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 pieces;
  for (int i = 0; i < 1000; ++i) pieces.update("simpler");
  EXPECT_EQ(to_hex(pieces.finish()), "8ee3208d29fa43c666ab9bdb8397f20ca19780b4686780905061d1580ce52b2d");
  pieces.update("abc");
  EXPECT_EQ(pieces.finish(), sha256("abc")) << "finish starts anew";
}

TEST(Units, FormatsSizesForPeople) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1536), "1536 B");
  EXPECT_EQ(format_bytes(4_KiB), "4 KiB");
  EXPECT_EQ(format_bytes(1_GiB + 512_MiB), "1.5 GiB");
  EXPECT_EQ(align_up(4097, 4096), 8192U);
  EXPECT_EQ(align_up(0, 64), 0U);
}

}  // namespace
}  // namespace simpler
