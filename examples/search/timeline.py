"""What the trace says about overlap: how many batches were tokenised while a chip was computing.

Reads the Chrome trace that the worker writes: complete events ("X") with microseconds and process ids. Only the
middle batches count, because the first ones have no chip at work yet and the last ones nothing left to hide behind.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

Interval = tuple[float, float]
EDGE = 0.1  # part of the batches at either end that is left out


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """Overlapping and touching intervals joined, in order.

    >>> merge([(5, 6), (1, 3), (2, 4)])
    [(1, 4), (5, 6)]
    """
    merged: list[Interval] = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def overlapped_share(tokenised: Sequence[Interval], computing: Iterable[Interval]) -> float:
    """Part of the middle `tokenised` intervals that touch a `computing` one; 1 where there is no middle.

    >>> overlapped_share([(0, 1), (2, 3), (5, 6), (9, 10)], [(2.5, 4)])
    0.5
    """
    edge = max(1, round(len(tokenised) * EDGE))
    middle = sorted(tokenised)[edge:-edge]
    if not middle:
        return 1.0
    busy = merge(computing)
    hits = sum(1 for begin, end in middle if any(b < end and begin < e for b, e in busy))
    return hits / len(middle)


def spans_of(trace: Path, pids: Iterable[int], name: str = "") -> list[Interval]:
    """Complete events of the processes `pids` whose name ends with `name`, in order, in microseconds of the trace."""
    raw = json.loads(trace.read_text())
    events = raw["traceEvents"] if isinstance(raw, dict) else raw
    wanted = set(pids)
    return sorted(
        (float(event["ts"]), float(event["ts"]) + float(event.get("dur", 0)))
        for event in events
        if event.get("ph") == "X" and event.get("pid") in wanted and str(event.get("name", "")).endswith(name)
    )
