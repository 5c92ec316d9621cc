"""Handles of runs: waiting, cancelling, callbacks, futures and coroutines."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Iterator

import pytest

import simpler
from simpler import MappedArgs, TaskArgs


class Gate:
    """A task that waits in its child until the parent opens it, and a run of one such task."""

    def __init__(self, worker: simpler.Worker) -> None:
        self.worker = worker
        self.handle = worker.register(self.wait)
        self.buffer: simpler.Buffer | None = None

    @staticmethod
    def wait(args: MappedArgs) -> None:
        while args[0].buffer[0] == 0:
            pass
        if args[0].buffer[0] == 2:
            raise ValueError("asked for")

    def submit(self) -> simpler.RunHandle:
        self.buffer = self.worker.create_buffer(1)
        args = TaskArgs()
        args.add_tensor(self.buffer.tensor((1,), "UINT8"), "INOUT")
        return self.worker.submit(lambda orch, _args, _config: orch.submit_sub(self.handle, args))

    def open(self, how: int = 1) -> None:
        assert self.buffer is not None
        self.buffer.numpy(None, "UINT8")[0] = how


@pytest.fixture
def gate(node: simpler.Worker) -> Iterator[Gate]:
    made = Gate(node)
    node.init()
    yield made
    if made.buffer is not None and not made.buffer.closed:
        made.open()


def test_a_timeout_leaves_the_run_alone(gate: Gate) -> None:
    run = gate.submit()
    assert not run.done
    with pytest.raises(TimeoutError) as caught:
        run.wait(timeout=0.01)
    assert isinstance(caught.value, simpler.Error)
    with pytest.raises(TimeoutError):
        run.result(0)
    gate.open()
    run.wait(30)
    assert run.done
    assert run.exception() is None
    assert run.errors == []


@pytest.mark.parametrize(
    ("timeout", "kind"),
    [(-1, ValueError), (float("nan"), ValueError), (float("inf"), ValueError), ("1", TypeError), (True, TypeError)],
)
def test_a_timeout_is_a_finite_number_of_seconds(gate: Gate, timeout: float, kind: type[Exception]) -> None:
    run = gate.submit()
    with pytest.raises(kind, match="timeout"):
        run.wait(timeout)
    gate.open()
    run.wait()


def test_many_threads_wait_and_see_the_same(gate: Gate) -> None:
    run = gate.submit()
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        waiting = [pool.submit(run.exception, 30) for _ in range(6)]
        gate.open(2)
        found = [each.result() for each in waiting]
    assert len({id(error) for error in found}) == 1
    assert "asked for" in str(found[0])


def test_callbacks_are_called_once_before_and_after_the_end(gate: Gate) -> None:
    run = gate.submit()
    called: list[simpler.RunHandle] = []
    rung = threading.Event()
    run.add_done_callback(called.append)
    run.add_done_callback(lambda handle: rung.set())
    gate.open()
    run.wait()
    assert rung.wait(30)
    run.add_done_callback(called.append)
    assert called == [run, run]


def test_cancelling_lets_nothing_start_any_more(gate: Gate) -> None:
    blocked: list[simpler.RunHandle] = []
    first = gate.submit()
    blocked.append(gate.worker.submit(lambda orch, _args, _config: orch.submit_sub(gate.handle, args())))

    blocked[0].cancel()
    gate.open()
    first.wait()
    with pytest.raises(simpler.Cancelled):
        blocked[0].wait()
    assert blocked[0].cancelled()
    assert not first.cancelled()


def args() -> TaskArgs:
    """Return arguments with which the gate would never open: no tensor, so it would raise instead."""
    return TaskArgs()


def test_a_future_ends_with_the_run(gate: Gate) -> None:
    run = gate.submit()
    future = run.as_future()
    assert not future.done()
    gate.open(2)
    with pytest.raises(simpler.TaskFailed, match="asked for"):
        future.result(30)


def test_a_coroutine_awaits_runs_without_blocking_the_loop(gate: Gate) -> None:
    async def main() -> list[str]:
        order = []
        run = gate.submit()

        async def ticking() -> None:
            await asyncio.sleep(0)
            order.append("tick")
            gate.open()

        task = asyncio.ensure_future(ticking())
        await run
        order.append("done")
        await task
        failing = gate.submit()
        gate.open(2)
        with pytest.raises(simpler.TaskFailed):
            await failing
        return order

    assert asyncio.run(main()) == ["tick", "done"]


def test_runs_have_numbers_and_a_line_for_logs(gate: Gate) -> None:
    run = gate.submit()
    assert repr(run) == f"<RunHandle {run.id}: running>"
    gate.open(2)
    run.exception()
    assert repr(run) == f"<RunHandle {run.id}: TaskFailed>"
    assert run.id >= 1


def test_a_run_that_nobody_waits_for_ends_all_the_same(gate: Gate) -> None:
    rung = threading.Event()
    gate.submit().add_done_callback(lambda handle: rung.set())
    gate.open()
    assert rung.wait(30)


def test_b077_calls_from_inside_a_graph_function_work_or_raise_at_once(node: simpler.Worker) -> None:
    handle = node.register(Gate.wait)
    node.init()
    earlier = node.submit(lambda orch, _args, _config: None)
    buffer = node.create_buffer(8)
    seen: dict[str, object] = {}

    def attempt(name: str, call: Callable[[], object]) -> None:
        try:
            seen[name] = call()
        except simpler.Error as error:
            seen[name] = type(error)

    def graph(orch: simpler.Orchestrator, _args: object, _config: object) -> None:
        attempt("create_buffer", lambda: node.create_buffer(8).nbytes)
        attempt("release_buffer", lambda: node.release_buffer(buffer))
        attempt("register", lambda: node.register(Gate.wait).name)
        attempt("wait", earlier.wait)
        attempt("submit", lambda: node.submit(lambda orch, _args, _config: None))
        attempt("close", node.close)
        attempt("unregister", lambda: node.unregister(handle))
        attempt("statistics", lambda: len(node.statistics()))

    node.run(graph)
    assert seen == {
        "create_buffer": 8,
        "release_buffer": simpler.Reentrant,
        "register": "Gate.wait",
        "wait": None,
        "submit": simpler.Reentrant,
        "close": simpler.Reentrant,
        "unregister": None,
        "statistics": 2,
    }
    node.run(lambda orch, _args, _config: None)


def test_b073_threads_submit_at_the_same_time(node: simpler.Worker) -> None:
    def add(args: MappedArgs) -> None:
        args[0].buffer.cast("I")[0] += 1

    handle = node.register(add)
    node.init()
    errors: list[BaseException] = []
    buffers = [node.create_buffer(4) for _ in range(8)]

    def work(buffer: simpler.Buffer) -> None:
        try:
            args = TaskArgs()
            args.add_tensor(buffer.tensor((1,), "UINT32"), "INOUT")
            for _ in range(100):
                node.run(lambda orch, _args, _config: orch.submit_sub(handle, args))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(buffer,)) for buffer in buffers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert [int(buffer.numpy(None, "UINT32")[0]) for buffer in buffers] == [100] * 8
