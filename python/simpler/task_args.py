"""Arguments of one task."""

from __future__ import annotations

from ._enums import DataType, TensorArgType
from ._native import CallConfig, RuntimeEnv, TaskArgs, TaskHandle, Tensor, scalar_to_uint64

__all__ = ["CallConfig", "DataType", "RuntimeEnv", "TaskArgs", "TaskHandle", "Tensor", "TensorArgType", "scalar_to_uint64"]
