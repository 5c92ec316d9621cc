"""What a worker can run."""

from __future__ import annotations

from ._compile import compile, compile_kernel
from ._enums import ArgDirection, CallableKind, TargetNamespace
from ._native import CallableHandle, ChipCallable, CoreCallable

__all__ = [
    "ArgDirection",
    "CallableHandle",
    "CallableKind",
    "ChipCallable",
    "CoreCallable",
    "TargetNamespace",
    "compile",
    "compile_kernel",
]
