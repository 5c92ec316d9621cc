"""Buffers as memory: views, arrays, layouts, lifetimes."""

from __future__ import annotations

import gc
import subprocess
from collections.abc import Callable

import numpy as np
import pytest

import simpler
from simpler import DataType, TaskArgs
from simpler.interop import make_tensor_arg

Script = Callable[..., "subprocess.CompletedProcess[str]"]

NUMPY_TYPES = ["FLOAT32", "FLOAT16", "INT32", "INT16", "INT8", "UINT8", "INT64", "UINT64", "UINT16", "UINT32", "BOOL"]


@pytest.fixture
def ready(node: simpler.Worker) -> simpler.Worker:
    node.init()
    return node


def copy_bytes(args: simpler.MappedArgs) -> None:
    args[1].buffer[:] = args[0].buffer


def test_a_buffer_tells_what_it_is(ready: simpler.Worker) -> None:
    buffer = ready.create_buffer(100)
    assert (buffer.nbytes, buffer.address_space, buffer.access) == (
        100,
        simpler.AddressSpace.HOST,
        simpler.AccessMode.READWRITE,
    )
    assert buffer.backend_kind is simpler.BackendKind.POSIX_SHM
    assert buffer.owner_worker_id is None
    assert buffer.to_descriptor().identity == buffer.identity
    assert buffer.shm is not None
    assert (buffer.shm.size, buffer.shm.name.isprintable()) == (100, True)
    assert not buffer.closed


def test_the_bytes_are_one_memory_in_every_form(ready: simpler.Worker) -> None:
    buffer = ready.create_buffer(16)
    assert buffer.shm is not None
    view = buffer.shm.buf
    array = np.frombuffer(buffer.shm.buf, np.float32)
    array[:] = (1, 2, 3, 4)
    assert view.cast("f")[2] == 3
    np.frombuffer(buffer, np.float32)[0] = 9  # type: ignore[call-overload]
    assert array[0] == 9
    assert buffer.numpy((2, 2))[0, 0] == 9
    typed = np.asarray(buffer.view((2,), "INT32", byte_offset=8))
    typed[:] = 7
    assert list(buffer.numpy(None, DataType.INT32)[2:]) == [7, 7]


def test_strides_of_a_view_are_elements(ready: simpler.Worker) -> None:
    buffer = ready.create_buffer(24)
    buffer.numpy(None, "INT16")[:] = np.arange(12)
    columns = np.asarray(buffer.view((4, 3), "INT16", strides=(1, 4)))
    assert columns.tolist() == np.arange(12).reshape(3, 4).T.tolist()


def test_dlpack_shares_the_memory_both_ways(ready: simpler.Worker) -> None:
    buffer = ready.create_buffer(24)
    view = buffer.view((2, 3), "FLOAT32")
    assert view.__dlpack_device__() == (1, 0)
    array = np.from_dlpack(view)
    assert array.shape == (2, 3)
    buffer.numpy()[5] = 42
    assert array[1, 2] == 42


@pytest.mark.parametrize("dtype", NUMPY_TYPES)
def test_b055_every_type_that_numpy_knows_round_trips_bit_by_bit(ready: simpler.Worker, dtype: str) -> None:
    handle = ready.register(copy_bytes)
    source, target = ready.create_buffer(64), ready.create_buffer(64)
    pattern = np.frombuffer(bytes(range(64)), np.uint8)
    source.numpy(None, "UINT8")[:] = pattern % 2 if dtype == "BOOL" else pattern
    count = 64 // simpler.task_interface.get_element_size(dtype)
    args = TaskArgs()
    args.add_tensor(source.tensor((count,), dtype), "INPUT")
    args.add_tensor(target.tensor((count,), dtype), "OUTPUT")
    ready.run(lambda orch, _args, _config: orch.submit_sub(handle, args))
    assert bytes(target) == bytes(source)
    assert target.numpy((count,), dtype).dtype.itemsize * count == 64


def test_b055_a_type_that_numpy_does_not_know_says_what_to_do(ready: simpler.Worker) -> None:
    buffer = ready.create_buffer(8)
    view = buffer.view((4,), "BFLOAT16")
    with pytest.raises(BufferError, match="UINT16"):
        memoryview(view)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"extent|buffer|bytes"):
        buffer.view((5,), "BFLOAT16")


@pytest.mark.parametrize("shape", [(0,), (0, 100), (3, 0, 5)])
@pytest.mark.parametrize("tag", ["INPUT", "OUTPUT", "INOUT", "OUTPUT_EXISTING", "NO_DEP"])
def test_b053_empty_tensors_pass_as_any_tag(ready: simpler.Worker, shape: tuple[int, ...], tag: str) -> None:
    def look(args: simpler.MappedArgs) -> None:
        assert len(args[0].buffer) == 0
        assert args[0].numpy().shape == args[0].shapes

    handle = ready.register(look)
    buffer = ready.create_buffer(16)
    args = TaskArgs()
    args.add_tensor(buffer.tensor(shape, "FLOAT32", byte_offset=16), tag)
    ready.run(lambda orch, _args, _config: orch.submit_sub(handle, args))
    assert buffer.numpy(shape).size == 0


def test_b053_a_buffer_of_nothing_is_one_clear_error(ready: simpler.Worker) -> None:
    for wrong, kind in ((0, ValueError), (-5, ValueError), (True, TypeError), (1.5, TypeError)):
        with pytest.raises(kind, match="create_buffer: nbytes"):
            ready.create_buffer(wrong)  # type: ignore[arg-type]


def test_b057_b058_memory_that_children_do_not_share_is_refused_naming_create_buffer(ready: simpler.Worker) -> None:
    plain = np.zeros(4, np.float32)
    with pytest.raises(ValueError, match="create_buffer"):
        ready.make_tensor_arg(plain, (4,), DataType.FLOAT32)
    with pytest.raises(ValueError, match="create_buffer"):
        make_tensor_arg(ready, plain)
    with pytest.raises(TypeError, match="host memory"):
        ready.make_tensor_arg(object(), (4,), DataType.FLOAT32)


def test_an_array_over_a_buffer_becomes_a_view_of_it(ready: simpler.Worker) -> None:
    buffer = ready.create_buffer(64)
    array = buffer.numpy((4, 4))
    tensor = make_tensor_arg(ready, array[1:])
    assert (tensor.shapes, tensor.byte_offset, tensor.buffer.identity) == ((3, 4), 16, buffer.identity)
    assert ready.make_tensor_arg(array, (16,), 0).shapes == (16,)


def test_b103_arrays_outlive_release_and_close() -> None:
    with simpler.Worker(level=3, num_sub_workers=1) as worker:
        buffer = worker.create_buffer(1 << 16)
        assert buffer.shm is not None
        array, view, packed = buffer.numpy(), buffer.shm.buf, np.from_dlpack(buffer.view((16,), "INT32"))
        worker.release_buffer(buffer)
        worker.release_buffer(buffer)
        array[:] = 3
        other = worker.create_buffer(1 << 16)
        late = other.numpy()
        assert buffer.closed
        for use in (
            lambda b=buffer: b.tensor((1,), "INT8"),
            lambda b=buffer: b.view((1,), "INT8"),
            lambda b=buffer: memoryview(b),
        ):  # type: ignore[arg-type]
            with pytest.raises(ValueError, match="was released"):
                use()
        del use
    late[:] = 5
    del buffer, other, worker
    gc.collect()
    assert array.sum() == 3 * array.size
    assert late.sum() == 5 * late.size
    assert packed[0] == int(np.frombuffer(np.float32(3).tobytes(), np.int32)[0])
    assert len(view) == 1 << 16


def test_a_buffer_that_a_run_still_names_is_not_released(ready: simpler.Worker) -> None:
    buffer = ready.create_buffer(8)
    gate = ready.register(lambda args: __import__("time").sleep(0.2))

    def graph(orch: simpler.Orchestrator, _args: object, _config: object) -> None:
        args = TaskArgs()
        args.add_tensor(buffer.tensor((8,), "UINT8"), "INOUT")
        orch.submit_sub(gate, args)

    run = ready.submit(graph)
    with pytest.raises(RuntimeError):
        ready.release_buffer(buffer)
    run.wait()
    ready.release_buffer(buffer)


def test_a_buffer_of_another_worker_is_refused(ready: simpler.Worker) -> None:
    with simpler.Worker(level=3, num_sub_workers=1) as other:
        foreign = other.create_buffer(8)
        handle = ready.register(copy_bytes)
        args = TaskArgs()
        args.add_tensor(foreign.tensor((8,), "UINT8"))
        with pytest.raises(simpler.Error):
            ready.run(lambda orch, _args, _config: orch.submit_sub(handle, args))
        with pytest.raises(ValueError, match="another worker"):
            ready.release_buffer(foreign)


def test_buffers_made_after_the_start_reach_children_that_run_already(ready: simpler.Worker) -> None:
    handle = ready.register(copy_bytes)
    for size in (1, 4096, 1 << 20):
        source, target = ready.create_buffer(size), ready.create_buffer(size)
        source.numpy(None, "UINT8")[:] = 7
        args = TaskArgs()
        args.add_tensor(source.tensor((size,), "UINT8"))
        args.add_tensor(target.tensor((size,), "UINT8"), "OUTPUT")
        ready.run(lambda orch, _args, _config, args=args: orch.submit_sub(handle, args))
        assert bytes(target) == b"\x07" * size
        ready.release_buffer(source)
        ready.release_buffer(target)


def test_b049_places_beyond_two_and_four_gibibytes_are_the_same_for_parent_and_child(node: simpler.Worker) -> None:
    def put(args: simpler.MappedArgs) -> None:
        args[0].buffer[args.scalar(0)] = args[1].buffer[0]  # by the whole view, and a 64-bit place in it

    handle = node.register(put)
    node.init()
    value = node.create_buffer(1)
    for size in ((2 << 30) - 1, 2 << 30, 4 << 30, 5 << 30):
        large = node.create_buffer(size)
        shape = (size,) if size < 4 << 30 else (size >> 30, 1 << 30)
        value.numpy(None, "UINT8")[0] = size >> 30 | 0x40
        args = simpler.TaskArgs()
        args.add_tensor(large.tensor(shape, "UINT8"), "INOUT")
        args.add_tensor(value.tensor((1,), "UINT8"), "INPUT")
        args.add_scalar(size - 1)
        node.run(lambda orch, _args, _config, args=args: orch.submit_sub(handle, args))
        seen = large.numpy(None, "UINT8")
        assert len(seen) == size
        assert seen[-1] == size >> 30 | 0x40
        assert large.shm is not None
        assert large.shm.buf[size - 1] == seen[-1]
        assert seen[(size - 1) & 0x7FFFFFFF] == (seen[-1] if size <= 2 << 30 else 0)
        assert seen[(size - 1) & 0xFFFFFFFF] == (seen[-1] if size <= 4 << 30 else 0)
        if size >= 4 << 30:  # longer than an extent of a tensor, which an array may be
            assert large.numpy((size - 8,), "INT8", byte_offset=8)[-1] == seen[-1]
            with pytest.raises(ValueError, match="buffer"):
                large.numpy((size - 7,), "INT8", byte_offset=8)
        del seen
        node.release_buffer(large)
