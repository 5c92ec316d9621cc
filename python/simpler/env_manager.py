"""Environment variables of the caller's own, read by name."""

from __future__ import annotations

import os

__all__ = ["ensure", "get"]


def get(name: str) -> str | None:
    """Return the variable's value, or None when it is not set.

    Examples
    --------
    >>> get("A_VARIABLE_THAT_NOBODY_SETS") is None
    True
    """
    return os.environ.get(name)


def ensure(name: str) -> str:
    """Return the variable's value.

    Raises
    ------
    OSError
        It is not set.
    """
    value = os.environ.get(name)
    if value is None:
        raise OSError(f"environment variable {name} is not set")
    return value
