"""Fixtures shared by the tests of the package."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import simpler

PACKAGE = Path(simpler.__file__).resolve().parents[1]

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # Started in the background by a shell, which would make every interrupt of a test go nowhere.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def node() -> Iterator[simpler.Worker]:
    """Return a worker of level 3 with two Python workers, NEW."""
    worker = simpler.Worker(level=3, num_sub_workers=2)
    yield worker
    worker.terminate()


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a program in an interpreter of its own."""

    def run(source: str, *flags: str, timeout: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(source))
        return subprocess.run(
            [sys.executable, *flags, path],
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, "PYTHONPATH": str(PACKAGE), **environment},
            stdin=subprocess.DEVNULL,
        )

    return run
