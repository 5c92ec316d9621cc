// Payloads of control commands. Larger ones travel in a shared mapping that the command names.
//
// Every reader checks lengths and records before anything is used. Commands and their words:
// | command                        | args                                            | payload                        |
// | kRegister, kPythonRegister     | callable index, CallableKind, bytes, trace name | staging place, NUL, name       |
// | kUnregister, kPythonUnregister | callable index                                  |                                |
// | kMalloc (result: address)      | bytes                                           |                                |
// | kFree                          | address                                         |                                |
// | kCopyTo, kCopyFrom             | device address, bytes, host offset              | descriptor of the host buffer  |
// | kImportRelease                 |                                                 | identity, 32 bytes             |
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lane/handler.h"
#include "memory/shared_mapping.h"
#include "simpler/buffer_descriptor.h"
#include "simpler/enums.h"
#include "simpler/status.h"
#include "trace/event.h"

namespace simpler::worker {

// A callable's bytes in shared memory: what a register command names. Kept by the sender until every child answered.
class StagedBytes {
 public:
  static Result<StagedBytes> create(std::span<const std::byte> bytes);
  // For the payload of a command.
  std::vector<std::byte> payload(std::string_view name) const;
  std::uint64_t size() const { return size_; }

 private:
  memory::SharedMapping mapping_;
  std::uint64_t size_ = 0;
};

struct RegisterRequest {
  std::uint16_t index = 0;
  CallableKind kind{};
  std::string name;
  trace::NameId trace_name;
  std::vector<std::byte> bytes;
};

Result<RegisterRequest> read_register_request(const lane::ControlCall& call);
Result<CanonicalIdentity> read_identity(const lane::ControlCall& call);
Result<BufferDescriptor> read_descriptor(const lane::ControlCall& call);

// The bytes of a plain record, for a payload.
template <class T>
std::span<const std::byte> bytes_of(const T& record) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_bytes(std::span(&record, 1));
}

}  // namespace simpler::worker
