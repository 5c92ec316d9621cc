"""Ready-made kernels, addressed by name: ``simpler.kernels.matmul``.

No compiler is needed to use them. A kernel's identity is its name and version, so a worker can be given one on any
machine that has the package.

Examples
--------
>>> import simpler
>>> simpler.kernels.add
CoreCallable(add, version 1)
>>> print(simpler.kernels.describe("add"))
add(a, b, out): out = a + b; a and b broadcast to the shape of out
"""

from __future__ import annotations

from ._native import CoreCallable, builtin_kernel, builtin_kernels

__all__ = ["describe", "get", "names"]


def names() -> list[str]:
    """Return the names of all ready-made kernels.

    Examples
    --------
    >>> "softmax" in names()
    True
    """
    return sorted({name for name, *_ in builtin_kernels()})


def get(name: str, version: int = 0) -> CoreCallable:
    """Return one kernel; version 0 is the newest.

    Raises
    ------
    NotFound
        There is no such kernel; the text names the nearest one.
    """
    return builtin_kernel(name, version)


def describe(name: str) -> str:
    """Return how a kernel is called and what it computes."""
    for known, _version, tensors, scalars, summary in builtin_kernels():
        if known == name:
            return f"{name}({', '.join((*tensors, *scalars))}): {summary}"
    builtin_kernel(name)  # raises, naming the nearest
    raise AssertionError(name)


def __getattr__(name: str) -> CoreCallable:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return builtin_kernel(name)
    except KeyError as error:
        raise AttributeError(str(error)) from None


def __dir__() -> list[str]:
    return [*__all__, *names()]
