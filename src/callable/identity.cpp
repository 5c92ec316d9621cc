#include "callable/identity.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/random.h>

#include "base/byte_reader.h"
#include "base/status_macros.h"

namespace simpler::callable {
namespace {

constexpr uint32_t kSchemaVersion = 1;
constexpr uint32_t kPayloadVersion = 1;
constexpr uint32_t kCloudpickle = 1;
constexpr std::string_view kHashidPrefix = "sha256:";
constexpr std::string_view kEnvelopeMagic = "SPYC";

class Encoder {
 public:
  Encoder& u32(uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) bytes_.push_back(static_cast<std::byte>(value >> shift));
    return *this;
  }
  Encoder& bytes(std::span<const std::byte> value) {
    u32(static_cast<uint32_t>(value.size()));
    bytes_.insert(bytes_.end(), value.begin(), value.end());
    return *this;
  }
  Encoder& text(std::string_view value) { return bytes(std::as_bytes(std::span(value))); }
  Encoder& digest(const Digest& value) { return bytes(std::as_bytes(std::span(value))); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

Encoder begin(CallableKind kind) {
  Encoder encoder;
  encoder.u32(kSchemaVersion).u32(static_cast<uint32_t>(kind));
  return encoder;
}

Identity finish(CallableKind kind, Encoder& encoder) {
  Identity identity{kind, encoder.take(), {}};
  identity.digest = sha256(identity.descriptor);
  return identity;
}

Digest signature_digest(std::span<const ArgDirection> signature) {
  Encoder encoder;
  encoder.u32(kSchemaVersion).u32(static_cast<uint32_t>(signature.size()));
  for (const ArgDirection direction : signature) encoder.u32(static_cast<uint32_t>(direction));
  return sha256(encoder.take());
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}
bool is_identifier(std::string_view part) {
  return !part.empty() && is_letter(part.front()) &&
         std::all_of(part.begin(), part.end(), [](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}
bool is_dotted(std::string_view path) {
  while (true) {
    const size_t dot = path.find('.');
    if (!is_identifier(path.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    path = path.substr(dot + 1);
  }
}

// Reads the fields that a kind has, so that a description with missing or extra bytes is refused.
Status walk(ByteReader& reader, CallableKind kind) {
  const auto field = [&reader] { return reader.bytes(reader.u32()); };
  const auto digest = [&]() -> Status {
    return field().size() == sizeof(Digest) ? Status::ok() : corrupt("a digest field has another length than 32");
  };
  switch (kind) {
    case CallableKind::kChipCallable:
      for (int i = 0; i < 3; ++i) field();
      SIMPLER_RETURN_IF_ERROR(digest());
      return digest();
    case CallableKind::kPythonSerialized:
      if (reader.u32() != kPayloadVersion || reader.u32() != kCloudpickle) {
        return unsupported("CALLABLE_KIND_UNSUPPORTED: unknown payload version or serializer");
      }
      return digest();
    case CallableKind::kPythonImport:
      field();
      field();
      return Status::ok();
    case CallableKind::kNativeFunction:
      field();
      reader.u32();
      return Status::ok();
    case CallableKind::kPythonForkOnly:
      return digest();
  }
  return unsupported("CALLABLE_KIND_UNSUPPORTED: kind " + std::to_string(static_cast<uint32_t>(kind)));
}

}  // namespace

Identity chip_callable_identity(std::string_view arch, std::string_view platform, std::string_view runtime,
                                std::span<const std::byte> blob, std::span<const ArgDirection> signature) {
  Encoder encoder = begin(CallableKind::kChipCallable);
  encoder.text(arch).text(platform).text(runtime).digest(sha256(blob)).digest(signature_digest(signature));
  return finish(CallableKind::kChipCallable, encoder);
}

Identity python_serialized_identity(std::span<const std::byte> payload) {
  Encoder encoder = begin(CallableKind::kPythonSerialized);
  encoder.u32(kPayloadVersion).u32(kCloudpickle).digest(sha256(payload));
  return finish(CallableKind::kPythonSerialized, encoder);
}

Result<Identity> python_import_identity(std::string_view target) {
  SIMPLER_ASSIGN_OR_RETURN(const ImportTarget parsed, parse_import_target(target));
  Encoder encoder = begin(CallableKind::kPythonImport);
  encoder.text(parsed.module).text(parsed.qualname);
  return finish(CallableKind::kPythonImport, encoder);
}

Identity native_function_identity(std::string_view name, uint32_t version) {
  Encoder encoder = begin(CallableKind::kNativeFunction);
  encoder.text(name).u32(version);
  return finish(CallableKind::kNativeFunction, encoder);
}

Result<Identity> python_fork_only_identity() {
  Digest random;
  if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    return system_error(errno, "getrandom");
  }
  return python_fork_only_identity(random);
}

Identity python_fork_only_identity(const Digest& random) {
  Encoder encoder = begin(CallableKind::kPythonForkOnly);
  encoder.digest(random);
  return finish(CallableKind::kPythonForkOnly, encoder);
}

std::string hashid(const Digest& digest) {
  return std::string(kHashidPrefix) + to_hex(digest);
}

Result<Digest> parse_hashid(std::string_view text) {
  const auto bad = [&] {
    return invalid_argument("HASHID_FORMAT_INVALID: '" + std::string(text.substr(0, 100)) +
                            "' is not 'sha256:' and 64 lower-case hexadecimal digits");
  };
  Digest digest;
  if (!text.starts_with(kHashidPrefix) || text.size() != kHashidPrefix.size() + 2 * digest.size()) return bad();
  const std::string_view digits = text.substr(kHashidPrefix.size());
  const auto value = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
  for (size_t i = 0; i < digest.size(); ++i) {
    const int high = value(digits[2 * i]);
    const int low = value(digits[2 * i + 1]);
    if (high < 0 || low < 0) return bad();
    digest[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return digest;
}

Result<Identity> identity_from(std::span<const std::byte> descriptor, const Digest& announced) {
  ByteReader reader(descriptor);
  const uint32_t schema = reader.u32();
  const auto kind = static_cast<CallableKind>(reader.u32());
  SIMPLER_RETURN_IF_ERROR(reader.status().context("callable description"));
  if (schema != kSchemaVersion) {
    return unsupported("CALLABLE_KIND_UNSUPPORTED: description schema " + std::to_string(schema));
  }
  Status fields = walk(reader, kind);
  SIMPLER_RETURN_IF_ERROR(reader.status().context("callable description"));
  SIMPLER_RETURN_IF_ERROR(std::move(fields));
  SIMPLER_RETURN_IF_ERROR(reader.finish().context("callable description"));
  Identity identity{kind, {descriptor.begin(), descriptor.end()}, sha256(descriptor)};
  if (identity.digest != announced) {
    return corrupt("HASHID_DESCRIPTOR_MISMATCH: announced as " + hashid(announced) + ", the description gives " +
                   hashid(identity.digest));
  }
  return identity;
}

Result<ImportTarget> parse_import_target(std::string_view target) {
  const size_t colon = target.find(':');
  const auto bad = [&](std::string_view why) {
    return invalid_argument("'" + std::string(target) + "' is no import target (module:qualname): " + std::string(why));
  };
  if (colon == std::string_view::npos || target.find(':', colon + 1) != std::string_view::npos) {
    return bad("it needs exactly one ':'");
  }
  const std::string_view module = target.substr(0, colon);
  const std::string_view qualname = target.substr(colon + 1);
  if (qualname.find("<locals>") != std::string_view::npos) return bad("a local function cannot be imported");
  if (!is_dotted(module)) return bad("the module is not an absolute dotted name");
  if (!is_dotted(qualname)) return bad("the qualified name is not made of dotted identifiers");
  return ImportTarget{std::string(module), std::string(qualname)};
}

std::vector<std::byte> wrap_payload(std::span<const std::byte> payload) {
  std::vector<std::byte> envelope(kEnvelopeBytes + payload.size());
  std::memcpy(envelope.data(), kEnvelopeMagic.data(), kEnvelopeMagic.size());
  envelope[4] = std::byte{1};
  envelope[5] = std::byte{1};
  const uint64_t size = payload.size();
  std::memcpy(envelope.data() + 8, &size, sizeof size);
  std::copy(payload.begin(), payload.end(), envelope.begin() + kEnvelopeBytes);
  return envelope;
}

Result<std::span<const std::byte>> unwrap_payload(std::span<const std::byte> envelope) {
  ByteReader reader(envelope);
  const std::string_view magic = reader.text(kEnvelopeMagic.size());
  const uint8_t version = reader.u8();
  const uint8_t serializer = reader.u8();
  const uint16_t flags = reader.u16();
  const uint64_t size = reader.u64();
  SIMPLER_RETURN_IF_ERROR(reader.status().context("callable payload"));
  if (magic != kEnvelopeMagic) return corrupt("callable payload: the magic is not SPYC");
  if (version != 1 || serializer != 1 || flags != 0) {
    return corrupt("callable payload: version " + std::to_string(version) + ", serializer " +
                   std::to_string(serializer) + ", flags " + std::to_string(flags) + " are not 1, 1, 0");
  }
  if (size != reader.remaining()) {
    return corrupt("callable payload: " + std::to_string(size) + " bytes announced, " +
                   std::to_string(reader.remaining()) + " present");
  }
  return envelope.subspan(kEnvelopeBytes);
}

}  // namespace simpler::callable
