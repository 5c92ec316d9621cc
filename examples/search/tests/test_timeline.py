import json
from pathlib import Path

import pytest

from search.timeline import overlapped_share, spans_of


def test_only_middle_batches_count() -> None:
    tokenised = [(i, i + 0.5) for i in range(20)]
    assert overlapped_share(tokenised, [(2, 17.2)]) == 1.0
    assert overlapped_share(tokenised, [(2, 9.7)]) == pytest.approx(8 / 16)
    assert overlapped_share(tokenised, []) == 0.0


def test_without_a_middle_there_is_nothing_to_miss() -> None:
    assert overlapped_share([(0, 1), (1, 2)], []) == 1.0


@pytest.mark.parametrize("wrapped", [True, False])
def test_spans_are_those_of_the_processes_with_that_name(tmp_path: Path, wrapped: bool) -> None:
    events = [
        {"ph": "X", "pid": 7, "ts": 90, "dur": 5, "name": "HostTasks.tokenise"},
        {"ph": "X", "pid": 7, "ts": 10, "dur": 5, "name": "HostTasks.tokenise"},
        {"ph": "X", "pid": 7, "ts": 50, "dur": 5, "name": "HostTasks.gather"},
        {"ph": "X", "pid": 8, "ts": 10, "dur": 5, "name": "HostTasks.tokenise"},
        {"ph": "M", "pid": 7, "name": "process_name"},
    ]
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps({"traceEvents": events} if wrapped else events))
    assert spans_of(trace, [7], "tokenise") == [(10.0, 15.0), (90.0, 95.0)]
