"""Faults that were seen elsewhere: which task waits for which, full memory, layouts, calls from inside."""

from __future__ import annotations

import os
import random
import subprocess
import threading
from collections.abc import Callable

import numpy as np
import pytest

import simpler
from simpler import MappedArgs, Orchestrator, TaskArgs
from simpler.interop import make_tensor_arg

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


# --- which task waits for which -----------------------------------------------------------------------------------------


def mark_row(args: MappedArgs) -> None:
    for _ in range(args.scalar(1)):
        os.sched_yield()
    args[0].numpy()[:] = args.scalar(0)


def count_rows(args: MappedArgs) -> None:
    rows = args[0].numpy()
    args[1].numpy()[0] = int((rows == np.arange(1, len(rows) + 1)[:, None]).all(axis=1).sum())


@pytest.mark.parametrize(("rows", "repeats"), [(100, 200), (1000, 3)])
def test_b036_a_reader_waits_for_every_one_of_many_producers(node: simpler.Worker, rows: int, repeats: int) -> None:
    mark, count = node.register(mark_row), node.register(count_rows)
    node.init()
    matrix, result = node.create_buffer(rows * 16), node.create_buffer(8)
    chance = random.Random(36)
    for _ in range(repeats):
        matrix.numpy(None, "INT32")[:] = 0

        def graph(orch: Orchestrator, args: object, config: object) -> None:
            for row in range(rows):
                orch.submit_sub(
                    mark, one(matrix.tensor((4,), "INT32", byte_offset=16 * row), "OUTPUT", row + 1, chance.randrange(4))
                )
            both = one(matrix.tensor((rows, 4), "INT32"), "INPUT")
            both.add_tensor(result.tensor((1,), "INT64"), "OUTPUT")
            orch.submit_sub(count, both)

        node.run(graph)
        assert result.numpy(None, "INT64")[0] == rows


@pytest.mark.parametrize("blocks", [((1, 16), (16, 1), 0, 16), ((4, 4), (16, 1), 0, 8)], ids=["rows", "columns"])
def test_b033_tasks_on_disjoint_slices_of_one_buffer_meet(
    node: simpler.Worker, blocks: tuple[tuple[int, int], tuple[int, int], int, int]
) -> None:
    handle = node.register(meet)
    node.init()
    shape, strides, *starts = blocks
    matrix, flags = node.create_buffer(64), node.create_buffer(2)

    def graph(orch: Orchestrator, args: object, config: object) -> None:
        for i, start in enumerate(starts):
            mine = TaskArgs()
            mine.add_tensor(flag(flags, i), "INOUT")
            mine.add_tensor(flag(flags, 1 - i), "NO_DEP")
            mine.add_tensor(matrix.tensor(shape, "UINT8", strides=strides, byte_offset=start), "INOUT")
            orch.submit_sub(handle, mine)

    node.run(graph)
    assert bytes(flags) == b"\x01\x01"


def add_to_all(args: MappedArgs) -> None:
    args[0].numpy()[...] += args.scalar(0)


def test_b034_stepped_and_transposed_views_leave_the_right_bytes(node: simpler.Worker) -> None:
    handle = node.register(add_to_all)
    node.init()
    buffer = node.create_buffer(4 * 6 * 4)
    expected = np.zeros((4, 6), np.int32)
    views = [
        (((4, 3), (6, 2), 0), lambda x: x[:, ::2]),
        (((4, 3), (6, 2), 4), lambda x: x[:, 1::2]),
        (((4,), (6,), 0), lambda x: x.T[0]),
        (((4,), (6,), 4), lambda x: x.T[1]),
        (((24,), (1,), 0), lambda x: x.reshape(24)),
        (((6, 4), (1, 6), 0), lambda x: x.T),
    ]

    def graph(orch: Orchestrator, args: object, config: object) -> None:
        for turn in range(30):
            (shape, strides, offset), same = views[turn % len(views)]
            orch.submit_sub(handle, one(buffer.tensor(shape, "INT32", strides=strides, byte_offset=offset), "INOUT", turn))
            same(expected)[...] += turn

    node.run(graph)
    assert buffer.numpy((4, 6), "INT32").tolist() == expected.tolist()


def read_slowly(args: MappedArgs) -> None:
    """Read only after the flag is up; a writer that overtook would be seen."""
    while args[2].buffer[0] == 0:
        os.sched_yield()
    args[1].buffer[0] = args[0].buffer[0]


def put(args: MappedArgs) -> None:
    args[0].buffer[0] = args.scalar(0)


def test_b035_a_writer_waits_for_the_readers_before_it(node: simpler.Worker) -> None:
    reader, writer = node.register(read_slowly), node.register(put)
    node.init()
    data, seen, gate = node.create_buffer(1), node.create_buffer(2), node.create_buffer(1)

    def graph(orch: Orchestrator, args: object, config: object) -> None:
        orch.submit_sub(writer, one(flag(data, 0), "OUTPUT", 5))
        for i in range(2):  # pure readers: both stand at the gate at once
            both = one(flag(data, 0), "INPUT")
            both.add_tensor(flag(seen, i), "OUTPUT")
            both.add_tensor(flag(gate, 0), "NO_DEP")
            orch.submit_sub(reader, both)
        orch.submit_sub(writer, one(flag(data, 0), "OUTPUT", 9))

    run = node.submit(graph)
    gate.numpy(None, "UINT8")[0] = 1
    run.wait()
    assert (bytes(seen), bytes(data)) == (b"\x05\x05", b"\x09")


def append(args: MappedArgs) -> None:
    memory = args[0].buffer
    memory[0] += 1
    memory[memory[0]] = args.scalar(0)


def copy_out(args: MappedArgs) -> None:
    args[1].buffer[:] = args[0].buffer


def test_b039_a_reader_of_allocated_memory_follows_its_last_writer(node: simpler.Worker) -> None:
    writer, reader = node.register(append), node.register(copy_out)
    node.init()
    result = node.create_buffer(4)

    def graph(orch: Orchestrator, args: object, config: object) -> None:
        scratch = orch.alloc((4,), "UINT8")
        np.asarray(scratch.view((4,), "UINT8"))[:] = 0
        orch.submit_sub(writer, one(scratch.tensor((4,), "UINT8"), "INOUT", 7))
        orch.submit_sub(writer, one(scratch.tensor((4,), "UINT8"), "INOUT", 8))
        both = one(scratch.tensor((4,), "UINT8"), "INPUT")
        both.add_tensor(result.tensor((4,), "UINT8"), "OUTPUT")
        orch.submit_sub(reader, both)

    for _ in range(50):
        node.run(graph)
        assert bytes(result) == b"\x02\x07\x08\x00"


# --- memory that is full --------------------------------------------------------------------------------------------------


def test_b026_b032_what_one_open_scope_cannot_hold_is_named_at_once_and_scopes_in_turn_fit() -> None:
    with simpler.Worker(level=3, num_sub_workers=1, heap_ring_size=1 << 16, task_window=64) as worker:
        handle = worker.register(touch)

        def hoards(orch: Orchestrator, args: object, config: object) -> None:
            with orch.scope():
                for _ in range(2):
                    orch.submit_sub(handle, one(orch.alloc((40000,), "UINT8").tensor((40000,), "UINT8")))

        def takes_turns(orch: Orchestrator, args: object, config: object) -> None:
            for _ in range(20):
                with orch.scope():
                    orch.submit_sub(handle, one(orch.alloc((40000,), "UINT8").tensor((40000,), "UINT8")))

        with pytest.raises(simpler.CapacityError, match="scope") as caught:
            worker.run(hoards)
        assert "65536" in str(caught.value)
        worker.run(takes_turns)
        # More tasks than the window has slots: a scope holds allocations, not tasks.
        shared = worker.create_buffer(1)

        def many(orch: Orchestrator, args: object, config: object) -> None:
            with orch.scope():
                for _ in range(200):
                    orch.submit_sub(handle, one(flag(shared, 0)))

        worker.run(many)
        assert bytes(shared) == b"\xc8"


def test_b027_b028_a_full_heap_waits_for_a_running_task_and_only_the_impossible_is_refused() -> None:
    with simpler.Worker(level=3, num_sub_workers=1, heap_ring_size=4096) as worker:
        handle = worker.register(meet)
        flags = worker.create_buffer(2)

        def graph(orch: Orchestrator, args: object, config: object) -> None:
            with orch.scope():
                both = one(flag(flags, 0))
                both.add_tensor(flag(flags, 1), "NO_DEP")
                both.add_tensor(orch.alloc((4000,), "UINT8").tensor((4000,), "UINT8"), "INOUT")
                orch.submit_sub(handle, both)
            opener = threading.Thread(target=open_gate)
            opener.start()
            with orch.scope():
                orch.alloc((4000,), "UINT8")  # fits when the task above has ended
            opener.join()

        def open_gate() -> None:
            while bytes(flags)[0] == 0:
                os.sched_yield()
            flags.numpy(None, "UINT8")[1] = 1

        worker.run(graph)
        with pytest.raises(simpler.Error, match="5000") as caught:
            worker.run(lambda orch, args, config: orch.alloc((5000,), "UINT8"))
        assert "4096" in str(caught.value)


def test_b047_two_hundred_and_fifty_six_tensors_arrive_and_too_many_are_refused_with_numbers(node: simpler.Worker) -> None:
    def check(args: MappedArgs) -> None:
        assert (args.tensor_count(), args.scalar_count()) == (256, 128)
        args[255].buffer[0] = args.scalar(127)

    handle = node.register(check)
    node.init()
    buffer = node.create_buffer(20000)
    args = TaskArgs()
    for i in range(256):
        args.add_tensor(flag(buffer, i), "INOUT")
    for i in range(128):
        args.add_scalar(i)
    node.run(lambda orch, _args, _config: orch.submit_sub(handle, args))
    assert bytes(buffer)[255] == 127
    many = TaskArgs()
    for i in range(20000):
        many.add_tensor(flag(buffer, i))
    with pytest.raises(ValueError, match="20000"):
        node.run(lambda orch, _args, _config: orch.submit_sub(handle, many))


def sum_up(args: MappedArgs) -> None:
    args[1].numpy()[...] = args[0].numpy()


def test_b051_strided_arrays_are_seen_as_numpy_sees_them_or_refused(node: simpler.Worker) -> None:
    handle = node.register(sum_up)
    node.init()
    source, target = node.create_buffer(96), node.create_buffer(96)
    array = source.numpy((4, 6), "INT32")
    array[...] = np.arange(24).reshape(4, 6)
    for view in (array.T, array[:, 1:4], array[1:, ::2], array[2]):
        out = target.numpy(view.shape, "INT32")
        out[...] = -1
        offset = view.ctypes.data - array.ctypes.data
        strides = tuple(step // array.itemsize for step in view.strides)
        both = one(source.tensor(view.shape, "INT32", strides=strides, byte_offset=offset), "INPUT")
        both.add_tensor(make_tensor_arg(node, out), "OUTPUT")
        node.run(lambda orch, _args, _config, both=both: orch.submit_sub(handle, both))
        assert out.tolist() == view.tolist()
    assert make_tensor_arg(node, array[2]).byte_offset == 48
    for strided in (array.T, array[:, 1:4], array[::-1]):
        with pytest.raises(ValueError, match="no contiguous memory"):
            make_tensor_arg(node, strided)


# --- calls from places where they would wait for themselves ---------------------------------------------------------------


def test_b030_a_worker_used_from_inside_its_own_work_answers_at_once(node: simpler.Worker) -> None:
    def from_a_task(args: MappedArgs) -> None:
        refused = 0
        for call in (
            lambda: node.run(lambda orch, a, c: None),
            lambda: node.submit(lambda orch, a, c: None),
            lambda: node.create_buffer(8),
        ):
            try:
                call()
            except simpler.WrongProcess:
                refused += 1
        args[0].buffer[0] = refused

    handle = node.register(from_a_task)
    node.init()
    counted = node.create_buffer(1)

    def graph(orch: Orchestrator, args: object, config: object) -> None:
        for call in (lambda: node.run(lambda o, a, c: None), lambda: node.submit(lambda o, a, c: None).wait(), node.close):
            with pytest.raises(simpler.Reentrant):
                call()
        orch.submit_sub(handle, one(flag(counted, 0)))

    node.run(graph)
    assert bytes(counted) == b"\x03"
