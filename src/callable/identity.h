// What a callable is called: a SHA-256 over a canonical description of what would run.
//
// Little-endian 32-bit numbers; strings and byte arrays as length and bytes; every description begins with the schema
// version 1 and the kind. Names, shapes, configs and build provenance take no part. Two registrations with equal
// digests are the same code; for closures that can only travel by fork the identity is random and therefore unique.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"
#include "simpler/enums.h"
#include "simpler/status.h"

namespace simpler::callable {

using Digest = Sha256Digest;

struct Identity {
  CallableKind kind = CallableKind::kNativeFunction;
  std::vector<std::byte> descriptor;  // what was hashed
  Digest digest{};
};

// `arch` may be empty; `blob` is the callable's whole binary.
Identity chip_callable_identity(std::string_view arch, std::string_view platform, std::string_view runtime,
                                std::span<const std::byte> blob, std::span<const ArgDirection> signature);
// `payload` is the serializer's output without its envelope.
Identity python_serialized_identity(std::span<const std::byte> payload);
// "module:qualname".
Result<Identity> python_import_identity(std::string_view target);
Identity native_function_identity(std::string_view name, uint32_t version);
// A new identity each time.
Result<Identity> python_fork_only_identity();
Identity python_fork_only_identity(const Digest& random);

// "sha256:" and 64 lower-case hexadecimal digits.
std::string hashid(const Digest& digest);
// kInvalidArgument with HASHID_FORMAT_INVALID.
Result<Digest> parse_hashid(std::string_view text);

// Checks a description that came from elsewhere against the digest that it was announced under: well-formed, known kind
// (CALLABLE_KIND_UNSUPPORTED otherwise), same digest (HASHID_DESCRIPTOR_MISMATCH otherwise).
Result<Identity> identity_from(std::span<const std::byte> descriptor, const Digest& announced);

struct ImportTarget {
  std::string module;
  std::string qualname;
};
// Exactly one ':', an absolute dotted module, dotted identifiers, no "<locals>".
Result<ImportTarget> parse_import_target(std::string_view target);

// The envelope around a serialized Python callable: "SPYC", version 1, serializer 1, flags 0, length, bytes.
inline constexpr size_t kEnvelopeBytes = 16;
std::vector<std::byte> wrap_payload(std::span<const std::byte> payload);
// The payload inside; kCorrupt when anything but the exact form is found. To be checked before anything is unpickled.
Result<std::span<const std::byte>> unwrap_payload(std::span<const std::byte> envelope);

}  // namespace simpler::callable
