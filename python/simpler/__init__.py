r"""Hierarchical task graphs over processes and chips.

A `Worker` starts a tree of processes; a graph function submits tasks with tensors; which task waits for which follows
from what they touch. Everything here is imported when it is first used, so ``import simpler`` is cheap and loads
neither numpy nor the native part.

Examples
--------
>>> import simpler
>>> def fill(args):
...     args[0].buffer[:] = bytes([7]) * 4
>>> worker = simpler.Worker(level=3, num_sub_workers=1)
>>> handle = worker.register(fill)
>>> with worker:
...     buffer = worker.create_buffer(4)
...     args = simpler.TaskArgs().add_tensor(buffer.tensor((4,), "UINT8"), "OUTPUT")
...     worker.run(lambda orch, args, config: orch.submit_sub(handle, args), args)
...     bytes(buffer)
b'\x07\x07\x07\x07'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ._log import DEFAULT_THRESHOLD, NUL, TIMING, get_current_config, get_logger

if TYPE_CHECKING:
    from . import errors as errors
    from . import interop as interop
    from . import kernels as kernels
    from . import task_interface as task_interface
    from ._compile import compile as compile
    from ._compile import compile_kernel as compile_kernel
    from ._enums import AccessMode as AccessMode
    from ._enums import AddressSpace as AddressSpace
    from ._enums import ArgDirection as ArgDirection
    from ._enums import BackendKind as BackendKind
    from ._enums import CallableKind as CallableKind
    from ._enums import DataType as DataType
    from ._enums import TaskState as TaskState
    from ._enums import TensorArgType as TensorArgType
    from ._enums import WorkerType as WorkerType
    from ._native import Buffer as Buffer
    from ._native import BufferDescriptor as BufferDescriptor
    from ._native import BufferView as BufferView
    from ._native import CallableHandle as CallableHandle
    from ._native import CallConfig as CallConfig
    from ._native import CanonicalIdentity as CanonicalIdentity
    from ._native import ChildStatistics as ChildStatistics
    from ._native import ChipCallable as ChipCallable
    from ._native import ChipStorageTaskArgs as ChipStorageTaskArgs
    from ._native import ChipTensor as ChipTensor
    from ._native import CoreCallable as CoreCallable
    from ._native import MappedArg as MappedArg
    from ._native import MappedArgs as MappedArgs
    from ._native import Orchestrator as Orchestrator
    from ._native import RuntimeEnv as RuntimeEnv
    from ._native import TaskArgs as TaskArgs
    from ._native import TaskHandle as TaskHandle
    from ._native import Tensor as Tensor
    from .errors import AlreadyExists as AlreadyExists
    from .errors import Cancelled as Cancelled
    from .errors import CapacityError as CapacityError
    from .errors import CompileError as CompileError
    from .errors import Error as Error
    from .errors import FailedPrecondition as FailedPrecondition
    from .errors import InitCancelled as InitCancelled
    from .errors import InvalidArgument as InvalidArgument
    from .errors import MissingFile as MissingFile
    from .errors import NotFound as NotFound
    from .errors import OutOfRange as OutOfRange
    from .errors import Reentrant as Reentrant
    from .errors import TaskFailed as TaskFailed
    from .errors import TaskSkipped as TaskSkipped
    from .errors import Timeout as Timeout
    from .errors import Unavailable as Unavailable
    from .errors import Unsupported as Unsupported
    from .errors import WorkerDied as WorkerDied
    from .errors import WrongProcess as WrongProcess
    from .errors import WrongType as WrongType
    from .run import RunHandle as RunHandle
    from .worker import Worker as Worker
    from .worker_level import WorkerLevel as WorkerLevel

_MODULES = ("errors", "interop", "kernels", "task_interface")
_NAMES = {
    "_compile": ("compile", "compile_kernel"),
    "_enums": (
        "AccessMode",
        "AddressSpace",
        "ArgDirection",
        "BackendKind",
        "CallableKind",
        "DataType",
        "TaskState",
        "TensorArgType",
        "WorkerType",
    ),
    "_native": (
        "Buffer",
        "BufferDescriptor",
        "BufferView",
        "CallConfig",
        "CallableHandle",
        "CanonicalIdentity",
        "ChildStatistics",
        "ChipCallable",
        "ChipStorageTaskArgs",
        "ChipTensor",
        "CoreCallable",
        "MappedArg",
        "MappedArgs",
        "Orchestrator",
        "RuntimeEnv",
        "TaskArgs",
        "TaskHandle",
        "Tensor",
    ),
    "errors": (
        "AlreadyExists",
        "Cancelled",
        "CapacityError",
        "CompileError",
        "Error",
        "FailedPrecondition",
        "InitCancelled",
        "InvalidArgument",
        "MissingFile",
        "NotFound",
        "OutOfRange",
        "Reentrant",
        "TaskFailed",
        "TaskSkipped",
        "Timeout",
        "Unavailable",
        "Unsupported",
        "WorkerDied",
        "WrongProcess",
        "WrongType",
    ),
    "run": ("RunHandle",),
    "worker": ("Worker",),
    "worker_level": ("WorkerLevel",),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "DEFAULT_THRESHOLD",
    "NUL",
    "TIMING",
    "get_current_config",
    "get_logger",
    *sorted([*_MODULES, *_HOME]),
]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
