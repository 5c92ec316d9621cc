"""Faults that were seen elsewhere: how programs and their children start, leave and die, and where they can run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import simpler
from simpler import MappedArgs, Orchestrator, TaskArgs

Script = Callable[..., "subprocess.CompletedProcess[str]"]


def one(tensor: simpler.Tensor, tag: str = "INOUT", *scalars: float) -> TaskArgs:
    args = TaskArgs()
    args.add_tensor(tensor, tag)
    for scalar in scalars:
        args.add_scalar(scalar)
    return args


def flag(buffer: simpler.Buffer, index: int) -> simpler.Tensor:
    return buffer.tensor((1,), "UINT8", byte_offset=index)


def meet(args: MappedArgs) -> None:
    """Set the first argument's byte, then wait for the second's."""
    args[0].buffer[0] = 1
    while args[1].buffer[0] == 0:
        os.sched_yield()


def touch(args: MappedArgs) -> None:
    args[0].buffer[0] += 1


def gone(pids: list[int]) -> bool:
    return not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_b008_mathematics_done_before_the_start_works_in_the_children(node: simpler.Worker) -> None:
    a = np.random.default_rng(8).standard_normal((600, 600))
    expected = a @ a  # starts the thread pool of the library, where it has one

    def product(args: MappedArgs) -> None:
        args[0].numpy()[0] = float(abs(a @ a - expected).max())

    handle = node.register(product)
    node.init()
    worst = node.create_buffer(16)
    worst.numpy(None, "FLOAT32")[:] = 9

    def graph(orch: Orchestrator, args: object, config: object) -> None:
        orch.submit_sub_group(handle, [one(worst.tensor((1,), "FLOAT32", byte_offset=4 * i), "OUTPUT") for i in range(2)])

    node.run(graph)
    assert worst.numpy(None, "FLOAT32")[:2].max() < 1e-6


def test_b067_every_question_after_close_is_answered_at_once(node: simpler.Worker) -> None:
    handle = node.register(touch)
    node.init()
    buffer = node.create_buffer(1)
    finished = node.submit(lambda orch, args, config: orch.submit_sub(handle, one(flag(buffer, 0))))
    node.close()
    node.close()
    node.close()
    finished.wait()
    finished.result()
    assert finished.done
    for call in (
        lambda: node.run(lambda orch, args, config: None),
        lambda: node.submit(lambda orch, args, config: None),
        lambda: node.register(touch),
        lambda: node.create_buffer(1),
        node.init,
    ):
        with pytest.raises(RuntimeError, match="CLOSED"):
            call()


def test_b086_one_budget_ends_eight_wedged_children() -> None:
    def wedge(args: MappedArgs) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        args[0].buffer[0] = 1
        while True:
            signal.pause()

    worker = simpler.Worker(level=3, num_sub_workers=8, close_timeout_s=0.1)
    handle = worker.register(wedge)
    worker.init()
    flags = worker.create_buffer(8)
    pids = [child.pid for child in worker.statistics()]
    run = worker.submit(lambda orch, args, config: orch.submit_sub_group(handle, [one(flag(flags, i)) for i in range(8)]))
    while bytes(flags) != b"\x01" * 8:
        os.sched_yield()
    with pytest.raises(TimeoutError):
        worker.close()
    worker.terminate()
    worker.close()
    assert gone(pids)
    assert run.exception() is not None


def start(source: str, **environment: str) -> subprocess.Popen[str]:
    """Start a program in a session of its own."""
    package = str(Path(simpler.__file__).resolve().parents[1])
    return subprocess.Popen(
        [sys.executable, "-c", source],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": package, **environment},
    )


TREE = """
import os, signal, sys, simpler
def wait(args):
    args[0].buffer[0] = 1
    while True: signal.pause()
w = simpler.Worker(level=3, num_sub_workers=3)
h = w.register(wait)
w.init()
b = w.create_buffer(1)
def busy():
    a = simpler.TaskArgs(); a.add_tensor(b.tensor((1,), "UINT8"), "INOUT")
    run = w.submit(lambda orch, args, config: orch.submit_sub(h, a))
    while bytes(b) != b"\\x01": os.sched_yield()
    return run
pids = [str(child.pid) for child in w.statistics()]
"""


def test_b087_a_pipe_ends_with_the_program_that_was_killed() -> None:
    program = start(TREE + "busy(); print(*pids, flush=True); os.kill(os.getpid(), signal.SIGKILL)")
    output, _ = program.communicate(timeout=60)  # returns when the last holder of the pipe is gone
    assert program.returncode == -signal.SIGKILL
    assert len(output.split()) == 3


def test_b093_b095_a_correct_program_is_silent_with_every_warning_an_error(script: Script) -> None:
    done = script(
        """
        import simpler
        w = simpler.Worker(level=3, num_sub_workers=4)
        def add(args): args[0].buffer[0] += 1
        h = w.register(add)
        w.init()
        b = w.create_buffer(1)
        a = simpler.TaskArgs(); a.add_tensor(b.tensor((1,), "UINT8"), "INOUT")
        run = w.submit(lambda orch, args, config: orch.submit_sub(h, a))
        run.wait()
        w.close()
        """,
        "-W",
        "error",
        "-X",
        "dev",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_b011_b015_killed_trees_and_programs_side_by_side_leave_nothing_and_share_no_name(script: Script) -> None:
    done = script("""
        import os, signal, simpler
        def add(args): args[0].buffer[0] += args.scalar(0)
        def tree(number, end):
            w = simpler.Worker(level=3, num_sub_workers=2)
            h = w.register(add)
            w.init()
            b = w.create_buffer(1)
            a = simpler.TaskArgs(); a.add_tensor(b.tensor((1,), "UINT8"), "INOUT"); a.add_scalar(number)
            w.run(lambda orch, args, config: orch.submit_sub(h, a))
            right = bytes(b)[0] == number
            if end == "kill":
                for child in w.statistics(): os.kill(child.pid, signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)
            w.close()
            os._exit(0 if right else 1)
        def begin(number, end):
            pid = os.fork()
            if pid == 0: tree(number, end)
            return pid
        before = sorted(os.listdir("/dev/shm"))
        for number in range(20):
            assert os.waitpid(begin(number, "kill"), 0)[1] == signal.SIGKILL
        assert [os.waitpid(pid, 0)[1] for pid in [begin(i, "close") for i in range(16)]] == [0] * 16
        assert sorted(os.listdir("/dev/shm")) == before
        print("done")
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_b020_eight_workers_and_two_hundred_buffers_within_sixty_four_descriptors(script: Script) -> None:
    done = script("""
        import resource, simpler
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        w = simpler.Worker(level=3, num_sub_workers=8)
        h = w.register(lambda args: None)
        try:
            w.init()
            kept = [w.create_buffer(64) for _ in range(200)]
            w.run(lambda orch, args, config: orch.submit_sub(h))
            w.close()
        except simpler.Error as error:
            assert "descriptor" in str(error), error
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_b022_long_paths_work(script: Script, tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    done = script(
        f"""
        import os, simpler
        os.chdir({str(deep)!r})
        w = simpler.Worker(level=3, num_sub_workers=1)
        h = w.register(lambda args: None)
        with w:
            config = simpler.CallConfig()
            config.output_prefix = "p" * 1023
            w.run(lambda orch, args, config: orch.submit_sub(h), config=config)
        try:
            config.output_prefix = "p" * 1024
        except ValueError as error:
            assert "1023" in str(error), error
            print("refused")
        """,
        TMPDIR=str(deep),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "refused\n", "")


def test_b059_four_programs_of_eight_workers_finish_on_one_cpu() -> None:
    source = """
import os, simpler
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
def add(args): args[0].buffer[0] += 1
w = simpler.Worker(level=3, num_sub_workers=8)
h = w.register(add)
with w:
    b = w.create_buffer(1)
    a = simpler.TaskArgs(); a.add_tensor(b.tensor((1,), "UINT8"), "INOUT")
    w.run(lambda orch, args, config: [orch.submit_sub(h, a) for _ in range(100)])
    print(bytes(b)[0])
"""
    programs = [start(source) for _ in range(4)]
    assert [program.communicate(timeout=120) for program in programs] == [("100\n", "")] * 4


def test_b091_without_a_compiler_only_compiling_fails(script: Script) -> None:
    done = script(
        """
        import simpler
        w = simpler.Worker(level=3, num_sub_workers=1)
        h = w.register(lambda args: None)
        with w:
            w.run(lambda orch, args, config: orch.submit_sub(h))
        try:
            simpler.compile_kernel("int a;\\nint b;\\n", signature=[])
        except simpler.Error as error:
            print(type(error).__name__, "CXX" in str(error), "g++" in str(error))
        """,
        PATH="/nowhere",
        CXX="",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split()[1:] == ["True", "True"]


def test_b100_looking_at_everything_before_the_start_does_no_harm() -> None:
    assert "matmul" in simpler.kernels.names()
    with simpler.Worker(level=3, platform="tiny", device_ids=[0, 1]) as worker:
        assert [child.alive for child in worker.statistics()] == [True, True]
        assert worker.committed_device_memory(1) >= 0


def test_b100_a_chip_that_this_process_uses_already_does_not_disturb_the_children_of_a_later_start() -> None:
    program = simpler.compile(
        '#include "simpler/orchestration.h"\nusing namespace simpler::orchestration;\n'
        "SIMPLER_ORCHESTRATION void twice(const ChipTaskArgs& args) {\n"
        "  CoreTaskArgs task;\n  task.add_input(args.tensor(0), args.tensor(0));\n  task.add_output(args.tensor(1));\n"
        "  rt_submit_aiv_task(0, task);\n}\n",
        signature=["IN", "OUT"],
        func_name="twice",
        children=[(0, simpler.kernels.add)],
    )

    def two(worker: simpler.Worker) -> tuple[simpler.Buffer, simpler.Buffer, TaskArgs]:
        source, target = worker.create_buffer(16), worker.create_buffer(16)
        source.numpy()[:], target.numpy()[:] = 3, 0
        args = TaskArgs()
        args.add_tensor(source.tensor((4,), "FLOAT32"), "INPUT")
        args.add_tensor(target.tensor((4,), "FLOAT32"), "OUTPUT")
        return source, target, args

    with simpler.Worker(level=2, platform="a2a3sim") as here:  # its driver and its threads are up
        handle = here.register(program)
        _, target, args = two(here)
        here.run(handle, args)
        assert target.numpy().tolist() == [6] * 4
        with simpler.Worker(level=3, platform="a2a3sim", device_ids=[0, 1]) as node:
            same = node.register(program)
            for chip in (0, 1):
                _, there, arguments = two(node)
                node.run(
                    lambda orch, _args, _config, arguments=arguments, chip=chip: orch.submit_next_level(
                        same, arguments, worker=chip
                    )
                )
                assert there.numpy().tolist() == [6] * 4
        target.numpy()[:] = 0
        here.run(handle, args)  # and they did not disturb it
        assert target.numpy().tolist() == [6] * 4


def sockets_of(pid: int) -> list[str]:
    found = []
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
        if target.startswith("socket:"):
            found.append(target)
    return sorted(found)


def test_b098_a_tree_has_no_socket_that_anybody_could_connect_to(node: simpler.Worker) -> None:
    handle = node.register(touch)
    before = sockets_of(os.getpid())
    node.init()
    buffer = node.create_buffer(1)
    node.run(lambda orch, args, config: orch.submit_sub(handle, one(flag(buffer, 0))))
    with simpler.Worker(level=3, platform="tiny", device_ids=[0]) as chips:
        assert sockets_of(os.getpid()) == before
        for child in (*node.statistics(), *chips.statistics()):
            # The program's own streams may be sockets; those are all that a child may have.
            streams = {os.readlink(f"/proc/{child.pid}/fd/{stream}") for stream in range(3)}
            assert set(sockets_of(child.pid)) <= streams


def test_b003_a_child_that_dies_is_named_and_stays_the_reason(node: simpler.Worker) -> None:
    handle = node.register(lambda args: os.kill(os.getpid(), signal.SIGKILL))
    node.init()
    pids = [child.pid for child in node.statistics()]
    for _ in range(2):
        with pytest.raises(simpler.WorkerDied, match="sub_worker") as caught:
            node.run(lambda orch, args, config: orch.submit_sub(handle))
        assert caught.value.signal == signal.SIGKILL
        assert caught.value.pid in pids
    with pytest.raises(simpler.WorkerDied) as again:
        node.run(lambda orch, args, config: orch.submit_sub(handle))
    assert again.value.signal == signal.SIGKILL
    node.close()
    assert gone(pids)


def test_b104_a_buffer_that_a_queued_or_abandoned_run_names_is_not_released(node: simpler.Worker) -> None:
    first, second = node.register(meet), node.register(touch)
    node.init()
    flags, data = node.create_buffer(2), node.create_buffer(1)
    both = one(flag(flags, 0))
    both.add_tensor(flag(flags, 1), "NO_DEP")
    running = node.submit(lambda orch, args, config: orch.submit_sub(first, both))
    node.submit(lambda orch, args, config: orch.submit_sub(second, one(flag(data, 0))))  # queued, and nobody holds it
    for buffer in (flags, data):
        with pytest.raises(RuntimeError, match="run"):
            node.release_buffer(buffer)
    flags.numpy(None, "UINT8")[1] = 1
    running.wait()
    give_up = time.monotonic() + 60
    while True:
        try:
            node.release_buffer(data)
            break
        except simpler.FailedPrecondition:
            assert time.monotonic() < give_up
    with pytest.raises(ValueError, match="was released"):
        data.tensor((1,), "UINT8")


NAMESPACE = """
import os, sys, simpler
def add(args): args[0].buffer[0] += 1
def cycle():
    w = simpler.Worker(level=3, num_sub_workers=2)
    h = w.register(add)
    with w:
        b = w.create_buffer(1)
        a = simpler.TaskArgs(); a.add_tensor(b.tensor((1,), "UINT8"), "INOUT")
        w.run(lambda orch, args, config: orch.submit_sub(h, a))
        assert bytes(b) == b"\\x01"
"""


def in_namespaces(flags: list[str], prepare: str, source: str) -> subprocess.CompletedProcess[str]:
    """Run a program in name spaces of its own, after a shell command in them."""
    if subprocess.run(["unshare", *flags, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("name spaces may not be made here")
    return subprocess.run(
        ["unshare", *flags, "sh", "-c", f'{prepare} && exec "$0" -c "$1"', sys.executable, NAMESPACE + source],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(Path(simpler.__file__).resolve().parents[1])},
    )


def test_b007_a_program_that_is_process_1_leaves_no_defunct_process() -> None:
    done = in_namespaces(
        ["--mount", "--pid", "--fork", "--mount-proc"],
        "true",
        """
assert os.getpid() == 1
for _ in range(50): cycle()
print(sorted(pid for pid in os.listdir("/proc") if pid.isdigit()))
""",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "['1']\n", "")


@pytest.mark.parametrize(
    "prepare", ["umount -l /dev/shm", "mount -t tmpfs -o size=1m tmpfs /dev/shm"], ids=["none", "one megabyte"]
)
def test_b018_b019_a_small_or_missing_shared_memory_mount_does_not_matter(prepare: str) -> None:
    done = in_namespaces(["--mount"], prepare, "cycle(); print('done')")
    if done.returncode == 32 or "umount" in done.stderr or "mount:" in done.stderr:
        pytest.skip(done.stderr)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_b102_a_chip_that_breaks_is_named_and_the_next_worker_has_one() -> None:
    kernel = simpler.compile_kernel(
        '#include "simpler/kernel.h"\nSIMPLER_KERNEL void kernel_entry(int64_t* args) {\n'
        "  if (simpler::kernel::data<float>(args, 0)[0] == 0) *reinterpret_cast<volatile int*>(args[0] & 8) = 1;\n}\n",
        signature=["INOUT"],
        name="breaks",
    )
    program = simpler.compile(
        '#include "simpler/orchestration.h"\nusing namespace simpler::orchestration;\n'
        "SIMPLER_ORCHESTRATION void one(const ChipTaskArgs& args) {\n"
        "  CoreTaskArgs task;\n  task.add_inout(args.tensor(0));\n  rt_submit_aiv_task(0, task);\n}\n",
        signature=["INOUT"],
        func_name="one",
        children=[(0, kernel)],
    )
    with simpler.Worker(level=3, platform="tiny", device_ids=[0]) as worker:
        with pytest.raises(simpler.WorkerDied, match="chip 0") as caught:
            run_on_a_chip(worker, program, 0)
        assert caught.value.signal == signal.SIGSEGV
        worker.close()
    with simpler.Worker(level=3, platform="tiny", device_ids=[0]) as worker:
        run_on_a_chip(worker, program, 1)


def run_on_a_chip(worker: simpler.Worker, program: simpler.ChipCallable, value: float) -> None:
    handle, buffer = worker.register(program), worker.create_buffer(16)
    buffer.numpy()[:] = value
    args = one(buffer.tensor((4,), "FLOAT32"))
    worker.run(lambda orch, _args, _config: orch.submit_next_level(handle, args, worker=0))


def test_b024_without_a_home_and_with_a_read_only_place_of_work_a_node_runs(script: Script, tmp_path: Path) -> None:
    shut = tmp_path / "shut"
    shut.mkdir(mode=0o500)
    done = script(
        f"""
        import os, simpler
        os.chdir({str(shut)!r})
        w = simpler.Worker(level=3, num_sub_workers=1)
        h = w.register(lambda args: None)
        with w:
            w.run(lambda orch, args, config: orch.submit_sub(h))
        """,
        HOME="",
        TMPDIR=str(shut),
        XDG_CACHE_HOME="",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
