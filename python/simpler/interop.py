"""Arrays of other libraries over the memory of buffers, both ways without a copy.

A `Buffer` and its `view(shape, dtype)` speak the buffer protocol, and the view speaks DLPack, so ``numpy.asarray``,
``torch.from_dlpack`` and ``memoryview`` work on them. The other way, an array is accepted wherever its memory already
belongs to a buffer; anything else is refused, naming ``create_buffer``. numpy is imported only when it is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ._enums import DataType
from .errors import InvalidArgument, WrongType

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ._native import Buffer, MappedArg, Tensor
    from .worker import Worker

__all__ = ["buffer_to_numpy", "make_tensor_arg", "mapped_to_numpy", "numpy_dtype", "to_datatype"]

_LARGEST_EXTENT = 0xFFFFFFFF  # of a tensor


def numpy_dtype(dtype: DataType | int | str) -> np.dtype[np.generic]:
    """Return numpy's name for an element type.

    Raises
    ------
    WrongType
        numpy has no such type, and ml_dtypes is not installed or has none either.

    Examples
    --------
    >>> numpy_dtype("INT16").name
    'int16'
    """
    import numpy as np

    kind = DataType.of(dtype)
    name = {DataType.BFLOAT16: "bfloat16", DataType.FP8E4M3FN: "float8_e4m3fn", DataType.FP8E8M0: "float8_e8m0fnu"}.get(kind)
    if name is None:
        name = {DataType.FP4E2M1: "float4_e2m1fn"}.get(kind)
    if name is None:
        return np.dtype(kind.name.lower())
    try:
        import ml_dtypes  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        raise WrongType(f"numpy has no {kind.name}; install ml_dtypes, or view the bytes as UINT16 or UINT8") from None
    found: np.dtype[np.generic] = np.dtype(getattr(ml_dtypes, name))
    return found


def to_datatype(dtype: object) -> DataType:
    """Return the element type that another library's dtype means.

    Raises
    ------
    InvalidArgument
        There is no such type here.

    Examples
    --------
    >>> to_datatype("float32")
    <DataType.FLOAT32: 0>
    """
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    name = str(name).rpartition(".")[2]
    known = {"float8_e4m3fn": "FP8E4M3FN", "float8_e8m0fnu": "FP8E8M0", "float4_e2m1fn": "FP4E2M1", "bool_": "BOOL"}
    return DataType.of(known.get(name, name))


def buffer_to_numpy(
    buffer: Buffer, shape: Sequence[int] | None, dtype: DataType | int | str | None, byte_offset: int
) -> npt.NDArray[np.generic]:
    """Return a numpy array over the memory of a host buffer."""
    import numpy as np

    from . import _advice
    from ._native import get_element_size

    kind = DataType.FLOAT32 if dtype is None else DataType.of(dtype) if isinstance(dtype, int) else to_datatype(dtype)
    size = get_element_size(kind)
    shape = ((buffer.nbytes - byte_offset) // size,) if shape is None else _advice.whole_numbers("numpy: shape", shape)
    needed, there = math.prod(shape) * size, max(0, buffer.nbytes - byte_offset)
    if needed > there and not buffer.closed and not any(extent < 0 for extent in shape):
        place = f" from byte_offset={byte_offset} on" if byte_offset else ""
        raise InvalidArgument(f"numpy: shape {shape} of {kind.name} takes {needed} bytes; the buffer has {there}{place}")
    elements = numpy_dtype(kind)
    if any(extent > _LARGEST_EXTENT for extent in shape):  # no tensor, but an array all the same
        count = math.prod(shape)
        array: npt.NDArray[np.generic] = np.frombuffer(memoryview(buffer), elements, count, byte_offset)
        return array.reshape(shape)
    if elements.kind == "V":
        view = buffer.view(shape, DataType.UINT8 if elements.itemsize == 1 else DataType.UINT16, byte_offset=byte_offset)
        return np.asarray(view).view(elements)
    return np.asarray(buffer.view(shape, kind, byte_offset=byte_offset))


def mapped_to_numpy(arg: MappedArg) -> npt.NDArray[np.generic]:
    """Return a numpy array over an argument's memory, with its shape and strides."""
    import numpy as np

    elements = numpy_dtype(arg.dtype)
    steps = tuple(step * elements.itemsize for step in arg.strides)
    if 0 in arg.shapes:
        return np.empty(arg.shapes, elements)
    array: npt.NDArray[np.generic] = np.ndarray(arg.shapes, elements, arg.buffer, 0, steps)
    return array


def make_tensor_arg(worker: Worker, array: object) -> Tensor:
    """Return the view that tasks take, of an array that lies in memory of `worker`.

    Raises
    ------
    InvalidArgument
        The array's memory belongs to no buffer; put it into ``worker.create_buffer``.
    """
    shape, dtype = getattr(array, "shape", None), getattr(array, "dtype", None)
    if shape is None or dtype is None:
        raise WrongType(f"make_tensor_arg takes an array with shape and dtype, not {type(array).__name__}")
    return worker.make_tensor_arg(array, tuple(shape) or (1,), to_datatype(dtype))
