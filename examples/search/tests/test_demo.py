"""The whole demo as a person runs it: a process of its own with the runtime, judged by what it prints and leaves."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[1]

pytest.importorskip("simpler._native")
pytestmark = pytest.mark.usefixtures("model", "tokenizer")


def start(*arguments: str | Path, modules: Path | None = None) -> subprocess.Popen[str]:
    """The demo; Python modules that lie in `modules` are found before the installed ones."""
    command = [sys.executable, str(DEMO), *map(str, arguments)]
    paths = [str(modules) if modules else "", os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        env=environment,
    )


def children_of(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def wait_for_children(demo: subprocess.Popen[str], count: int) -> list[int]:
    """The children once the worker is ready, which the demo says in a line."""
    assert demo.stdout is not None
    for line in demo.stdout:
        if "ready after" in line:
            children = children_of(demo.pid)
            assert len(children) >= count
            return children
    raise AssertionError("the demo ended before its worker was ready")


def all_end(processes: list[int], seconds: float = 30) -> bool:
    """Whether all of these file descriptors of processes report an end in time."""
    deadline = time.monotonic() + seconds
    return all(select.select([process], [], [], max(0.0, deadline - time.monotonic()))[0] for process in processes)


@pytest.mark.parametrize(
    "arguments",
    [("--platform", "a2a3sim"), ("--platform", "a5sim", "--chips", "1"), ("--platform", "tiny", "--chips", "3")],
    ids=["a2a3sim", "a5sim", "tiny"],
)
def test_every_platform_passes_the_check(arguments: tuple[str, ...]) -> None:
    output, errors = start("--count", "60", "--check", *arguments).communicate()
    assert errors == ""
    assert re.search(r"^Passed: worst cosine \d\.\d+ over 65 vectors .* 5 of 5 result lists equal", output, re.MULTILINE)


def test_own_lines_are_found_by_meaning(tmp_path: Path) -> None:
    source = tmp_path / "lines.txt"
    source.write_text("a recipe for pancakes\nhow to repair a bicycle tyre\nthe history of rome\n")
    output, errors = start("--source", source, "--query", "fix a flat wheel", "--check").communicate()
    assert errors == ""
    assert output.partition("fix a flat wheel\n")[2].splitlines()[0].endswith("how to repair a bicycle tyre")


def test_a_trace_is_written_and_names_tokenising_beside_computing(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    output, errors = start("--count", "300", "--trace", trace).communicate()
    assert errors == ""
    assert re.search(r"\d+ % of the middle batches were tokenised while a chip computed", output)
    assert json.loads(trace.read_text())


def test_memory_does_not_grow_with_the_number_of_texts() -> None:
    peaks = []
    for count in ("400", "1600"):
        output, _ = start("--count", count).communicate()
        found = re.search(r"Peak heap ([\d.]+) MiB", output)
        assert found, output
        peaks.append(float(found[1]))
    assert peaks[1] <= 2.5


def expect_one_line_about(demo: subprocess.Popen[str], victim: int, children: list[int]) -> None:
    """Kill that child: the demo ends with status 1 and one line that names it, and no child stays."""
    processes = [os.pidfd_open(child) for child in children]
    os.kill(victim, signal.SIGKILL)
    _, errors = demo.communicate()
    assert all_end(processes)
    assert demo.returncode == 1
    lines = errors.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("search: ")
    assert str(victim) in lines[0]
    assert "signal 9" in lines[0]


def test_a_chip_killed_half_way_is_one_line_and_nothing_stays_behind() -> None:
    demo = start("--count", "2000")
    children = wait_for_children(demo, 4)
    expect_one_line_about(demo, children[-1], children)


# Stands before the package `tokenizers`, which a tokeniser imports inside its first task. The first process that comes
# here stays inside that task and says who it is; everybody else gets the package itself.
HELD_TOKENIZERS = """
import importlib, os, signal, sys

folder = os.path.dirname(os.path.dirname(__file__))
try:
    os.close(os.open(os.path.join(folder, "taken"), os.O_CREAT | os.O_EXCL))
    held = True
except FileExistsError:
    held = False
if held:
    with open(os.path.join(folder, "who"), "w") as who:
        who.write(str(os.getpid()))
    while True:
        signal.pause()
sys.path.remove(folder)
del sys.modules["tokenizers"]
importlib.import_module("tokenizers")
"""


def test_a_tokeniser_killed_inside_a_task_is_one_line_and_nothing_stays_behind(tmp_path: Path) -> None:
    package = tmp_path / "tokenizers"
    package.mkdir()
    (package / "__init__.py").write_text(HELD_TOKENIZERS)
    os.mkfifo(tmp_path / "who")
    who = os.open(tmp_path / "who", os.O_RDONLY | os.O_NONBLOCK)
    demo = start("--count", "2000", modules=tmp_path)
    children = wait_for_children(demo, 4)
    assert select.select([who], [], [], 60)[0], "no tokeniser came to its first task"
    victim = int(os.read(who, 32))
    os.close(who)
    assert victim in children
    expect_one_line_about(demo, victim, children)


def test_ctrl_c_ends_it_and_nothing_stays_behind() -> None:
    demo = start("--count", "2000")
    children = wait_for_children(demo, 4)
    processes = [os.pidfd_open(child) for child in children]
    os.killpg(demo.pid, signal.SIGINT)
    _, errors = demo.communicate()
    assert demo.returncode == 130
    assert errors == "search: stopped\n"
    assert all_end(processes)


def test_killing_the_demo_leaves_no_process() -> None:
    demo = start("--count", "2000")
    children = wait_for_children(demo, 4)
    processes = [os.pidfd_open(child) for child in children]
    demo.kill()
    demo.communicate()
    assert all_end(processes)
