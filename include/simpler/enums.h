// Enumerations that several layers share and whose values are visible in wire records or in Python.
//
// Every value is fixed for good: records written by one process are read by another. Functions answer for any byte, so
// a value that came out of shared memory may be tested without having been checked before.
#pragma once

#include <cstdint>
#include <string_view>

namespace simpler {

enum class WorkerType : uint8_t { kNextLevel = 0, kSub = 1 };

enum class TaskState : uint8_t {
  kFree = 0,
  kPending = 1,
  kReady = 2,
  kRunning = 3,
  kCompleted = 4,
  kFailed = 5,
  kConsumed = 6,
  kBuilding = 7,
};

enum class RunPhase : uint8_t {
  kReserved = 0,
  kBuilding = 1,
  kPrepared = 2,
  kExecuting = 3,
  kCompleted = 4,
  kFailed = 5
};

enum class EndpointOutcome : uint8_t { kSuccess = 0, kTaskFailure = 1, kEndpointFailure = 2, kSkipped = 3 };

enum class GroupMemberState : uint8_t { kNotDispatched = 0, kRunning = 1, kSuccess = 2, kFailed = 3, kSkipped = 4 };

// What a task does with a tensor; it decides the edges and never leaves the submitting process.
enum class TensorArgType : uint8_t { kInput = 0, kOutput = 1, kInout = 2, kOutputExisting = 3, kNoDep = 4 };

// One entry of a callable's signature.
enum class ArgDirection : uint8_t { kScalar = 0, kIn = 1, kOut = 2, kInout = 3 };

enum class AccessMode : uint8_t { kRead = 0, kWrite = 1, kReadWrite = 2 };

enum class AddressSpace : uint8_t { kHost = 0, kDevice = 1 };

enum class BackendKind : uint8_t {
  kForkShm = 0,
  kPosixShm = 1,
  kVmmWindow = 2,
  kRemoteSidecar = 3,
  kDeviceMalloc = 4,
  kForkCow = 5,
};

enum class CallableKind : uint32_t {
  kChipCallable = 1,
  kPythonSerialized = 2,
  kPythonImport = 3,
  kNativeFunction = 4,
  kPythonForkOnly = 5,
};

// Native functions live beside the Python ones: both run in host children.
enum class TargetNamespace : uint32_t { kLocalChip = 1, kLocalPython = 2, kRemoteTaskDispatcher = 3 };

enum class RemoteAddressSpace : uint8_t { kHostInline = 1, kRemoteDevice = 2, kRemoteWindow = 3, kUbLdst = 4 };

enum class TensorAddressKind : uint8_t { kLocalHost = 0, kLocalChild = 1, kRemoteBuffer = 2, kHostInline = 3 };

enum class MailboxState : uint8_t {
  kIdle = 0,
  kTaskReady = 1,
  kTaskDone = 2,
  kShutdown = 3,
  kControlRequest = 4,
  kControlDone = 5,
  kInitReady = 6,
  kInitFailed = 7,
  kFrameStaged = 8,
  kTaskLaunched = 9,
  kTaskFailed = 10,
  kActivate = 11,
  kPrepareReady = 12,
};

enum class PreparationDisposition : uint8_t { kNone = 0, kValidatedOnly = 1, kNativePrepared = 2 };

constexpr bool is_known(WorkerType value) {
  return static_cast<uint8_t>(value) <= 1;
}
constexpr bool is_known(TensorArgType value) {
  return static_cast<uint8_t>(value) <= 4;
}
constexpr bool is_known(ArgDirection value) {
  return static_cast<uint8_t>(value) <= 3;
}
constexpr bool is_known(AccessMode value) {
  return static_cast<uint8_t>(value) <= 2;
}
constexpr bool is_known(AddressSpace value) {
  return static_cast<uint8_t>(value) <= 1;
}
constexpr bool is_known(BackendKind value) {
  return static_cast<uint8_t>(value) <= 5;
}
constexpr bool is_known(CallableKind value) {
  return static_cast<uint32_t>(value) - 1U <= 4U;
}
constexpr bool is_known(TargetNamespace value) {
  return static_cast<uint32_t>(value) - 1U <= 2U;
}
constexpr bool is_known(MailboxState value) {
  return static_cast<uint8_t>(value) <= 12;
}

constexpr bool can_read(AccessMode access) {
  return access != AccessMode::kWrite;
}
constexpr bool can_write(AccessMode access) {
  return access != AccessMode::kRead;
}

// True when `access` is enough for an argument with this tag.
constexpr bool grants(AccessMode access, TensorArgType tag) {
  switch (tag) {
    case TensorArgType::kInput:
      return can_read(access);
    case TensorArgType::kOutputExisting:
      return can_write(access);
    case TensorArgType::kInout:
      return access == AccessMode::kReadWrite;
    default:
      return true;
  }
}
constexpr bool reads(TensorArgType tag) {
  return tag == TensorArgType::kInput || tag == TensorArgType::kInout;
}
constexpr bool writes(TensorArgType tag) {
  return tag == TensorArgType::kOutput || tag == TensorArgType::kInout || tag == TensorArgType::kOutputExisting;
}

constexpr std::string_view name_of(AccessMode value) {
  constexpr std::string_view kNames[] = {"READ", "WRITE", "READWRITE"};
  return is_known(value) ? kNames[static_cast<uint8_t>(value)] : "unknown";
}
constexpr std::string_view name_of(AddressSpace value) {
  constexpr std::string_view kNames[] = {"HOST", "DEVICE"};
  return is_known(value) ? kNames[static_cast<uint8_t>(value)] : "unknown";
}
constexpr std::string_view name_of(BackendKind value) {
  constexpr std::string_view kNames[] = {"FORK_SHM",       "POSIX_SHM",     "VMM_WINDOW",
                                         "REMOTE_SIDECAR", "DEVICE_MALLOC", "FORK_COW"};
  return is_known(value) ? kNames[static_cast<uint8_t>(value)] : "unknown";
}
constexpr std::string_view name_of(TensorArgType value) {
  constexpr std::string_view kNames[] = {"INPUT", "OUTPUT", "INOUT", "OUTPUT_EXISTING", "NO_DEP"};
  return is_known(value) ? kNames[static_cast<uint8_t>(value)] : "unknown";
}
constexpr std::string_view name_of(ArgDirection value) {
  constexpr std::string_view kNames[] = {"SCALAR", "IN", "OUT", "INOUT"};
  return is_known(value) ? kNames[static_cast<uint8_t>(value)] : "unknown";
}
constexpr std::string_view name_of(CallableKind value) {
  constexpr std::string_view kNames[] = {"CHIP_CALLABLE", "PYTHON_SERIALIZED", "PYTHON_IMPORT", "NATIVE_FUNCTION",
                                         "PYTHON_FORK_ONLY"};
  return is_known(value) ? kNames[static_cast<uint32_t>(value) - 1] : "unknown";
}
constexpr std::string_view name_of(TargetNamespace value) {
  constexpr std::string_view kNames[] = {"LOCAL_CHIP", "LOCAL_PYTHON", "REMOTE_TASK_DISPATCHER"};
  return is_known(value) ? kNames[static_cast<uint32_t>(value) - 1] : "unknown";
}
constexpr std::string_view name_of(MailboxState value) {
  constexpr std::string_view kNames[] = {
      "IDLE",        "TASK_READY",   "TASK_DONE",     "SHUTDOWN",    "CONTROL_REQUEST", "CONTROL_DONE", "INIT_READY",
      "INIT_FAILED", "FRAME_STAGED", "TASK_LAUNCHED", "TASK_FAILED", "ACTIVATE",        "PREPARE_READY"};
  return is_known(value) ? kNames[static_cast<uint8_t>(value)] : "unknown";
}

}  // namespace simpler
