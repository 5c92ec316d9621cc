"""What the developer sees, and how other programs are run.

Every program runs in the foreground with no standard input, so nothing waits for an answer and nothing is left behind:
this process adopts orphans of what it starts, and `stray_processes` names the ones that outlived their parents.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build"
REPORTS = BUILD / "reports"


class Failure(Exception):
    """A step failed; the message says what and what to do. `code` becomes the exit status."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


def say(text: str) -> None:
    """Print one line of progress, at once."""
    print(f"dev: {text}", flush=True)


def shown(path: Path) -> str:
    """Return `path` as a developer would type it from the root of the checkout."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    check: bool = True,
    echo: bool = True,
    report: str | None = None,
) -> int:
    """Run `command` to its end and return its exit status; with `report`, keep a copy of its output in build/reports.

    Raises Failure when `check` is set and the status is not 0.
    """
    words = [str(word) for word in command]
    if echo:
        print(f"+ {shlex.join(words)}", flush=True)
    whole = {**os.environ, **(env or {})}
    if report is None:
        process = subprocess.Popen(words, cwd=cwd, env=whole, stdin=subprocess.DEVNULL)
        with _reaping(process.pid):
            status = _wait(process)
    else:
        REPORTS.mkdir(parents=True, exist_ok=True)
        with open(REPORTS / report, "wb") as copy:
            process = subprocess.Popen(
                words, cwd=cwd, env=whole, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            assert process.stdout is not None
            with _reaping(process.pid):
                for line in process.stdout:
                    sys.stdout.buffer.write(line)
                    sys.stdout.buffer.flush()
                    copy.write(line)
        status = _wait(process)
    if check and status != 0:
        raise Failure(f"failed with status {status}: {shlex.join(words)}", 1)
    return status


def run_showing_work(command: Sequence[str | Path], idle: Sequence[str], *, env: Mapping[str, str] | None = None) -> None:
    """Run `command`, showing it and its output only from the first line on that holds none of the `idle` words.

    Raises Failure, with everything shown, when its status is not 0.
    """
    words = [str(word) for word in command]
    held = [f"+ {shlex.join(words)}\n".encode()]
    process = subprocess.Popen(
        words,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    working = False
    with _reaping(process.pid):
        for line in process.stdout:
            held.append(line)
            working = working or not any(word.encode() in line for word in idle)
            if working:
                _show(held)
        status = _wait(process)
    if status != 0:
        _show(held)
        raise Failure(f"failed with status {status}: {shlex.join(words)}", 1)


def _show(held: list[bytes]) -> None:
    sys.stdout.buffer.write(b"".join(held))
    sys.stdout.buffer.flush()
    held.clear()


@contextlib.contextmanager
def output_to_stderr() -> Iterator[None]:
    """Send what this process and its children print to standard error meanwhile."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Wait for `process`; an interrupt reaches it too (same terminal), so give it time to end by itself."""
    try:
        return process.wait()
    except KeyboardInterrupt:
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise


@contextlib.contextmanager
def _reaping(own: int) -> Iterator[None]:
    """Reap adopted orphans while the program `own` runs, so that tests see ended processes disappear."""
    done = threading.Event()

    def reap() -> None:
        while not done.wait(0.05):
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                while found is not None and found.si_pid != own:
                    os.waitpid(found.si_pid, 0)
                    found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                continue

    reaper = threading.Thread(target=reap)
    reaper.start()
    try:
        yield
    finally:
        done.set()
        reaper.join()


def output_of(command: Sequence[str | Path], *, cwd: Path = ROOT) -> str | None:
    """Return the standard output of `command`, or None when it cannot be run or fails."""
    try:
        done = subprocess.run(
            [str(word) for word in command],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def adopt_orphans() -> None:
    """Make this process the parent of whatever its children leave behind."""
    pr_set_child_subreaper = 36
    try:
        ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)
    except (OSError, AttributeError):
        return


def stray_processes(grace_s: float = 3.0) -> list[str]:
    """Return a line for each process that outlived the program that started it, then end those processes.

    A process that is only about to be reaped is given `grace_s` seconds.
    """
    deadline = time.monotonic() + grace_s
    while True:
        children = _children()
        if not children or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    found = [f"{pid} {name}" for pid, name in children]
    for pid, _ in children:
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            continue
    return found


def _children() -> list[tuple[int, str]]:
    """Return the live children of this process after reaping those that ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        return []
    found: list[tuple[int, str]] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text(errors="replace")
        except OSError:
            continue
        name = text[text.index("(") + 1 : text.rindex(")")]
        if int(text[text.rindex(")") + 2 :].split()[1]) == os.getpid():
            found.append((int(stat.parent.name), name))
    return found
