"""B083: every limit of a worker can be set, acts where it was set, and is out of the way where it was raised."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from subprocess import CompletedProcess

import pytest

import simpler
from simpler import MappedArgs, Orchestrator, TaskArgs
from simpler.worker import _COUNTS, _SECONDS

Script = Callable[..., "CompletedProcess[str]"]

# What a worker is made of, and no limit of anything.
STRUCTURE = {"level", "device_id", "num_sub_workers"}


def test_b083_every_limit_has_a_test_here() -> None:
    tested = {name[len("test_b083_") :].split("__")[0] for name in globals() if "__" in name and name.startswith("test_b083_")}
    assert tested == {*_SECONDS, *_COUNTS} - STRUCTURE


@pytest.mark.parametrize("name", [*_SECONDS, *sorted({*_COUNTS} - STRUCTURE)])
def test_b083_a_wrong_value_of_a_limit_is_refused_by_its_name(name: str) -> None:
    wrong: list[object] = [-1, float("nan"), float("inf"), "1", True]
    if name != "chip_threads":  # where 0 leaves the choice to us
        wrong.append(0)
    for value in wrong:
        with pytest.raises((ValueError, TypeError), match=name):
            simpler.Worker(level=3, num_sub_workers=1, **{name: value})


def wait_for(args: MappedArgs) -> None:
    args[0].buffer[1] = 1
    while args[0].buffer[0] == 0:
        os.sched_yield()


def nothing(args: MappedArgs) -> None:
    pass


def tagged(buffer: simpler.Buffer, tag: str = "NO_DEP") -> TaskArgs:
    args = TaskArgs()
    args.add_tensor(buffer.tensor((2,), "UINT8"), tag)
    return args


class Held:
    """A worker whose only child works until `open` is called."""

    def __init__(self, **limits: float) -> None:
        self.worker = simpler.Worker(level=3, num_sub_workers=1, **limits)
        self.gate = self.worker.register(wait_for)
        self.other = self.worker.register(nothing)
        self.worker.init()
        self.flag = self.worker.create_buffer(2)

    def submit(self) -> simpler.RunHandle:
        return self.worker.submit(lambda orch, args, config: orch.submit_sub(self.gate, tagged(self.flag)))

    def works(self) -> None:
        while self.flag.numpy(None, "UINT8")[1] == 0:
            os.sched_yield()

    def open(self) -> None:
        self.flag.numpy(None, "UINT8")[0] = 1

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.flag.closed:
            self.open()
        self.worker.terminate()


def opening(held: Held, use: Callable[[], object]) -> None:
    """Open the gate while `use` waits, or just before it would."""
    thread = threading.Thread(target=held.open)
    thread.start()
    use()
    thread.join()


def refused(held: Held, use: Callable[[], object], text: str) -> None:
    """Expect the error that names a limit; the held task goes on until then, so that only the limit can end the wait."""
    try:
        with pytest.raises(simpler.CapacityError, match=text):
            use()
    finally:
        held.open()


def allocate_twice(held: Held, orch: Orchestrator) -> None:
    with orch.scope():
        args = tagged(held.flag)
        args.add_tensor(orch.alloc((40000,), "UINT8").tensor((1,), "UINT8"), "OUTPUT")
        orch.submit_sub(held.gate, args)
    with orch.scope():  # room for it comes when that task ends
        orch.alloc((40000,), "UINT8")


def test_b083_heap_wait_timeout_s__bounds_the_wait_for_memory_of_running_tasks() -> None:
    with Held(heap_ring_size=1 << 16, heap_wait_timeout_s=0.05) as held:
        held.worker.run(lambda orch, args, config: refused(held, lambda: allocate_twice(held, orch), "50 ms"))
    for raised in ({}, {"heap_wait_timeout_s": 1e6}):
        with Held(heap_ring_size=1 << 16, **raised) as held:
            opening(held, lambda held=held: held.worker.run(lambda orch, args, config: allocate_twice(held, orch)))


def test_b083_heap_ring_size__bounds_what_graphs_allocate() -> None:
    def graph(orch: Orchestrator, args: object, config: object) -> None:
        orch.alloc((100_000,), "UINT8")

    with Held(heap_ring_size=1 << 16) as held, pytest.raises(simpler.Error, match=r"100000|100352") as caught:
        held.worker.run(graph)
    assert "65536" in str(caught.value)
    with Held(heap_ring_size=1 << 17) as held:
        held.worker.run(graph)


def sixty_five(held: Held, orch: Orchestrator) -> None:
    orch.submit_sub(held.gate, tagged(held.flag, "INOUT"))
    for _ in range(64):
        orch.submit_sub(held.other, tagged(held.flag, "INPUT"))


def test_b083_task_window__bounds_the_tasks_that_live() -> None:
    with Held(task_window=64, heap_wait_timeout_s=0.05) as held:
        held.worker.run(lambda orch, args, config: refused(held, lambda: sixty_five(held, orch), "64 task slots"))
    with Held(task_window=65, heap_wait_timeout_s=0.05) as held:
        run = held.worker.submit(lambda orch, args, config: sixty_five(held, orch))
        held.open()
        run.wait()
    with Held(task_window=64) as held:
        opening(held, lambda: held.worker.run(lambda orch, args, config: sixty_five(held, orch)))


def test_b083_max_pending_runs__bounds_the_runs_that_are_not_over() -> None:
    for most in (1, 3):
        with Held(max_pending_runs=most) as held:
            runs = [held.submit() for _ in range(most)]
            begun: list[bool] = []

            def graph(orch: Orchestrator, args: object, config: object, runs=runs, begun=begun) -> None:  # type: ignore[no-untyped-def]
                begun.append(runs[0].done)

            opening(held, lambda held=held, graph=graph: held.worker.run(graph))  # type: ignore[misc]
            assert begun == [True]
    with Held(max_pending_runs=2) as held:
        held.submit()
        late = []
        held.worker.submit(lambda orch, args, config: late.append(True))
        assert late == [True]


def test_b083_control_timeout_s__bounds_the_wait_for_a_busy_child() -> None:
    pytest.importorskip("cloudpickle")
    with Held(control_timeout_s=0.05) as held:
        run = held.submit()
        held.works()
        with pytest.raises(simpler.Error, match="sub"):
            held.worker.register(lambda args: None)
        held.open()
        run.wait()
    with Held(control_timeout_s=1e6) as held:
        held.submit()
        held.works()
        opening(held, lambda: held.worker.register(lambda args: None))


def test_b083_close_timeout_s__bounds_the_wait_for_runs() -> None:
    with Held(close_timeout_s=0.05) as held:
        held.submit()
        with pytest.raises(simpler.Timeout):
            held.worker.close()
        held.open()
        held.worker.close()
    with Held(close_timeout_s=1e6) as held:
        run = held.submit()
        opening(held, held.worker.close)
        run.wait()
        with pytest.raises(simpler.FailedPrecondition, match="CLOSED"):
            held.worker.init()


def test_b083_startup_timeout_s__bounds_the_start_of_every_child(script: Script) -> None:
    source = """
        import os, simpler
        here, there = os.pipe()
        pipe = os.fdopen(here, "rb", 0)
        os.register_at_fork(after_in_child=lambda: pipe.read(1))  # a child that is slow to start
        w = simpler.Worker(level=3, num_sub_workers=2, startup_timeout_s=LIMIT)
        h = w.register(lambda args, pipe=pipe: None)  # so that the children keep it
        if LIMIT > 1: os.write(there, b"go")
        try:
            with w: w.run(lambda orch, args, config: orch.submit_sub(h))
            print("ran")
        except simpler.Timeout as error:
            print(open(f"/proc/self/task/{os.getpid()}/children").read() or "timeout and no child")
    """
    for limit, printed in ((0.2, "timeout and no child\n"), (1e6, "ran\n")):
        done = script(source.replace("LIMIT", str(limit)))
        assert (done.returncode, done.stdout, done.stderr) == (0, printed, "")


SPIN = """
#include <ctime>
#include "simpler/kernel.h"
SIMPLER_KERNEL void kernel_entry(int64_t* args) {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  const int64_t end = now.tv_sec * 1000 + now.tv_nsec / 1000000 + 400;
  while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < end) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  simpler::kernel::data<float>(args, 0)[0] += 1;
}
"""
ONE = """
#include "simpler/orchestration.h"
using namespace simpler::orchestration;
SIMPLER_ORCHESTRATION void one(const ChipTaskArgs& args) {
  CoreTaskArgs task;
  task.add_inout(args.tensor(0));
  rt_submit_aiv_task(0, task);
}
"""


@pytest.fixture(scope="module")
def spinning() -> simpler.ChipCallable:
    kernel = simpler.compile_kernel(SPIN, signature=["INOUT"], name="spin")
    return simpler.compile(ONE, signature=["INOUT"], func_name="one", children=[(0, kernel)])


def test_b083_watchdog_s__bounds_the_cpu_time_of_a_kernel(spinning: simpler.ChipCallable) -> None:
    for limit in (0.05, 100.0):
        with simpler.Worker(level=3, platform="tiny", device_ids=[0], watchdog_s=limit) as worker:
            handle, buffer = worker.register(spinning), worker.create_buffer(4)
            buffer.numpy()[:] = 0
            args = TaskArgs()
            args.add_tensor(buffer.tensor((1,), "FLOAT32"), "INOUT")
            run = worker.submit(
                lambda orch, _args, _config, handle=handle, args=args: orch.submit_next_level(handle, args, worker=0)
            )
            if limit < 1:
                with pytest.raises(simpler.Error, match=r"SCHEDULER_TIMEOUT.*watchdog_s"):
                    run.wait()
            else:
                run.wait()
                assert buffer.numpy().tolist() == [1]


CROWD = """
#include <atomic>
#include <ctime>
#include "simpler/kernel.h"
SIMPLER_KERNEL void kernel_entry(int64_t* args) {
  auto* numbers = simpler::kernel::data<int32_t>(args, 0);
  std::atomic_ref<int32_t> inside(numbers[0]), most(numbers[1]);
  const int32_t now = ++inside;
  int32_t seen = most.load();
  while (seen < now && !most.compare_exchange_weak(seen, now)) {
  }
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  const int64_t end = time.tv_sec * 1000000 + time.tv_nsec / 1000 + 1000;
  while (time.tv_sec * 1000000 + time.tv_nsec / 1000 < end) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  --inside;
}
"""


def test_b083_chip_threads__bounds_how_many_short_blocks_compute_at_once() -> None:
    kernel = simpler.compile_kernel(CROWD, signature=["INOUT"], name="crowd")
    eight = ONE.replace("rt_submit", "task.launch_spec.set_block_num(8);\n  rt_submit")
    program = simpler.compile(eight, signature=["INOUT"], func_name="one", children=[(0, kernel)])

    def most_at_once(worker: simpler.Worker, handle: simpler.CallableHandle) -> int:
        buffer = worker.create_buffer(8)
        numbers = buffer.numpy(None, "INT32")
        numbers[:] = 0
        args = TaskArgs()
        args.add_tensor(buffer.tensor((2,), "INT32"), "INOUT")
        worker.run(lambda orch, _args, _config: orch.submit_next_level(handle, args, worker=0))
        return int(numbers[1])

    with simpler.Worker(level=3, platform="a2a3sim", device_ids=[0], chip_threads=1) as worker:
        handle = worker.register(program)
        # A block that takes 100 ms, because the machine is busy elsewhere, may let another one in.
        assert min(most_at_once(worker, handle) for _ in range(8)) == 1
    with simpler.Worker(level=3, platform="a2a3sim", device_ids=[0], chip_threads=4) as worker:
        handle = worker.register(program)
        while most_at_once(worker, handle) < 2:  # whether they meet is the machine's choice, that they can is ours
            pass
