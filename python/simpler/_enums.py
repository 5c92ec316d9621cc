"""Enumerations with the documented numbers; each may be given as member, number or name."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

_E = TypeVar("_E", bound="NamedEnum")


class NamedEnum(IntEnum):
    """An IntEnum whose members are also found by name, in any case."""

    @classmethod
    def _missing_(cls, value: object) -> NamedEnum | None:
        if isinstance(value, str):
            found = cls.__members__.get(value.upper())
            if found is not None:
                return found
        from . import _advice
        from .errors import InvalidArgument

        raise InvalidArgument(_advice.name(cls.__name__, value, list(cls.__members__)))

    @classmethod
    def of(cls: type[_E], value: int | str) -> _E:
        """Return the member with this number or name.

        Raises
        ------
        InvalidArgument
            There is no such member; the text names the nearest one.

        Examples
        --------
        >>> DataType.of("float32")
        <DataType.FLOAT32: 0>
        """
        return cls[value.upper()] if isinstance(value, str) and value.upper() in cls.__members__ else cls(value)  # type: ignore[arg-type]


class DataType(NamedEnum):
    """Element types of tensors."""

    FLOAT32 = 0
    FLOAT16 = 1
    INT32 = 2
    INT16 = 3
    INT8 = 4
    UINT8 = 5
    BFLOAT16 = 6
    INT64 = 7
    UINT64 = 8
    UINT16 = 9
    UINT32 = 10
    BOOL = 11
    FP8E4M3FN = 12
    FP8E8M0 = 13
    FP4E2M1 = 14


class TensorArgType(NamedEnum):
    """What a task does with a tensor; decides which tasks wait for it."""

    INPUT = 0
    OUTPUT = 1
    INOUT = 2
    OUTPUT_EXISTING = 3
    NO_DEP = 4


class ArgDirection(NamedEnum):
    """One entry of a callable's signature."""

    SCALAR = 0
    IN = 1
    OUT = 2
    INOUT = 3


class AddressSpace(NamedEnum):
    """Whose memory a buffer is."""

    HOST = 0
    DEVICE = 1


class AccessMode(NamedEnum):
    """What a buffer grants to tasks."""

    READ = 0
    WRITE = 1
    READWRITE = 2


class BackendKind(NamedEnum):
    """How a consumer reaches the bytes of a buffer."""

    FORK_SHM = 0
    POSIX_SHM = 1
    VMM_WINDOW = 2
    REMOTE_SIDECAR = 3
    DEVICE_MALLOC = 4
    FORK_COW = 5


class WorkerType(NamedEnum):
    """Kinds of children that a task can be sent to."""

    NEXT_LEVEL = 0
    SUB = 1


class TaskState(NamedEnum):
    """States of a task."""

    FREE = 0
    PENDING = 1
    READY = 2
    RUNNING = 3
    COMPLETED = 4
    FAILED = 5
    CONSUMED = 6
    BUILDING = 7


class CallableKind(NamedEnum):
    """Forms in which a callable reaches its children."""

    CHIP_CALLABLE = 1
    PYTHON_SERIALIZED = 2
    PYTHON_IMPORT = 3
    NATIVE_FUNCTION = 4
    PYTHON_FORK_ONLY = 5


class TargetNamespace(NamedEnum):
    """Groups of children that share their callables."""

    LOCAL_CHIP = 1
    LOCAL_PYTHON = 2
    REMOTE_TASK_DISPATCHER = 3
