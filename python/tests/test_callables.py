"""Registering callables: what travels, what is refused, and whose version runs."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import simpler
from simpler import CallableKind, MappedArgs, TaskArgs

Script = Callable[..., "subprocess.CompletedProcess[str]"]
Step = Callable[[MappedArgs], object]


def result_of(worker: simpler.Worker, handle: simpler.CallableHandle) -> int:
    """Run a callable that leaves one number in its argument."""
    buffer = worker.create_buffer(1)
    args = TaskArgs()
    args.add_tensor(buffer.tensor((1,), "UINT8"), "OUTPUT")
    worker.run(lambda orch, _args, _config: orch.submit_sub(handle, args))
    found = bytes(buffer)[0]
    worker.release_buffer(buffer)
    return found


def put(args: MappedArgs, value: int) -> None:
    args[0].buffer[0] = value


def one(args: MappedArgs) -> None:
    put(args, 1)


class Stateful:
    def __init__(self, value: int) -> None:
        self.value = value

    def method(self, args: MappedArgs) -> None:
        put(args, self.value)

    def __call__(self, args: MappedArgs) -> None:
        put(args, self.value + 1)


def test_a_function_of_a_module_is_known_by_its_name(node: simpler.Worker) -> None:
    handle = node.register(one)
    assert handle.kind is CallableKind.PYTHON_IMPORT
    assert handle.hashid == node.register(one).hashid
    assert handle.hashid.startswith("sha256:")
    assert bytes.fromhex(handle.hashid[7:]) == handle.digest
    assert "one" in repr(handle)
    node.init()
    assert result_of(node, handle) == 1


@pytest.mark.parametrize("after", [False, True], ids=["before init", "after init"])
def test_closures_methods_and_callable_objects_travel(node: simpler.Worker, after: bool) -> None:
    pytest.importorskip("cloudpickle")
    captured = 5
    targets: list[Step] = [lambda args: put(args, captured), Stateful(7).method, Stateful(7), one]
    if after:
        node.init()
    handles = [node.register(target) for target in targets]
    if not after:
        node.init()
    assert [result_of(node, handle) for handle in handles] == [5, 7, 8, 1]


def test_b078_what_cannot_be_pickled_travels_with_the_fork(node: simpler.Worker, tmp_path: Path) -> None:
    lock = threading.Lock()
    here, there = socket.socketpair()
    file = (tmp_path / "text").open("w+")
    numbers = (i for i in (4, 5))

    def locked(args: MappedArgs) -> None:
        with lock:
            put(args, 1)

    def sends(args: MappedArgs) -> None:
        put(args, there.send(b"xy"))

    def writes(args: MappedArgs) -> None:
        put(args, file.write("abc"))
        file.flush()

    handles = [
        node.register(each)
        for each in (locked, sends, writes, lambda args: put(args, next(numbers)), lambda args: put(args, len(repr(node)) > 0))
    ]
    assert {handle.kind for handle in handles} == {CallableKind.PYTHON_FORK_ONLY}
    node.init()
    assert [result_of(node, handle) for handle in handles] == [1, 2, 3, 4, 1]
    assert here.recv(2) == b"xy"
    assert (tmp_path / "text").read_text() == "abc"
    for each in (here, there, file):
        each.close()


def test_b078_afterwards_what_cannot_be_pickled_is_refused_by_its_name(node: simpler.Worker) -> None:
    pytest.importorskip("cloudpickle")
    node.init()
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"captures lock of type lock"):
        node.register(lambda args: lock)
    with pytest.raises(TypeError, match=r"captures node of type Worker"):
        node.register(lambda args: node)
    assert result_of(node, node.register(one)) == 1


def test_b049_a_capture_of_three_gigabytes_travels_with_the_fork_and_is_refused_afterwards(node: simpler.Worker) -> None:
    pytest.importorskip("cloudpickle")
    huge = bytes(3_000_000_000)  # zeros that nothing has touched: the kernel backs none of them
    before = node.register(lambda args: put(args, len(huge) // 1_000_000_000))
    node.init()
    assert result_of(node, before) == 3
    with pytest.raises(TypeError, match=r"pickles to more than \d+ bytes"):
        node.register(lambda args: put(args, len(huge) // 500_000_000))
    assert result_of(node, node.register(one)) == 1


def test_b081_callables_that_compute_different_things_have_different_names(node: simpler.Worker) -> None:
    pytest.importorskip("cloudpickle")
    made = [lambda args, i=i: put(args, i) for i in (1, 2)]
    pair = (lambda args: put(args, 3), lambda args: put(args, 4))
    box = [5]
    changed = node.register(lambda args: put(args, box[0]))
    handles = [node.register(each) for each in (*made, *pair)]
    box[0] = 6
    assert len({handle.hashid for handle in handles}) == 4
    node.init()
    assert [result_of(node, handle) for handle in (*handles, changed)] == [1, 2, 3, 4, 5]


def test_b080_b081_a_name_that_is_bound_anew_keeps_both_versions(node: simpler.Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    old = node.register(one)

    def one_(args: MappedArgs) -> None:
        put(args, 9)

    one_.__qualname__ = one_.__name__ = "one"
    monkeypatch.setitem(globals(), "one", one_)
    new = node.register(one_)
    assert old.hashid != new.hashid
    node.init()
    assert [result_of(node, old), result_of(node, new)] == [1, 9]


def test_b080_functions_of_the_main_module_run_their_own_version(script: Script) -> None:
    pytest.importorskip("cloudpickle")
    done = script("""
        import simpler
        w = simpler.Worker(level=3, num_sub_workers=1)
        w.init()
        handles = []
        def f(args): args[0].buffer[0] = 1
        handles.append(w.register(f))
        def f(args): args[0].buffer[0] = 2
        handles.append(w.register(f))
        for h in handles:
            b = w.create_buffer(1)
            a = simpler.TaskArgs(); a.add_tensor(b.tensor((1,), "UINT8"), "OUTPUT")
            w.run(lambda orch, args, config: orch.submit_sub(h, a))
            print(bytes(b)[0])
        w.close()
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n2\n", "")


def test_print_in_a_callable_reaches_the_output_once(script: Script) -> None:
    done = script("""
        import simpler
        print("before")
        w = simpler.Worker(level=3, num_sub_workers=1)
        h = w.register(lambda args: print("inside"))
        w.init()
        w.run(lambda orch, args, config: orch.submit_sub(h))
        w.close()
        print("after")
    """)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["before", "inside", "after"], "")


def test_an_unregistered_callable_is_refused_and_its_name_free(node: simpler.Worker) -> None:
    handle = node.register(one)
    node.init()
    node.unregister(handle)
    with pytest.raises(simpler.Error):
        result_of(node, handle)
    with pytest.raises(KeyError):
        node.unregister(handle)
    assert result_of(node, node.register(one)) == 1
    with pytest.raises(TypeError, match="CallableHandle"):
        node.unregister(one)  # type: ignore[arg-type]


def test_registering_says_who_could_run_it() -> None:
    with pytest.raises(TypeError, match="int"):
        simpler.Worker(level=3, num_sub_workers=1).register(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="num_sub_workers is 0"):
        simpler.Worker(level=3, device_ids=[0], platform="tiny").register(one)
    with pytest.raises(TypeError, match="ChipCallable only"):
        simpler.Worker(level=2, platform="tiny").register(one)
    with pytest.raises(TypeError):
        simpler.CallableHandle()


def test_a_handle_of_another_worker_is_refused(node: simpler.Worker) -> None:
    with simpler.Worker(level=3, num_sub_workers=1) as other:
        foreign = other.register(one)
        node.init()
        with pytest.raises(simpler.Error):
            result_of(node, foreign)


def test_a_callable_that_keeps_its_arguments_cannot_use_them_later_and_disturbs_nobody() -> None:
    kept: list[MappedArgs] = []

    def keep(args: MappedArgs) -> None:
        args[0].buffer.cast("q")[0] += args.scalar(0)
        for earlier in kept:
            with pytest.raises(RuntimeError):
                earlier.scalar(0)
        kept.append(args)

    with simpler.Worker(level=3, num_sub_workers=1) as worker:
        handle = worker.register(keep)
        total = worker.create_buffer(8)

        def graph(orch: simpler.Orchestrator, args: object, config: object) -> None:
            for amount in (1, 10, 100):
                orch.submit_sub(handle, TaskArgs().inout(total.tensor((1,), "INT64")).add_scalar(amount))

        worker.run(graph)
        assert total.numpy(None, "INT64")[0] == 111


def test_after_a_callable_that_raises_the_next_call_has_arguments_of_its_own() -> None:
    def check(args: MappedArgs) -> None:
        if args.scalar(0) == 0:
            raise ValueError("the first one")
        args[0].buffer.cast("q")[0] = args.scalar(0)

    with simpler.Worker(level=3, num_sub_workers=1) as worker:
        handle = worker.register(check)
        cell = worker.create_buffer(8)

        def submit(value: int) -> None:
            args = TaskArgs().inout(cell.tensor((1,), "INT64")).add_scalar(value)
            worker.run(lambda orch, given, config: orch.submit_sub(handle, args))

        with pytest.raises(simpler.TaskFailed, match="the first one"):
            submit(0)
        submit(7)
        assert cell.numpy(None, "INT64")[0] == 7


def test_other_threads_of_a_child_run_beside_callables_that_never_leave_c() -> None:
    def start_ticking(args: MappedArgs) -> None:
        ticks = args[0].buffer.cast("q")

        def tick() -> None:
            while True:
                ticks[0] += 1
                time.sleep(0)

        threading.Thread(target=tick, daemon=True).start()

    def tell(args: MappedArgs) -> None:
        args[0].buffer.cast("q")[0] = args[1].buffer.cast("q")[0]

    worker = simpler.Worker(level=3, num_sub_workers=1)
    ticking, telling = worker.register(start_ticking), worker.register(tell)
    in_c = worker.register(([0] * 100_000).count)  # compares the arguments with each, some milliseconds in C
    with worker:
        buffers = [worker.create_buffer(8) for _ in range(3)]
        ticks, before, after = (each.tensor((1,), "INT64") for each in buffers)

        def graph(orch: simpler.Orchestrator, args: object, config: object) -> None:
            orch.submit_sub(ticking, TaskArgs().no_dep(ticks))
            orch.submit_sub(telling, TaskArgs().output(before).no_dep(ticks))
            for _ in range(100):
                orch.submit_sub(in_c, TaskArgs().no_dep(ticks))
            orch.submit_sub(telling, TaskArgs().output(after).no_dep(ticks))

        worker.run(graph)
        _, first, last = (int(each.numpy(None, "INT64")[0]) for each in buffers)
        assert last > first + 10
