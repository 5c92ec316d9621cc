"""Memory that tasks can name."""

from __future__ import annotations

from ._enums import AccessMode, AddressSpace, BackendKind
from ._native import Buffer, BufferDescriptor, BufferView, CanonicalIdentity, MappedArg, MappedArgs, SharedMemory, Tensor

__all__ = [
    "AccessMode",
    "AddressSpace",
    "BackendKind",
    "Buffer",
    "BufferDescriptor",
    "BufferView",
    "CanonicalIdentity",
    "MappedArg",
    "MappedArgs",
    "SharedMemory",
    "Tensor",
]
