"""Configuring and building the CMake trees: one per preset, under build/."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pythons
import system
from console import BUILD, ROOT, run, run_showing_work, say

# What Ninja says when everything is up to date.
_IDLE_LINES = ("Re-checking globbed directories", "no work to do")


def jobs() -> int:
    """Return how many compilers may run at once: the CPUs that this process may use."""
    return max(1, len(os.sched_getaffinity(0)))


@contextlib.contextmanager
def exclusive() -> Iterator[None]:
    """Let one ./dev at a time set up and build in this checkout."""
    BUILD.mkdir(exist_ok=True)
    with open(BUILD / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another ./dev works in this checkout; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def prepare(wanted_python: str | None, *groups: str) -> None:
    """Bring system packages, virtual environment and the requirement groups up to date."""
    system.ensure(system.BUILD_NEEDS, "to build")
    pythons.ensure_venv(wanted_python)
    pythons.ensure_requirements("build", *groups)
    pythons.ensure_path_entry()


def tree(preset: str) -> Path:
    """Return the build tree of a preset."""
    return BUILD / preset


def build(
    preset: str, *targets: str, options: tuple[str, ...] = (), keep_going: bool = False, only_if_due: bool = False
) -> Path:
    """Configure (when there is a reason to) and build; returns the tree. With `only_if_due` nothing to do shows nothing.

    Ninja runs CMake again by itself when a list file changed; a changed option or another checkout path is a reason here.
    """
    cmake = pythons.tool("cmake", (3, 25))
    folder = tree(preset)
    arguments = [f"-DPython_EXECUTABLE={pythons.python()}", *options]
    if not _is_configured(folder, arguments):
        say(f"configuring build/{preset}")
        run([cmake, "--preset", preset, *arguments], env=pythons.environment())
    wants = ["--target", *targets] if targets else []
    native = ["--", "-k", "0"] if keep_going else []
    command: list[str | Path] = [cmake, "--build", folder, "--parallel", str(jobs()), *wants, *native]
    if only_if_due:
        run_showing_work(command, _IDLE_LINES, env=pythons.environment())
        return folder
    say(f"building build/{preset} with {jobs()} jobs")
    run(command, env=pythons.environment())
    return folder


def _is_configured(folder: Path, arguments: list[str]) -> bool:
    """Return whether the tree was configured for this checkout with these -DNAME=VALUE arguments.

    A tree that belongs to another path (the checkout was moved or copied) loses its cache.
    """
    cache = folder / "CMakeCache.txt"
    if not cache.exists():
        return False
    lines = set(cache.read_text(errors="replace").splitlines())
    if f"CMAKE_HOME_DIRECTORY:INTERNAL={ROOT}" not in lines:
        cache.unlink()
        return False
    values = {line.partition(":")[0]: line.partition("=")[2] for line in lines if ":" in line}
    wanted = dict(argument.removeprefix("-D").split("=", 1) for argument in arguments)
    return (folder / "build.ninja").exists() and all(values.get(key) == value for key, value in wanted.items())
