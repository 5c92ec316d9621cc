#include "callable/identity.h"

#include <cstring>

#include <gtest/gtest.h>

#include "base/seeded_random.h"

namespace simpler::callable {
namespace {

std::string hex(std::span<const std::byte> bytes) {
  return to_hex({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}
std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::vector<std::byte> counting(size_t count) {
  std::vector<std::byte> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<std::byte>(i);
  return out;
}

void expect_golden(const Identity& identity, CallableKind kind, std::string_view descriptor, std::string_view digest) {
  EXPECT_EQ(identity.kind, kind);
  EXPECT_EQ(hex(identity.descriptor), descriptor);
  EXPECT_EQ(to_hex(identity.digest), digest);
  EXPECT_EQ(hashid(identity.digest), "sha256:" + std::string(digest));
}

// Golden values: Python's struct and hashlib.
TEST(Identity, ChipCallablesHashPlatformBinaryAndSignature) {
  const ArgDirection signature[] = {ArgDirection::kIn, ArgDirection::kIn, ArgDirection::kOut, ArgDirection::kScalar};
  expect_golden(
      chip_callable_identity("a2a3", "a2a3sim", "host_build_graph", counting(200), signature),
      CallableKind::kChipCallable,
      "01000000010000000400000061326133070000006132613373696d10000000686f73745f6275696c645f67726170682000000019"
      "01da1c9f699b48f6b2636e65cbf73abf99d0441ef67f5c540a42f7051dec6f200000005413d4c8ba2890f5329251a7731aa4d1"
      "3937f8a9e3e1d9116a0dff7d7d6b1985",
      "c81f42cf71626c3583b5416455f98a350957b2a881ac2a7dcc2177ba111bb418");
  expect_golden(
      chip_callable_identity("", "tiny", "host_build_graph", {}, {}), CallableKind::kChipCallable,
      "0100000001000000000000000400000074696e7910000000686f73745f6275696c645f677261706820000000e3b0c44298fc1c14"
      "9afbf4c8996fb92427ae41e4649b934ca495991b7852b855200000007c9fa136d4413fa6173637e883b6998d32e1d675f88cdd"
      "ff9dcbcf331820f4b8",
      "9ce71f5f8b3296096011e698226b42831ae219af37fddcb76f3c561d105a6b0c");
}

TEST(Identity, SerializedPythonHashesThePayloadWithoutItsEnvelope) {
  expect_golden(
      python_serialized_identity(bytes("\x80\x05payload")), CallableKind::kPythonSerialized,
      "0100000002000000010000000100000020000000ad20e34432dc08cf12834d256426364b16b4fe1d528ca13bb9cd8dddadf3b9a7",
      "669ed04b11858f0b6544d300b06a450d403d00ee20527fc8e19d0c88374d3659");
}

TEST(Identity, ImportedPythonHashesModuleAndName) {
  const Result<Identity> identity = python_import_identity("package.module:Class.method");
  ASSERT_TRUE(identity.ok());
  expect_golden(*identity, CallableKind::kPythonImport,
                "01000000030000000e0000007061636b6167652e6d6f64756c650c000000436c6173732e6d6574686f64",
                "ba5f568e60db1205e7b8be9d598b319761b031873e35c0481f30e75ddae2dbcf");
}

TEST(Identity, NativeFunctionsHashNameAndVersion) {
  expect_golden(native_function_identity("embed", 7), CallableKind::kNativeFunction,
                "010000000400000005000000656d62656407000000",
                "97aeed866abfd25400f1afc5c3f0dbb231ca785906aad44760a21c6014239f82");
}

TEST(Identity, ForkOnlyCallablesAreUnique) {
  Digest random;
  for (size_t i = 0; i < random.size(); ++i) random[i] = static_cast<uint8_t>(i);
  expect_golden(python_fork_only_identity(random), CallableKind::kPythonForkOnly,
                "010000000500000020000000000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
                "9f6829c6944ea1561cb2295a133783b4cfe8dfef6f6579e9835ad350f169a80b");
  EXPECT_NE(python_fork_only_identity()->digest, python_fork_only_identity()->digest);
}

TEST(Identity, HashidsReadBackAndMalformedOnesAreRefused) {
  const Digest digest = native_function_identity("embed", 7).digest;
  EXPECT_EQ(*parse_hashid(hashid(digest)), digest);
  std::string text = hashid(digest);
  for (const std::string& bad :
       {std::string(), text.substr(1), text + "0", text.substr(0, 70), "md5:" + text.substr(7), std::string(71, 'a')}) {
    const Result<Digest> parsed = parse_hashid(bad);
    ASSERT_FALSE(parsed.ok()) << bad;
    EXPECT_NE(parsed.status().message().find("HASHID_FORMAT_INVALID"), std::string_view::npos);
  }
  for (size_t at = 7; at < text.size(); ++at) {
    std::string bad = text;
    bad[at] = (at & 1) != 0 ? 'g' : 'A';
    EXPECT_FALSE(parse_hashid(bad).ok()) << at;
  }
}

TEST(Identity, DescriptionsFromElsewhereMustMatchTheirDigest) {
  for (const Identity& identity :
       {chip_callable_identity("a", "p", "r", counting(9), {}), python_serialized_identity(counting(3)),
        *python_import_identity("m:f"), native_function_identity("n", 1), *python_fork_only_identity()}) {
    const Result<Identity> read = identity_from(identity.descriptor, identity.digest);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->kind, identity.kind);
    for (size_t at = 0; at < identity.descriptor.size(); ++at) {
      std::vector<std::byte> spoiled = identity.descriptor;
      spoiled[at] ^= std::byte{1};
      EXPECT_FALSE(identity_from(spoiled, identity.digest).ok()) << at;
      EXPECT_FALSE(identity_from(std::span(identity.descriptor).first(at), identity.digest).ok()) << at;
    }
    std::vector<std::byte> longer = identity.descriptor;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(identity_from(longer, sha256(longer)).ok());
    Digest other = identity.digest;
    other[0] ^= 1;
    EXPECT_NE(identity_from(identity.descriptor, other).status().message().find("HASHID_DESCRIPTOR_MISMATCH"),
              std::string_view::npos);
  }
}

TEST(Identity, UnknownKindsAndSchemasAreNamed) {
  std::vector<std::byte> descriptor = native_function_identity("n", 1).descriptor;
  for (const int kind : {0, 6, 255}) {
    descriptor[4] = static_cast<std::byte>(kind);
    EXPECT_NE(identity_from(descriptor, sha256(descriptor)).status().message().find("CALLABLE_KIND_UNSUPPORTED"),
              std::string_view::npos);
  }
  descriptor[4] = std::byte{4};
  descriptor[0] = std::byte{2};
  EXPECT_NE(identity_from(descriptor, sha256(descriptor)).status().message().find("CALLABLE_KIND_UNSUPPORTED"),
            std::string_view::npos);
}

TEST(ImportTarget, OnlyAbsoluteDottedNamesAreTaken) {
  for (const std::string_view good : {"m:f", "a.b.c:D.e", "_x1:_y2", "m:caf\xC3\xA9"}) {
    EXPECT_TRUE(parse_import_target(good).ok()) << good;
  }
  for (const std::string_view bad : {"", ":", "m", "m:", ":f", "m:f:g", ".m:f", "m.:f", "m..n:f", "m:f.", "1m:f",
                                     "m:1f", "m n:f", "m:f()", "m:outer.<locals>.f", "m:<lambda>", "a/b:f", "m:f-g"}) {
    EXPECT_FALSE(parse_import_target(bad).ok()) << bad;
  }
}

TEST(Envelope, BytesEqualTheGoldenVectorAndReadBack) {
  const std::vector<std::byte> wrapped = wrap_payload(bytes("abc"));
  EXPECT_EQ(hex(wrapped), "53505943010100000300000000000000616263");
  const auto payload = unwrap_payload(wrapped);
  ASSERT_TRUE(payload.ok());
  EXPECT_EQ(hex(*payload), "616263");
  EXPECT_TRUE(unwrap_payload(wrap_payload({})).ok());
}

TEST(Envelope, NothingThatDiffersIsUnwrapped) {  // B097
  const std::vector<std::byte> wrapped = wrap_payload(bytes("abc"));
  for (size_t size = 0; size < wrapped.size(); ++size) {
    EXPECT_FALSE(unwrap_payload(std::span(wrapped).first(size)).ok()) << size;
  }
  for (size_t at = 0; at < kEnvelopeBytes; ++at) {
    for (int value = 1; value < 256; ++value) {
      std::vector<std::byte> spoiled = wrapped;
      spoiled[at] ^= static_cast<std::byte>(value);
      EXPECT_FALSE(unwrap_payload(spoiled).ok()) << at << " " << value;
    }
  }
}

}  // namespace
}  // namespace simpler::callable
