#include "simpler/buffer_descriptor.h"

#include <functional>
#include <unordered_set>

#include <gtest/gtest.h>

#include "base/seeded_random.h"
#include "wire/golden_test.h"

namespace simpler {
namespace {

using wire::golden::hex_of;
using wire::golden::record_of;

CanonicalIdentity identity() {
  return {{0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17}, 0x0102030405060708, 3, {}};
}

BufferDescriptor shared() {
  BufferDescriptor d;
  d.backend_kind = BackendKind::kPosixShm;
  d.identity = identity();
  d.nbytes = uint64_t{5} << 30;
  d.owner_worker_path_id = 7;
  EXPECT_TRUE(set_body_name(d, "1f2e.5.3c4d.80").is_ok());
  return d;
}

BufferDescriptor with_address(BackendKind kind, AddressSpace space, AccessMode access, uint64_t address) {
  BufferDescriptor d;
  d.backend_kind = kind;
  d.address_space = space;
  d.access = access;
  d.identity = identity();
  d.nbytes = 4096;
  set_body_address(d, address);
  return d;
}

TEST(BufferDescriptor, BytesEqualTheGoldenVectors) {
  EXPECT_EQ(hex_of(shared()), wire::golden::kSharedDescriptor);
  EXPECT_EQ(hex_of(with_address(BackendKind::kForkCow, AddressSpace::kHost, AccessMode::kRead, 0x7f1234567000)),
            wire::golden::kCowDescriptor);
  BufferDescriptor device =
      with_address(BackendKind::kDeviceMalloc, AddressSpace::kDevice, AccessMode::kReadWrite, 0xdeadbeef000);
  device.nbytes = 1 << 20;
  device.owner_worker_path_id = 1;
  EXPECT_EQ(hex_of(device), wire::golden::kDeviceDescriptor);
}

TEST(BufferDescriptor, GoldenBytesAreValidAndReadBack) {
  const auto d = record_of<BufferDescriptor>(wire::golden::kSharedDescriptor);
  EXPECT_TRUE(validate(d).is_ok()) << validate(d).message();
  EXPECT_EQ(body_name(d), "1f2e.5.3c4d.80");
  EXPECT_EQ(body_address(d), 0u);
  EXPECT_EQ(d.nbytes, uint64_t{5} << 30);
  const auto cow = record_of<BufferDescriptor>(wire::golden::kCowDescriptor);
  EXPECT_TRUE(validate(cow).is_ok());
  EXPECT_EQ(body_address(cow), 0x7f1234567000u);
  EXPECT_EQ(body_name(cow), "");
}

TEST(BufferDescriptor, EachFieldThatIsWrongIsRefused) {
  const auto refused = [](const BufferDescriptor& base, const std::function<void(BufferDescriptor&)>& spoil) {
    BufferDescriptor d = base;
    EXPECT_TRUE(validate(d).is_ok());
    spoil(d);
    return validate(d).code() == StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused(shared(), [](auto& d) { d.magic = 0x4253; }));
  for (int value = 2; value < 256; ++value) {
    EXPECT_TRUE(refused(shared(), [&](auto& d) { d.address_space = static_cast<AddressSpace>(value); })) << value;
  }
  for (int value = 3; value < 256; ++value) {
    EXPECT_TRUE(refused(shared(), [&](auto& d) { d.access = static_cast<AccessMode>(value); })) << value;
  }
  for (int value = 6; value < 256; ++value) {
    EXPECT_TRUE(refused(shared(), [&](auto& d) { d.backend_kind = static_cast<BackendKind>(value); })) << value;
  }
  EXPECT_TRUE(refused(shared(), [](auto& d) { d.identity.generation = 0; }));
  EXPECT_TRUE(refused(shared(), [](auto& d) { d.body_len = 33; }));
  EXPECT_TRUE(refused(shared(), [](auto& d) { d.body_len = 0xFFFF; }));
  EXPECT_TRUE(refused(shared(), [](auto& d) { d.body_len = 13; }));  // a byte past the body is left over
  EXPECT_TRUE(refused(shared(), [](auto& d) {
    d.body.fill(0);
    d.body_len = 0;
  }));
  EXPECT_TRUE(refused(shared(), [](auto& d) { d.address_space = AddressSpace::kDevice; }));
  for (int value = 0; value < 256; ++value) {
    const char c = static_cast<char>(value);
    const bool printable = value >= 0x21 && value <= 0x7E && value != '/';
    BufferDescriptor d = shared();
    d.body[3] = c;
    EXPECT_EQ(validate(d).is_ok(), printable) << value;
  }
}

TEST(BufferDescriptor, AddressSpaceAndBackendMustAgree) {
  struct Case {
    BackendKind kind;
    bool host, device;
  };
  for (const Case& c : {Case{BackendKind::kForkShm, true, false}, Case{BackendKind::kVmmWindow, false, true},
                        Case{BackendKind::kDeviceMalloc, false, true}, Case{BackendKind::kForkCow, true, false}}) {
    EXPECT_EQ(validate(with_address(c.kind, AddressSpace::kHost, AccessMode::kRead, 64)).is_ok(), c.host);
    EXPECT_EQ(validate(with_address(c.kind, AddressSpace::kDevice, AccessMode::kRead, 64)).is_ok(), c.device);
  }
  BufferDescriptor remote = shared();
  remote.backend_kind = BackendKind::kRemoteSidecar;
  EXPECT_FALSE(validate(remote).is_ok());  // it has a body
  remote.body.fill(0);
  remote.body_len = 0;
  EXPECT_TRUE(validate(remote).is_ok());
  remote.address_space = AddressSpace::kDevice;
  EXPECT_TRUE(validate(remote).is_ok());
}

TEST(BufferDescriptor, AddressesHaveEightBytesAndAreNotNull) {
  for (const BackendKind kind : {BackendKind::kForkShm, BackendKind::kForkCow}) {
    EXPECT_FALSE(validate(with_address(kind, AddressSpace::kHost, AccessMode::kRead, 0)).is_ok());
    for (uint16_t length = 0; length <= 33; ++length) {
      BufferDescriptor d = with_address(kind, AddressSpace::kHost, AccessMode::kRead, 0x1);
      d.body_len = length;
      EXPECT_EQ(validate(d).is_ok(), length == 8) << length;
    }
  }
}

TEST(BufferDescriptor, CopyOnWriteMemoryGrantsReadOnly) {
  EXPECT_TRUE(validate(with_address(BackendKind::kForkCow, AddressSpace::kHost, AccessMode::kRead, 8)).is_ok());
  EXPECT_FALSE(validate(with_address(BackendKind::kForkCow, AddressSpace::kHost, AccessMode::kWrite, 8)).is_ok());
  EXPECT_FALSE(validate(with_address(BackendKind::kForkCow, AddressSpace::kHost, AccessMode::kReadWrite, 8)).is_ok());
}

TEST(BufferDescriptor, NamesAreCheckedWhenSet) {
  BufferDescriptor d = shared();
  EXPECT_FALSE(set_body_name(d, "").is_ok());
  EXPECT_FALSE(set_body_name(d, "a/b").is_ok());
  EXPECT_FALSE(set_body_name(d, std::string(33, 'x')).is_ok());
  EXPECT_EQ(body_name(d), "1f2e.5.3c4d.80");
  EXPECT_TRUE(set_body_name(d, std::string(32, 'x')).is_ok());
  EXPECT_TRUE(validate(d).is_ok());
}

TEST(BufferDescriptor, RandomBytesAreJudgedWithoutHarmAndAcceptedOnesAreConsistent) {
  SeededRandom random(7);
  int accepted = 0;
  for (int round = 0; round < 200000; ++round) {
    BufferDescriptor d = (round & 1) != 0
                             ? shared()
                             : with_address(BackendKind::kForkShm, AddressSpace::kHost, AccessMode::kReadWrite, 4096);
    const int flips = 1 + static_cast<int>(random.below(3));
    for (int i = 0; i < flips; ++i) {
      reinterpret_cast<uint8_t*>(&d)[random.below(sizeof d)] = static_cast<uint8_t>(random.next());
    }
    if (!validate(d).is_ok()) continue;
    ++accepted;
    EXPECT_TRUE(is_known(d.backend_kind) && is_known(d.access) && d.body_len <= 32);
    EXPECT_EQ(bears_address(d.backend_kind), body_address(d) != 0);
    EXPECT_EQ(differing_fields(d, d), "");
  }
  EXPECT_GT(accepted, 1000);  // flips in identity, size and padding are harmless
}

TEST(BufferDescriptor, DifferingFieldsAreNamed) {
  BufferDescriptor a = shared();
  BufferDescriptor b = a;
  b.padding0[0] = 9;
  b.identity.padding[5] = 9;
  EXPECT_EQ(differing_fields(a, b), "");
  b.nbytes = 1;
  b.access = AccessMode::kRead;
  EXPECT_EQ(differing_fields(a, b), "access, nbytes");
  b = a;
  b.identity.generation = 4;
  b.body[0] = '2';
  EXPECT_EQ(differing_fields(a, b), "identity, body");
}

TEST(CanonicalIdentity, ComparisonAndHashIgnoreThePadding) {
  CanonicalIdentity a = identity();
  CanonicalIdentity b = a;
  b.padding.fill(0xFF);
  EXPECT_EQ(a, b);
  EXPECT_EQ(hash_of(a), hash_of(b));
  b.generation = 4;
  EXPECT_FALSE(a == b);
  b = a;
  b.owner_instance_id[7] ^= 1;
  EXPECT_FALSE(a == b);
  EXPECT_EQ(to_string(a), "1011121314151617/72623859790382856.3");
  std::unordered_set<uint64_t> hashes;
  for (uint64_t id = 0; id < 10000; ++id) {
    a.buffer_id = id;
    hashes.insert(hash_of(a));
  }
  EXPECT_EQ(hashes.size(), 10000u);
}

}  // namespace
}  // namespace simpler
