"""Graphs of Python tasks: order, arguments, groups, scopes, failures."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

import pytest

import simpler
from simpler import MappedArgs, Orchestrator, TaskArgs

Config = object


def append(args: MappedArgs) -> None:
    """Write the scalar behind what is there; byte 0 counts."""
    memory = args[0].buffer
    memory[0] += 1
    memory[memory[0]] = args.scalar(0)


def whole(buffer: simpler.Buffer, tag: str = "INOUT", *scalars: float) -> TaskArgs:
    args = TaskArgs()
    args.add_tensor(buffer.tensor((buffer.nbytes,), "UINT8"), tag)
    for scalar in scalars:
        args.add_scalar(scalar)
    return args


def test_tasks_on_the_same_memory_run_in_the_order_of_submission(node: simpler.Worker) -> None:
    handle = node.register(append)
    node.init()
    buffer = node.create_buffer(64)

    def graph(orch: Orchestrator, args: TaskArgs | None, config: Config) -> None:
        for i in range(40):
            orch.submit_sub(handle, whole(buffer, "INOUT", i))

    node.run(graph)
    assert list(bytes(buffer)[:41]) == [40, *range(40)]


def test_a_graph_function_gets_what_submit_was_given(node: simpler.Worker) -> None:
    node.init()
    seen: list[object] = []
    given, config = TaskArgs(), simpler.CallConfig()
    node.run(lambda orch, args, settings: seen.extend((args, settings, orch._worker)), given, config)
    assert seen[0] is given
    assert seen[1] is config
    assert seen[2] is node


def test_a_task_sees_shapes_strides_types_and_scalars(node: simpler.Worker) -> None:
    def describe(args: MappedArgs) -> None:
        arg = args[0]
        text = f"{arg.shapes} {arg.strides} {arg.dtype} {arg.byte_offset} {len(arg.buffer)} {arg.writable}"
        text += f" {len(args)} {args.tensor_count()} {args.scalar_count()}"
        text += f" {args.scalar(0)} {args.scalar_float(1)} {type(arg.dtype).__name__}"
        encoded = text.encode()
        args[-1].buffer[: len(encoded)] = encoded

    handle = node.register(describe)
    node.init()
    data, out = node.create_buffer(256), node.create_buffer(256)
    args = TaskArgs()
    args.add_tensor(data.tensor((3, 5), "INT16", strides=(16, 1), byte_offset=8))
    args.add_tensor(out.tensor((256,), "UINT8"), "OUTPUT")
    args.add_scalar(-1)
    args.add_scalar(0.5)
    node.run(lambda orch, _args, _config: orch.submit_sub(handle, args))
    # The extent of the view: two steps of 16 elements and five more, of two bytes each.
    assert bytes(out).rstrip(b"\0").decode() == f"(3, 5) (16, 1) 3 8 74 True 2 2 2 {2**64 - 1} 0.5 int"


def test_arguments_end_with_the_call(node: simpler.Worker) -> None:
    kept: list[MappedArgs] = []

    def look(args: MappedArgs) -> None:
        if kept:
            kept[0].tensor_count()
        kept.append(args)

    handle = node.register(look)
    node.init()

    def graph(orch: Orchestrator, args: TaskArgs | None, config: Config) -> None:
        shared = node.create_buffer(1)
        for _ in range(6):
            orch.submit_sub(handle, whole(shared))

    with pytest.raises(simpler.TaskFailed, match="valid only inside the call"):
        node.run(graph)


def test_memory_of_a_scope_is_reused_and_waited_for() -> None:
    def mark(args: MappedArgs) -> None:
        args[0].buffer[0] = 1

    def count(args: MappedArgs) -> None:
        args[1].buffer[0] += args[0].buffer[0]

    worker = simpler.Worker(level=3, num_sub_workers=2, heap_ring_size=1 << 16)
    first, second = worker.register(mark), worker.register(count)
    with worker:
        total = worker.create_buffer(1)

        def graph(orch: Orchestrator, args: TaskArgs | None, config: Config) -> None:
            for _ in range(50):
                with orch.scope():
                    scratch = orch.alloc((30000,), "UINT8")
                    orch.submit_sub(first, whole(scratch, "OUTPUT"))
                    both = TaskArgs()
                    both.add_tensor(scratch.tensor((30000,), "UINT8"))
                    both.add_tensor(total.tensor((1,), "UINT8"), "INOUT")
                    orch.submit_sub(second, both)

        worker.run(graph)
        assert bytes(total) == b"\x32"
        assert 0 < worker.peak_heap_bytes() <= 1 << 18


def test_an_allocation_that_can_never_fit_is_named_at_once() -> None:
    with simpler.Worker(level=3, num_sub_workers=1, heap_ring_size=1 << 16) as worker:
        with pytest.raises(simpler.CapacityError):
            worker.run(lambda orch, args, config: orch.alloc((1 << 20,), "UINT8"))
        worker.run(lambda orch, args, config: None)


def test_a_group_runs_its_members_on_the_python_workers(node: simpler.Worker) -> None:
    handle = node.register(append)
    node.init()
    buffers = [node.create_buffer(8) for _ in range(2)]
    node.run(lambda orch, args, config: orch.submit_sub_group(handle, [whole(b, "INOUT", 9) for b in buffers]))
    assert [bytes(b)[:2] for b in buffers] == [b"\x01\x09"] * 2


def test_an_unbalanced_scope_is_an_error(node: simpler.Worker) -> None:
    node.init()
    with pytest.raises(RuntimeError, match="scope"):
        node.run(lambda orch, args, config: orch.scope_begin())
    with pytest.raises(RuntimeError, match="scope"):
        node.run(lambda orch, args, config: orch.scope_end())
    node.run(lambda orch, args, config: None)


def test_wrong_arguments_of_a_submit_are_named(node: simpler.Worker) -> None:
    handle = node.register(append)
    node.init()

    def check(call: Callable[[Orchestrator], object], kind: type[Exception], text: str) -> None:
        def graph(orch: Orchestrator, args: TaskArgs | None, config: Config) -> None:
            with pytest.raises(kind, match=text):
                call(orch)

        node.run(graph)

    check(lambda orch: orch.submit_sub(append), TypeError, "CallableHandle returned by Worker.register")  # type: ignore[arg-type]
    check(lambda orch: orch.submit_sub(None), TypeError, "CallableHandle")  # type: ignore[arg-type]
    check(lambda orch: orch.submit_sub(handle, 3), TypeError, "TaskArgs, not int")  # type: ignore[arg-type]
    check(lambda orch: orch.submit_next_level(handle, TaskArgs(), worker=True), TypeError, "worker")
    check(lambda orch: orch.submit_next_level(handle, TaskArgs(), worker=-1), IndexError, "worker=-1")
    check(lambda orch: orch.submit_sub_group(handle, [TaskArgs(), 3]), TypeError, r"args_list\[1\]")  # type: ignore[list-item]
    check(lambda orch: orch.alloc((0.5,), "INT8"), TypeError, "whole numbers")  # type: ignore[arg-type]
    check(lambda orch: orch.alloc((-1,), "INT8"), ValueError, "-1")


def test_submit_refuses_what_its_level_does_not_take(node: simpler.Worker) -> None:
    handle = node.register(append)
    node.init()
    with pytest.raises(TypeError, match=r"CallableHandle returned by Worker\.register"):
        node.submit(handle)
    with pytest.raises(TypeError, match="TaskArgs"):
        node.submit(lambda orch, args, config: None, 3)  # type: ignore[arg-type]


def test_an_exception_of_the_graph_function_comes_back_and_cancels_the_rest(node: simpler.Worker) -> None:
    handle = node.register(append)
    node.init()
    buffer = node.create_buffer(8)

    class Mine(Exception):
        pass

    def graph(orch: Orchestrator, args: TaskArgs | None, config: Config) -> None:
        orch.submit_sub(handle, whole(buffer, "INOUT", 1))
        raise Mine("no more")

    with pytest.raises(Mine, match="no more"):
        node.submit(graph)
    node.run(lambda orch, args, config: orch.submit_sub(handle, whole(buffer, "INOUT", 2)))


def test_an_orchestrator_is_valid_inside_its_function_and_on_its_thread_only(node: simpler.Worker) -> None:
    handle = node.register(append)
    node.init()
    kept: list[Orchestrator] = []
    errors: list[BaseException] = []

    def graph(orch: Orchestrator, args: TaskArgs | None, config: Config) -> None:
        kept.append(orch)
        orch.note = 1  # type: ignore[attr-defined]

        def elsewhere() -> None:
            try:
                orch.submit_sub(handle)
            except simpler.Error as error:
                errors.append(error)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()

    node.run(graph)
    assert "thread" in str(errors[0])
    with pytest.raises(RuntimeError, match="has returned"):
        kept[0].submit_sub(handle)
    assert getattr(kept[0], "_worker") is None  # noqa: B009 - not in the stubs, for scripts that know it


# --- failures -----------------------------------------------------------------------------------------------------------


def raising(args: MappedArgs) -> None:
    raise ValueError("x" * 40 + "é" * 2500)


def test_b041_a_failure_arrives_with_type_text_place_and_traceback(node: simpler.Worker) -> None:
    handle = node.register(raising)
    node.init()
    with pytest.raises(RuntimeError) as caught:
        node.run(lambda orch, args, config: orch.submit_sub(handle))
    error = caught.value
    assert isinstance(error, simpler.TaskFailed)
    assert (error.type_name, error.callable) == ("ValueError", "raising")
    assert "sub_worker" in str(error)
    assert "ValueError: xxxx" in str(error)
    assert str(error).count("é") > 100
    assert 'raise ValueError("x" * 40' in str(error.__cause__)
    node.run(lambda orch, args, config: None)


class Awkward(Exception):
    """Pickles, but cannot be made again."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


class Silent(Exception):
    """Has no text that can be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_b042_exceptions_that_cannot_be_rebuilt_arrive_all_the_same(node: simpler.Worker) -> None:
    def two(args: MappedArgs) -> None:
        raise Awkward(1, 2)

    def local(args: MappedArgs) -> None:
        class Inside(Exception):
            def __init__(self, *, key: str) -> None:
                super().__init__(key)

        raise Inside(key="k")

    def silent(args: MappedArgs) -> None:
        raise Silent

    handles = [node.register(each) for each in (two, local, silent)]
    node.init()
    for handle, name, text in zip(handles, ("Awkward", "Inside", "Silent"), ("1 and 2", "k", "cannot be had"), strict=True):
        with pytest.raises(simpler.TaskFailed, match=text) as caught:
            node.run(lambda orch, args, config, handle=handle: orch.submit_sub(handle))
        assert name in caught.value.type_name


def leave(args: MappedArgs) -> None:
    kind = args.scalar(0)
    if kind == 0:
        sys.exit(0)
    if kind == 1:
        sys.exit("text")
    if kind == 2:
        raise BaseException("base")
    if kind == 3:
        raise KeyboardInterrupt
    os._exit(7)


def test_b044_exits_and_base_exceptions_fail_the_run(node: simpler.Worker) -> None:
    handle = node.register(leave)
    node.init()

    def one(kind: int) -> TaskArgs:
        args = TaskArgs()
        args.add_scalar(kind)
        return args

    for kind, name in enumerate(("SystemExit", "SystemExit", "BaseException", "KeyboardInterrupt")):
        with pytest.raises(simpler.TaskFailed) as caught:
            node.run(lambda orch, args, config, kind=kind: orch.submit_sub(handle, one(kind)))
        assert caught.value.type_name == name
    with pytest.raises(simpler.WorkerDied, match="7") as died:
        node.run(lambda orch, args, config: orch.submit_sub(handle, one(4)))
    assert died.value.exit_status == 7
    # The other child goes on.
    with pytest.raises(simpler.TaskFailed):
        node.run(lambda orch, args, config: orch.submit_sub(handle, one(0)))
    node.close()


def test_a_failed_task_stops_what_waits_for_it_and_every_error_is_kept(node: simpler.Worker) -> None:
    def fail(args: MappedArgs) -> None:
        raise ValueError("first")

    bad, good = node.register(fail), node.register(append)
    node.init()
    buffer = node.create_buffer(8)

    def graph(orch: Orchestrator, args: TaskArgs | None, config: Config) -> None:
        orch.submit_sub(bad, whole(buffer))
        orch.submit_sub(good, whole(buffer, "INOUT", 1))

    run = node.submit(graph)
    with pytest.raises(simpler.TaskFailed, match="first") as one:
        run.wait()
    with pytest.raises(simpler.TaskFailed) as two:
        run.result()
    assert one.value is two.value is run.exception()
    assert [type(error) for error in run.errors] == [simpler.TaskFailed]
    assert bytes(buffer) == bytes(8)
    assert run.done
