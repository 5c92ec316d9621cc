"""Every value type, enumeration and limit under the one name that programs import them from."""

from __future__ import annotations

from ._enums import (
    AccessMode,
    AddressSpace,
    ArgDirection,
    BackendKind,
    CallableKind,
    DataType,
    TargetNamespace,
    TaskState,
    TensorArgType,
    WorkerType,
)
from ._log import DEFAULT_THRESHOLD as DEFAULT_LOG_THRESHOLD
from ._native import (
    BufferDescriptor,
    CallableHandle,
    CallConfig,
    CanonicalIdentity,
    ChipCallable,
    ChipStorageTaskArgs,
    ChipTensor,
    CoreCallable,
    RuntimeEnv,
    TaskArgs,
    TaskHandle,
    Tensor,
    arg_direction_name,
    get_dtype_name,
    get_element_size,
    scalar_to_uint64,
)
from .buffer import Buffer, MappedArg, MappedArgs

MAX_TENSOR_DIMS = 5
RUNTIME_ENV_RING_COUNT = 4
MAX_RING_DEPTH = 4
MAX_SCOPE_DEPTH = 64
DEFAULT_HEAP_RING_SIZE = 1 << 30
DESC_MAX_BYTES = 32
OWNER_INSTANCE_ID_BYTES = 8
MAILBOX_STATE_VALUES = {
    "IDLE": 0,
    "TASK_READY": 1,
    "TASK_DONE": 2,
    "SHUTDOWN": 3,
    "CONTROL_REQUEST": 4,
    "CONTROL_DONE": 5,
    "INIT_READY": 6,
    "INIT_FAILED": 7,
    "FRAME_STAGED": 8,
    "TASK_LAUNCHED": 9,
    "TASK_FAILED": 10,
    "ACTIVATE": 11,
    "PREPARE_READY": 12,
}

__all__ = [
    "AccessMode",
    "AddressSpace",
    "ArgDirection",
    "BackendKind",
    "Buffer",
    "BufferDescriptor",
    "CallConfig",
    "CallableHandle",
    "CallableKind",
    "CanonicalIdentity",
    "ChipCallable",
    "ChipStorageTaskArgs",
    "ChipTensor",
    "CoreCallable",
    "DEFAULT_HEAP_RING_SIZE",
    "DEFAULT_LOG_THRESHOLD",
    "DESC_MAX_BYTES",
    "DataType",
    "MAILBOX_STATE_VALUES",
    "MAX_RING_DEPTH",
    "MAX_SCOPE_DEPTH",
    "MAX_TENSOR_DIMS",
    "MappedArg",
    "MappedArgs",
    "OWNER_INSTANCE_ID_BYTES",
    "RUNTIME_ENV_RING_COUNT",
    "RuntimeEnv",
    "TargetNamespace",
    "TaskArgs",
    "TaskHandle",
    "TaskState",
    "Tensor",
    "TensorArgType",
    "WorkerType",
    "arg_direction_name",
    "get_dtype_name",
    "get_element_size",
    "scalar_to_uint64",
]
