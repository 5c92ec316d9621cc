"""Names of the levels of a tree of workers."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["WorkerLevel", "span_prefix"]


class WorkerLevel(IntEnum):
    """What a worker of a level stands for."""

    core = 0
    chip = 2
    node = 3
    network1 = 4
    network2 = 5
    network3 = 6


def span_prefix(level: int) -> str:
    """Return the name under which a level's spans are recorded.

    Raises
    ------
    ValueError
        There is no such level.

    Examples
    --------
    >>> span_prefix(3)
    'node'
    """
    return WorkerLevel(level).name
