"""Ctrl-C and the end of the interpreter: control comes back, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import simpler
from simpler import MappedArgs, TaskArgs
from simpler.interop import buffer_to_numpy

Script = Callable[..., "subprocess.CompletedProcess[str]"]


def wait_for_gate(args: MappedArgs) -> None:
    while args[0].buffer[0] == 0:
        pass


def test_b062_interrupts_inside_wait_give_control_back_and_change_nothing(node: simpler.Worker) -> None:
    handle = node.register(wait_for_gate)
    node.init()
    slowest = 0.0
    for round_ in range(20):
        gate = node.create_buffer(1)
        args = TaskArgs()
        args.add_tensor(gate.tensor((1,), "UINT8"), "INOUT")
        run = node.submit(lambda orch, _args, _config, args=args: orch.submit_sub(handle, args))
        sent = []

        def interrupt(delay: float = 0.002 * round_, sent: list[float] = sent) -> None:
            threading.Event().wait(delay)
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - the signal may come at any moment
            thread.start()
            run.wait(30)
        slowest = max(slowest, time.monotonic() - sent[0])
        thread.join()
        assert not run.done
        buffer_to_numpy(gate, None, "UINT8", 0)[0] = 1
        run.wait(30)
        run.wait()
        node.release_buffer(gate)
    print(f"slowest answer to an interrupt: {slowest * 1e3:.1f} ms")
    node.close()


PROGRAM = """
import os, sys, time
import simpler

def endless(args):
    while True:
        pass

print("pids", flush=True)
w = simpler.Worker(level=3, num_sub_workers=2)
h = w.register(endless)
w.init()
print(*[child.pid for child in w.statistics()], flush=True)
{use}
"""


@pytest.mark.parametrize(
    "use",
    [
        "w.run(lambda orch, args, config: orch.submit_sub(h))",
        "try:\n    w.run(lambda orch, args, config: orch.submit_sub(h))\nfinally:\n    w.close()",
        "with w:\n    w.run(lambda orch, args, config: orch.submit_sub(h))",
        "run = w.submit(lambda orch, args, config: orch.submit_sub(h))\nw.close()",
    ],
    ids=["run", "finally", "with", "close"],
)
def test_b063_ctrl_c_ends_the_whole_tree(use: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM).format(use=use))
    package = Path(simpler.__file__).resolve().parents[1]
    with subprocess.Popen(
        [sys.executable, program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(package)},
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "pids\n"
        pids = [int(pid) for pid in process.stdout.readline().split()]
        threading.Event().wait(0.3)  # into the run, as far as that can be told from outside
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    assert errors.count("Traceback (most recent call last)") <= 1
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


@pytest.mark.parametrize(
    ("ending", "status"),
    [("", 0), ("sys.exit(3)", 3), ("raise ValueError('mine')", 1)],
    ids=["end", "exit", "exception"],
)
def test_b071_a_program_that_ends_without_close_leaves_nothing(script: Script, ending: str, status: int) -> None:
    done = script(
        f"""
        import sys
        import simpler
        def endless(args):
            while True:
                pass
        w = simpler.Worker(level=3, num_sub_workers=2)
        h = w.register(endless)
        w.init()
        print(*[child.pid for child in w.statistics()], flush=True)
        run = w.submit(lambda orch, args, config: orch.submit_sub(h))
        run.add_done_callback(lambda handle: None)
        {ending}
        """
    )
    assert done.returncode == status
    assert ("mine" in done.stderr) == (status == 1)
    assert done.stderr.count("simpler") == 0
    assert not any(os.path.exists(f"/proc/{pid}") for pid in done.stdout.split())


def test_b070_nothing_is_printed_at_exit_when_a_traceback_holds_a_closed_worker(script: Script) -> None:
    done = script("""
        import sys
        import simpler
        def failing():
            w = simpler.Worker(level=3, num_sub_workers=1)
            handle = w.register(lambda args: w)
            w.init()
            buffer = w.create_buffer(8)
            view = buffer.shm.buf
            w.cycle = (w, handle, view)
            run = w.submit(lambda orch, args, config: None)
            w.close()
            raise ValueError
        try:
            failing()
        except ValueError as error:
            sys.kept = error
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_killed_parent_takes_its_children_with_it(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM).format(use="w.run(lambda orch, args, config: orch.submit_sub(h))"))
    package = Path(simpler.__file__).resolve().parents[1]
    with subprocess.Popen(
        [sys.executable, program], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(package)}
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        pids = [int(pid) for pid in process.stdout.readline().split()]
        process.kill()
    give_up = time.monotonic() + 30
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < give_up


@pytest.mark.parametrize(
    "use",
    [
        # The heap has room for one; the second allocation waits for a task that never ends.
        "w.run(lambda orch, args, config: [submit_big(orch) for _ in range(3)])",
        # As many runs as are admitted wait for the first one.
        "for _ in range(40):\n    w.submit(lambda orch, args, config: orch.submit_sub(h))",
    ],
    ids=["alloc", "admission"],
)
def test_b063_ctrl_c_ends_a_submit_that_waits(use: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import sys, time
            import simpler

            def endless(args):
                while True:
                    time.sleep(0.01)

            def submit_big(orch):
                with orch.scope():
                    args = simpler.TaskArgs()
                    args.add_tensor(orch.alloc((60000,), "UINT8").tensor((60000,), "UINT8"), "OUTPUT")
                    orch.submit_sub(h, args)

            w = simpler.Worker(level=3, num_sub_workers=1, heap_ring_size=1 << 16)
            h = w.register(endless)
            w.init()
            print(w.statistics()[0].pid, flush=True)
            """
        )
        + f"try:\n{textwrap.indent(use, '    ')}\nexcept KeyboardInterrupt:\n    print('back', flush=True)\n    raise\n"
    )
    package = Path(simpler.__file__).resolve().parents[1]
    with subprocess.Popen(
        [sys.executable, program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(package)},
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        # The first interrupt ends the wait of the submit, the second the wait for the task that runs.
        give_up = time.monotonic() + 30
        while process.poll() is None:
            threading.Event().wait(0.3)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
            assert time.monotonic() < give_up
        output, errors = process.communicate()
    assert output.endswith("back\n")
    assert process.returncode == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert not os.path.exists(f"/proc/{pid}")
