"""Interactive sessions: what cells define, define anew and register, and what is left when their kernel is restarted."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

import simpler

Script = Callable[..., "subprocess.CompletedProcess[str]"]

PACKAGE = str(Path(simpler.__file__).resolve().parents[1])

HELPERS = """
import os, simpler
def result_of(worker, handle):
    buffer = worker.create_buffer(1)
    args = simpler.TaskArgs()
    args.add_tensor(buffer.tensor((1,), "UINT8"), "OUTPUT")
    worker.run(lambda orch, args, config: orch.submit_sub(handle, args), args)
    return bytes(buffer)[0]
"""

# What a notebook's kernel does: each cell is compiled by itself, under a name that only linecache knows, and runs inside
# an event loop in a module that took the place of the program's own.
KERNEL = """
import asyncio, linecache, sys, types
here = types.ModuleType("__main__")
sys.modules["__main__"] = here
def run_cell(number, source):
    name = f"/nowhere/ipykernel_1/{number}.py"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    exec(compile(source, name, "exec"), here.__dict__)
async def kernel(cells):
    for number, source in enumerate(cells):
        run_cell(number, source)
        await asyncio.sleep(0)
"""


def notebook(*cells: str) -> str:
    """Return a program that runs the cells as a kernel would."""
    sources = [textwrap.dedent(cell) for cell in (HELPERS, *cells)]
    # Not asyncio.run, which would turn an interrupt into the end of its task.
    return f"{KERNEL}\nloop = asyncio.new_event_loop()\nloop.run_until_complete(kernel({sources!r}))\nloop.close()\n"


def test_b080_an_interactive_interpreter_keeps_every_version_of_a_name() -> None:
    pytest.importorskip("cloudpickle")
    typed = (
        HELPERS
        + """
w = simpler.Worker(level=3, num_sub_workers=1)
value = 1
def f(args):
    args[0].buffer[0] = value

handles = [w.register(f)]
value = 2
def f(args):
    args[0].buffer[0] = 10 + value

handles.append(w.register(f))
w.init()
value = 3
def f(args):
    args[0].buffer[0] = 20 + value

handles.append(w.register(f))
value = 4
handles.append(w.register(lambda args: put(args)))
def put(args):
    args[0].buffer[0] = 99

print([result_of(w, handle) for handle in handles[:3]])
w.close()
"""
    )
    done = subprocess.run(
        [sys.executable, "-i", "-q"],
        input=typed,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": PACKAGE, "PYTHONSTARTUP": ""},
    )
    assert (done.returncode, done.stdout) == (0, "[1, 12, 23]\n"), done.stderr
    assert "Traceback" not in done.stderr


def test_b080_cells_define_register_and_define_anew(script: Script) -> None:
    pytest.importorskip("cloudpickle")
    done = script(
        notebook(
            """
            w = simpler.Worker(level=3, num_sub_workers=1)
            offset = 0
            def helper(value):
                return value + offset
            def f(args):
                args[0].buffer[0] = helper(1)
            handles = [w.register(f)]
            """,
            "w.init()",
            """
            offset = 10
            def f(args):
                args[0].buffer[0] = helper(2)
            handles.append(w.register(f))
            """,
            """
            class Model:
                def __init__(self, weight): self.weight = weight
                def __call__(self, args): args[0].buffer[0] = helper(self.weight)
                def method(self, args): args[0].buffer[0] = self.weight
            handles.append(w.register(Model(3)))
            handles.append(w.register(Model(4).method))
            """,
            """
            def helper(value):
                return 100 + value
            handles.append(w.register(lambda args: args[0].buffer.__setitem__(0, helper(5))))
            """,
            "print([result_of(w, handle) for handle in handles])",
            """
            def broken(args):
                raise ValueError("from a cell")
            try:
                result_of(w, w.register(broken))
            except simpler.TaskFailed as error:
                print("from a cell" in str(error), "/nowhere/ipykernel_1/7.py" in str(error.__cause__))
            """,
            "w.close()",
        )
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[1, 12, 13, 4, 105]\nTrue True\n", "")


CELL = """
    w = simpler.Worker(level=3, num_sub_workers=3)
    def wait(args):
        args[0].buffer[0] = 1
        while True:
            os.sched_yield()
    def one(args):
        args[0].buffer[0] = 1
    busy, quick = w.register(wait), w.register(one)
    w.init()
    assert result_of(w, quick) == 1
    b = w.create_buffer(1)
    args = simpler.TaskArgs()
    args.add_tensor(b.tensor((1,), "UINT8"), "INOUT")
    run = w.submit(lambda orch, args, config: orch.submit_sub(busy, args), args)
    while bytes(b) != b"\\x01":
        os.sched_yield()
    """


@pytest.mark.parametrize("way", ["kill", "terminate", "leave", "interrupt, then leave"])
def test_b089_a_restarted_kernel_leaves_nothing_and_its_cells_run_again(way: str) -> None:
    ending = """
        import select, sys
        try:
            print(*[child.pid for child in w.statistics()], flush=True)
            # Not a read: Python notices a signal that comes just before a blocking call only when that call ends.
            while not select.select([sys.stdin], [], [], 0.05)[0]:
                pass
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            sys.stdin.readline()
        """
    for _ in range(2):  # the second is the new kernel, with the same cells
        kernel = subprocess.Popen(
            [sys.executable, "-c", notebook(CELL, ending)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": PACKAGE},
        )
        assert kernel.stdout is not None
        assert kernel.stdin is not None
        pids = [int(pid) for pid in kernel.stdout.readline().split()]
        assert len(pids) == 3
        watched = [os.pidfd_open(pid) for pid in pids]
        if way == "kill":
            kernel.kill()
        elif way == "terminate":
            kernel.terminate()
        else:
            if way != "leave":
                kernel.send_signal(signal.SIGINT)
                assert kernel.stdout.readline() == "interrupted\n"
            kernel.stdin.write("\n")
            kernel.stdin.flush()
        kernel.communicate(timeout=60)  # ends with the last holder of its output
        for each in watched:
            assert select.select([each], [], [], 60)[0]
            os.close(each)
        assert kernel.returncode == {"kill": -signal.SIGKILL, "terminate": -signal.SIGTERM}.get(way, 0)


def test_b089_what_callables_print_goes_to_the_programs_own_output_and_not_to_a_stream_that_took_its_place(
    script: Script,
) -> None:
    done = script(
        notebook(
            """
            import io, sys
            shown = sys.stdout = io.StringIO()  # as a kernel does, to show it under the cell
            w = simpler.Worker(level=3, num_sub_workers=1)
            def speak(args):
                args[0].buffer[0] = 1
                print("printed")
                os.write(1, b"written\\n")
            h = w.register(speak)
            w.init()
            print("in the cell")
            assert result_of(w, h) == 1
            w.close()
            assert shown.getvalue() == "in the cell\\n", shown.getvalue()
            """
        )
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "written\n", "")
