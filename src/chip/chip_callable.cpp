// Builds and parses callables. Parsing trusts nothing: every count, length and offset is checked before it is used.
#include "simpler/chip_callable.h"

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"

namespace simpler {
namespace {

constexpr std::size_t kBuiltinHead = 8;  // version and length of the name
constexpr uint32_t kMaxBuiltinName = 255;

Status check_signature(std::span<const ArgDirection> signature, uint32_t most, const char* what) {
  if (signature.size() > most) {
    return invalid_argument(std::string(what) + ": signature has " + std::to_string(signature.size()) +
                            " entries, at most " + std::to_string(most) + " fit");
  }
  for (ArgDirection direction : signature) {
    if (!is_known(direction)) return invalid_argument(std::string(what) + ": unknown direction in the signature");
  }
  return Status::ok();
}

Status check_builtin_code(std::span<const std::byte> code, const char* what) {
  uint32_t length = 0;
  if (code.size() >= kBuiltinHead) std::memcpy(&length, code.data() + 4, 4);
  if (code.size() < kBuiltinHead || length == 0 || length > kMaxBuiltinName || code.size() != kBuiltinHead + length) {
    return invalid_argument(std::string(what) +
                            ": a built-in reference is u32 version, u32 length and a name of 1 to " +
                            std::to_string(kMaxBuiltinName) + " bytes");
  }
  return Status::ok();
}

std::vector<std::byte> builtin_code(const BuiltinName& name) {
  std::vector<std::byte> code(kBuiltinHead + name.name.size());
  const auto length = static_cast<uint32_t>(name.name.size());
  std::memcpy(code.data(), &name.version, 4);
  std::memcpy(code.data() + 4, &length, 4);
  std::memcpy(code.data() + kBuiltinHead, name.name.data(), name.name.size());
  return code;
}

BuiltinName parse_builtin(std::span<const std::byte> code) {
  BuiltinName out;
  std::memcpy(&out.version, code.data(), 4);
  out.name.assign(reinterpret_cast<const char*>(code.data() + kBuiltinHead), code.size() - kBuiltinHead);
  return out;
}

template <std::size_t N>
uint32_t put_name(std::array<char, N>& field, std::string_view name) {
  const std::size_t length = std::min(name.size(), N - 1);
  std::copy_n(name.data(), length, field.data());
  return static_cast<uint32_t>(length);
}

// A name as `put_name` leaves it: its length below the field, zeros behind it, none inside.
template <std::size_t N>
bool is_name(const std::array<char, N>& field, uint32_t length) {
  if (length >= N) return false;
  for (std::size_t i = 0; i < N; ++i) {
    if ((field[i] == '\0') != (i >= length)) return false;
  }
  return true;
}

template <std::size_t N>
Status check_header_signature(const std::array<int32_t, N>& signature, uint32_t count, const char* what) {
  if (count > N) return invalid_argument(std::string(what) + ": sig_count is larger than the signature");
  for (std::size_t i = 0; i < N; ++i) {
    if (signature[i] < 0 || signature[i] > 3 || (i >= count && signature[i] != 0)) {
      return invalid_argument(std::string(what) + ": signature entry " + std::to_string(i) + " is not a direction");
    }
  }
  return Status::ok();
}

ArgDirection direction_at(std::span<const int32_t> signature, uint32_t count, uint32_t index) {
  if (index >= count) {
    throw Error(out_of_range("signature index " + std::to_string(index) + ", the callable has " +
                             std::to_string(count) + " entries"));
  }
  return static_cast<ArgDirection>(signature[index]);
}

template <class T>
T or_throw(Result<T> result) {
  if (!result.ok()) throw Error(std::move(result).status());
  return std::move(result).value();
}

constexpr uint64_t aligned_up(uint64_t value, uint64_t to) {
  return (value + to - 1) / to * to;
}

}  // namespace

// --- CoreCallable

Result<CoreCallable> CoreCallable::try_build(std::span<const ArgDirection> signature, std::span<const std::byte> code,
                                             CodeKind kind) {
  SIMPLER_RETURN_IF_ERROR(check_signature(signature, kMaxCoreSignature, "CoreCallable"));
  if (kind == CodeKind::kBuiltin) SIMPLER_RETURN_IF_ERROR(check_builtin_code(code, "CoreCallable"));
  if (code.empty() || code.size() > 0x7fffffffu) {
    return invalid_argument("CoreCallable: the binary has " + std::to_string(code.size()) +
                            " bytes; it must have between 1 and 2147483647");
  }
  CoreCallableHeader header{};
  for (std::size_t i = 0; i < signature.size(); ++i) header.signature[i] = static_cast<int32_t>(signature[i]);
  header.sig_count = static_cast<uint32_t>(signature.size());
  header.binary_size = static_cast<uint32_t>(code.size());
  header.magic = kCoreCallableMagic;
  header.version = kCallableFormatVersion;
  header.kind = kind;
  std::vector<std::byte> bytes(sizeof(header) + code.size());
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + sizeof(header), code.data(), code.size());
  return CoreCallable(std::move(bytes));
}

Result<CoreCallable> CoreCallable::try_from_bytes(std::span<const std::byte> bytes) {
  CoreCallableHeader header;
  if (bytes.size() < sizeof(header)) {
    return invalid_argument("CoreCallable: " + std::to_string(bytes.size()) + " bytes are less than its header of " +
                            std::to_string(sizeof(header)));
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != kCoreCallableMagic) return invalid_argument("CoreCallable: the bytes do not begin with one");
  if (header.version != kCallableFormatVersion) {
    return unsupported("CoreCallable: format version " + std::to_string(header.version) + ", this runtime reads " +
                       std::to_string(kCallableFormatVersion));
  }
  if (header.kind != CodeKind::kSharedObject && header.kind != CodeKind::kBuiltin) {
    return invalid_argument("CoreCallable: unknown kind of code");
  }
  if (header.resolved_addr != 0) return invalid_argument("CoreCallable: resolved_addr must be 0");
  SIMPLER_RETURN_IF_ERROR(check_header_signature(header.signature, header.sig_count, "CoreCallable"));
  if (header.binary_size == 0 || header.binary_size != bytes.size() - sizeof(header)) {
    return invalid_argument("CoreCallable: binary_size is " + std::to_string(header.binary_size) + ", but " +
                            std::to_string(bytes.size() - sizeof(header)) + " bytes follow the header");
  }
  const auto code = bytes.subspan(sizeof(header));
  if (header.kind == CodeKind::kBuiltin) SIMPLER_RETURN_IF_ERROR(check_builtin_code(code, "CoreCallable"));
  return CoreCallable(std::vector<std::byte>(bytes.begin(), bytes.end()));
}

CoreCallable CoreCallable::build(std::span<const ArgDirection> signature, std::span<const std::byte> binary) {
  return or_throw(try_build(signature, binary, CodeKind::kSharedObject));
}

CoreCallable CoreCallable::builtin(std::span<const ArgDirection> signature, const BuiltinName& name) {
  return or_throw(try_build(signature, builtin_code(name), CodeKind::kBuiltin));
}

ArgDirection CoreCallable::sig(uint32_t index) const {
  return direction_at(header().signature, header().sig_count, index);
}

BuiltinName CoreCallable::builtin_name() const {
  return parse_builtin(binary());
}

// --- ChipCallable

Result<ChipCallable> ChipCallable::try_build(std::span<const ArgDirection> signature, std::string_view func_name,
                                             std::span<const std::byte> code, CodeKind kind,
                                             std::span<const ChipChild> children, std::string_view config_name) {
  SIMPLER_RETURN_IF_ERROR(check_signature(signature, kMaxChipSignature, "ChipCallable"));
  if (kind == CodeKind::kBuiltin) SIMPLER_RETURN_IF_ERROR(check_builtin_code(code, "ChipCallable"));
  if (code.empty() || code.size() > kMaxOrchestrationBytes) {
    return invalid_argument("ChipCallable: the orchestration has " + std::to_string(code.size()) +
                            " bytes; it must have between 1 and " + std::to_string(kMaxOrchestrationBytes));
  }
  if (kind == CodeKind::kSharedObject && func_name.empty()) {
    return invalid_argument("ChipCallable: the orchestration needs the name of its entry function");
  }
  if (children.size() > kMaxChipChildren) {
    return invalid_argument("ChipCallable: " + std::to_string(children.size()) + " kernels, at most " +
                            std::to_string(kMaxChipChildren));
  }
  ChipCallableHeader header{};
  for (std::size_t i = 0; i < signature.size(); ++i) header.signature[i] = static_cast<int32_t>(signature[i]);
  header.sig_count = static_cast<uint32_t>(signature.size());
  header.binary_size = static_cast<uint32_t>(code.size());
  header.func_name_length = put_name(header.func_name, func_name);
  header.config_name_length = put_name(header.config_name, config_name);
  header.child_count = static_cast<uint32_t>(children.size());
  header.magic = kChipCallableMagic;
  header.version = kCallableFormatVersion;
  header.kind = kind;
  uint64_t storage = code.size();
  for (std::size_t i = 0; i < children.size(); ++i) {
    if (children[i].func_id >= kMaxChipChildren) {
      return invalid_argument("ChipCallable: func_id " + std::to_string(children[i].func_id) + " of kernel " +
                              std::to_string(i) + " is not below " + std::to_string(kMaxChipChildren));
    }
    for (std::size_t k = 0; k < i; ++k) {
      if (children[k].func_id == children[i].func_id) {
        return invalid_argument("ChipCallable: func_id " + std::to_string(children[i].func_id) + " is used twice");
      }
    }
    storage = aligned_up(storage, 64);
    header.child_func_ids[i] = children[i].func_id;
    header.child_offsets[i] = static_cast<uint32_t>(storage);
    storage += children[i].callable.buffer_size();
    if (storage > 0x7fffffffu) return invalid_argument("ChipCallable: more than 2 GiB of code");
  }
  std::vector<std::byte> bytes(sizeof(header) + storage);
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + sizeof(header), code.data(), code.size());
  for (std::size_t i = 0; i < children.size(); ++i) {
    const auto child = children[i].callable.bytes();
    std::memcpy(bytes.data() + sizeof(header) + header.child_offsets[i], child.data(), child.size());
  }
  return ChipCallable(std::move(bytes));
}

namespace {

Status check_chip_header(const ChipCallableHeader& header, std::size_t storage) {
  if (header.magic != kChipCallableMagic) return invalid_argument("ChipCallable: the bytes do not begin with one");
  if (header.version != kCallableFormatVersion) {
    return unsupported("ChipCallable: format version " + std::to_string(header.version) + ", this runtime reads " +
                       std::to_string(kCallableFormatVersion));
  }
  if (header.kind != CodeKind::kSharedObject && header.kind != CodeKind::kBuiltin) {
    return invalid_argument("ChipCallable: unknown kind of code");
  }
  SIMPLER_RETURN_IF_ERROR(check_header_signature(header.signature, header.sig_count, "ChipCallable"));
  if (header.binary_size == 0 || header.binary_size > kMaxOrchestrationBytes || header.binary_size > storage) {
    return invalid_argument("ChipCallable: binary_size " + std::to_string(header.binary_size) + " does not fit");
  }
  if (!is_name(header.func_name, header.func_name_length) || !is_name(header.config_name, header.config_name_length) ||
      (header.kind == CodeKind::kSharedObject && header.func_name_length == 0)) {
    return invalid_argument("ChipCallable: malformed function name");
  }
  if (header.child_count > kMaxChipChildren) {
    return invalid_argument("ChipCallable: child_count " + std::to_string(header.child_count) + " is too large");
  }
  return Status::ok();
}

// Children follow the orchestration in order, 64-aligned and without gaps, up to the last byte.
Status check_children(const ChipCallableHeader& header, std::span<const std::byte> storage) {
  uint64_t expected = header.binary_size;
  for (uint32_t i = 0; i < header.child_count; ++i) {
    const std::string who = "ChipCallable: kernel " + std::to_string(i);
    if (header.child_func_ids[i] >= kMaxChipChildren) return invalid_argument(who + " has a func_id out of range");
    for (uint32_t k = 0; k < i; ++k) {
      if (header.child_func_ids[k] == header.child_func_ids[i]) return invalid_argument(who + " repeats a func_id");
    }
    expected = aligned_up(expected, 64);
    if (header.child_offsets[i] != expected || expected + sizeof(CoreCallableHeader) > storage.size()) {
      return invalid_argument(who + " has offset " + std::to_string(header.child_offsets[i]) + ", expected " +
                              std::to_string(expected) + " with room for its header");
    }
    CoreCallableHeader child;
    std::memcpy(&child, storage.data() + expected, sizeof(child));
    const uint64_t size = sizeof(child) + uint64_t{child.binary_size};
    if (size > storage.size() - expected) return invalid_argument(who + " does not fit into the bytes");
    auto parsed = CoreCallable::try_from_bytes(storage.subspan(expected, size));
    if (!parsed.ok()) return std::move(parsed).status().context(who);
    expected += size;
  }
  if (expected != storage.size()) {
    return invalid_argument("ChipCallable: " + std::to_string(storage.size()) + " bytes of storage, the header names " +
                            std::to_string(expected));
  }
  return Status::ok();
}

}  // namespace

Result<ChipCallable> ChipCallable::try_from_bytes(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(ChipCallableHeader)) {
    return invalid_argument("ChipCallable: " + std::to_string(bytes.size()) + " bytes are less than its header of " +
                            std::to_string(sizeof(ChipCallableHeader)));
  }
  auto header = std::make_unique<ChipCallableHeader>();
  std::memcpy(header.get(), bytes.data(), sizeof(ChipCallableHeader));
  const auto storage = bytes.subspan(sizeof(ChipCallableHeader));
  SIMPLER_RETURN_IF_ERROR(check_chip_header(*header, storage.size()));
  if (header->kind == CodeKind::kBuiltin) {
    SIMPLER_RETURN_IF_ERROR(check_builtin_code(storage.first(header->binary_size), "ChipCallable"));
  }
  SIMPLER_RETURN_IF_ERROR(check_children(*header, storage));
  return ChipCallable(std::vector<std::byte>(bytes.begin(), bytes.end()));
}

ChipCallable ChipCallable::build(std::span<const ArgDirection> signature, std::string_view func_name,
                                 std::span<const std::byte> binary, std::span<const ChipChild> children,
                                 std::string_view config_name) {
  return or_throw(try_build(signature, func_name, binary, CodeKind::kSharedObject, children, config_name));
}

ChipCallable ChipCallable::builtin(std::span<const ArgDirection> signature, const BuiltinName& name,
                                   std::span<const ChipChild> children) {
  return or_throw(try_build(signature, name.name, builtin_code(name), CodeKind::kBuiltin, children, {}));
}

ChipCallable ChipCallable::from_bytes(std::span<const std::byte> bytes) {
  return or_throw(try_from_bytes(bytes));
}

ArgDirection ChipCallable::sig(uint32_t index) const {
  return direction_at(header().signature, header().sig_count, index);
}

BuiltinName ChipCallable::builtin_name() const {
  return parse_builtin(binary());
}

uint32_t ChipCallable::child_func_id(uint32_t index) const {
  if (index >= child_count())
    throw Error(out_of_range("kernel " + std::to_string(index) + " of " + std::to_string(child_count())));
  return header().child_func_ids[index];
}

uint32_t ChipCallable::child_offset(uint32_t index) const {
  (void)child_func_id(index);
  return header().child_offsets[index];
}

CoreCallable ChipCallable::child(uint32_t index) const {
  const auto storage = bytes().subspan(sizeof(ChipCallableHeader));
  const uint32_t offset = child_offset(index);
  CoreCallableHeader head;
  std::memcpy(&head, storage.data() + offset, sizeof(head));
  return or_throw(CoreCallable::try_from_bytes(storage.subspan(offset, sizeof(head) + head.binary_size)));
}

// --- ChipTensor

bool ChipTensor::is_contiguous() const {
  uint64_t expected = 1;
  for (uint32_t d = ndims; d-- > 0;) {
    if (shapes[d] == 0) return true;
    if (shapes[d] > 1 && strides[d] != expected) return false;
    expected *= shapes[d];
  }
  return true;
}

uint64_t ChipTensor::element_count() const {
  uint64_t count = 1;
  for (uint32_t d = 0; d < ndims; ++d) count *= shapes[d];
  return count;
}

uint64_t ChipTensor::extent_elements() const {
  uint64_t extent = 1;
  for (uint32_t d = 0; d < ndims; ++d) {
    if (shapes[d] == 0) return 0;
    extent += (uint64_t{shapes[d]} - 1) * strides[d];
  }
  return extent;
}

ChipTensor ChipTensor::make(uint64_t data, std::span<const uint32_t> shape, DataType type, bool child_memory) {
  ChipTensor t;
  if (shape.empty() || shape.size() > t.shapes.size()) {
    throw Error(invalid_argument("a tensor has 1 to 5 dimensions, not " + std::to_string(shape.size())));
  }
  if (!is_known(type)) throw Error(invalid_argument("unknown element type"));
  t.addr = data;
  t.ndims = static_cast<uint32_t>(shape.size());
  t.dtype = type;
  t.address_space = child_memory ? AddressSpace::kDevice : AddressSpace::kHost;
  uint64_t stride = 1;
  for (uint32_t d = t.ndims; d-- > 0;) {
    t.shapes[d] = shape[d];
    t.strides[d] = static_cast<uint32_t>(stride);
    stride *= shape[d] == 0 ? 1 : shape[d];
    if (stride > 0xffffffffu) throw Error(invalid_argument("a tensor has less than 4 Gi elements"));
  }
  t.size = t.nbytes();
  return t;
}

Status validate(const ChipTensor& t) {
  if (t.ndims == 0 || t.ndims > t.shapes.size()) {
    return invalid_argument("tensor rank is " + std::to_string(t.ndims) + ", it must be 1 to 5");
  }
  if (!is_known(t.dtype)) return invalid_argument("unknown element type");
  if (t.address_space != AddressSpace::kHost && t.address_space != AddressSpace::kDevice) {
    return invalid_argument("unknown address space");
  }
  uint64_t extent = 1;
  bool empty = false;
  for (uint32_t d = 0; d < t.ndims; ++d) {
    if (t.strides[d] == 0) return invalid_argument("stride of dimension " + std::to_string(d) + " is 0");
    if (t.shapes[d] == 0) {
      empty = true;
    } else {
      extent += (uint64_t{t.shapes[d]} - 1) * t.strides[d];
    }
  }
  if (empty) return Status::ok();
  const uint64_t width = element_size(t.dtype);
  if (t.start_offset > t.size / width || extent > t.size / width - t.start_offset) {
    return invalid_argument("the view needs " + std::to_string(extent) + " elements from element " +
                            std::to_string(t.start_offset) + ", the buffer has " + std::to_string(t.size) + " bytes");
  }
  if (t.addr == 0) return invalid_argument("a tensor with elements has the address 0");
  return Status::ok();
}

}  // namespace simpler
