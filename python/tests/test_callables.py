"""Registering callables: what travels, what is refused, and whose version runs."""

from __future__ import annotations

import socket
import subprocess
import threading
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
