"""Chips: compiled and ready-made kernels, at level 2 and from a node."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest

import simpler
from simpler import ChipCallable, TaskArgs, TensorArgType

ORCHESTRATION = """
#include "simpler/orchestration.h"
using namespace simpler::orchestration;

SIMPLER_ORCHESTRATION void combine(const ChipTaskArgs& args) {
  CoreTaskArgs task;
  task.add_input(args.tensor(0));
  task.add_input(args.tensor(1));
  task.add_output(args.tensor(2));
  rt_submit_aiv_task(0, task);
}
"""

KERNEL = """
#include "simpler/kernel.h"

SIMPLER_KERNEL void kernel_entry(int64_t* args) {
  using namespace simpler::kernel;
  const auto* a = data<const float>(tensor(args, 0));
  const auto* b = data<const float>(tensor(args, 1));
  auto* out = data<float>(tensor(args, 2));
  for (uint32_t i = 0; i < tensor(args, 2).shapes[0]; ++i) {
    out[i] = a[i] * 10 + b[i];
  }
}
"""

SIGNATURE = ["IN", "IN", "OUT"]
PLATFORMS = ["a2a3sim", "a5sim", "tiny"]


@pytest.fixture(scope="module")
def adding() -> ChipCallable:
    return simpler.compile(ORCHESTRATION, signature=SIGNATURE, func_name="combine", children=[(0, simpler.kernels.add)])


@pytest.fixture(params=PLATFORMS)
def chip(request: pytest.FixtureRequest) -> Iterator[simpler.Worker]:
    worker = simpler.Worker(level=2, platform=request.param, runtime="host_build_graph")
    yield worker
    worker.terminate()


def three(*buffers: simpler.Buffer, count: int = 256, last: str = "OUTPUT") -> TaskArgs:
    args = TaskArgs()
    for buffer in buffers[:-1]:
        args.add_tensor(buffer.tensor((count,), "FLOAT32"))
    args.add_tensor(buffers[-1].tensor((count,), "FLOAT32"), last)
    return args


def test_a_chip_in_this_process_runs_a_ready_made_kernel(chip: simpler.Worker, adding: ChipCallable) -> None:
    handle = chip.register(adding)
    chip.init()
    a, b, out = (chip.create_buffer(1024) for _ in range(3))
    a.numpy()[:], b.numpy()[:] = np.arange(256), 2
    chip.run(handle, three(a, b, out))
    assert (out.numpy() == np.arange(256) + 2).all()
    assert chip.statistics()[0].tasks == 1


def test_a_kernel_that_throws_is_named_as_its_author_called_it(chip: simpler.Worker) -> None:
    source = (
        "#include <stdexcept>\n"
        '#include "simpler/kernel.h"\n'
        'SIMPLER_KERNEL void kernel_entry(int64_t*) { throw std::runtime_error("a wall"); }\n'
    )
    kernel = simpler.compile_kernel(source, signature=SIGNATURE, name="ramming")
    handle = chip.register(simpler.compile(ORCHESTRATION, signature=SIGNATURE, func_name="combine", children=[(0, kernel)]))
    chip.init()
    with pytest.raises(simpler.TaskFailed, match=r"kernel 'ramming' \(func_id 0\).*a wall"):
        chip.run(handle, three(*(chip.create_buffer(1024) for _ in range(3))))


def test_a_kernel_of_the_users_own_runs_on_two_chips() -> None:
    kernel = simpler.compile_kernel(KERNEL, signature=SIGNATURE, name="times_ten")
    combine = simpler.compile(ORCHESTRATION, signature=SIGNATURE, func_name="combine", children=[(0, kernel)])
    with simpler.Worker(level=3, platform="a2a3sim", device_ids=[0, 1]) as worker:
        handle = worker.register(combine)
        a, b, c, d = (worker.create_buffer(1024) for _ in range(4))
        a.numpy()[:], b.numpy()[:] = 1, np.arange(256)

        def graph(orch: simpler.Orchestrator, args: TaskArgs | None, config: object) -> None:
            first = orch.submit_next_level(handle, three(a, b, c), worker=0)
            args = three(c, b, d)
            args.add_dep(first)
            orch.submit_next_level(handle, args, simpler.CallConfig(), worker=1)

        worker.run(graph)
        assert (d.numpy() == (10 + np.arange(256)) * 10 + np.arange(256)).all()
        assert [child.name for child in worker.statistics()] == ["chip 0", "chip 1"]


def test_copy_back_follows_the_signature_not_the_tags(chip: simpler.Worker, adding: ChipCallable) -> None:
    handle = chip.register(adding)
    chip.init()
    a, b, out = (chip.create_buffer(1024) for _ in range(3))
    a.numpy()[:], b.numpy()[:] = 3, 4
    chip.run(handle, three(a, b, out, last="INPUT"))
    assert (out.numpy() == 7).all()


def test_a_node_tells_once_that_a_tag_hides_what_the_chip_writes(
    adding: ChipCallable, capfd: pytest.CaptureFixture[str]
) -> None:
    with simpler.Worker(level=3, platform="tiny", device_ids=[0]) as worker:
        handle = worker.register(adding)
        buffers = [worker.create_buffer(1024) for _ in range(3)]
        wrong, right = three(*buffers, last="INPUT"), three(*buffers, last="OUTPUT")
        for args in (right, wrong, wrong):
            worker.run(lambda orch, _args, _config, args=args: orch.submit_next_level(handle, args, worker=0))
    told = [line for line in capfd.readouterr().err.splitlines() if "tagged INPUT" in line]
    assert len(told) == 1
    assert "tensor 2 of 'combine' is OUT in its signature" in told[0]


def test_a_node_counts_the_tensors_before_anything_runs(adding: ChipCallable) -> None:
    with simpler.Worker(level=3, platform="tiny", device_ids=[0]) as worker:
        handle = worker.register(adding)
        args = TaskArgs().input(worker.create_buffer(1024).tensor((256,), "FLOAT32"))
        with pytest.raises(simpler.InvalidArgument, match="'combine' has 3 tensors in its signature, the task has 1"):
            worker.run(lambda orch, _args, _config: orch.submit_next_level(handle, args, worker=0))
        full = three(*(worker.create_buffer(1024) for _ in range(3)))
        with pytest.raises(simpler.InvalidArgument, match="worker=5: this node has 1 chip, numbered from 0"):
            worker.run(lambda orch, _args, _config: orch.submit_next_level(handle, full, worker=5))


def test_at_level_2_any_array_is_an_argument(adding: ChipCallable) -> None:
    with simpler.Worker(level=2, platform="tiny") as chip:
        handle = chip.register(adding)
        a, b, out = (np.full(256, value, np.float32) for value in (1, 2, 0))
        args = TaskArgs()
        for array, tag in ((a, "INPUT"), (b, "INPUT"), (out, "OUTPUT")):
            args.add_tensor(chip.make_tensor_arg(array, (256,), "FLOAT32"), tag)
        chip.run(handle, args)
        assert (out == 3).all()
        # Parts of one array are views of one memory.
        halves = [chip.make_tensor_arg(a[i : i + 128], (128,), "FLOAT32") for i in (0, 128)]
        assert halves[0].buffer.identity == halves[1].buffer.identity
        assert halves[1].byte_offset - halves[0].byte_offset == 512


def test_memory_of_the_chip_at_level_2_copies_with_everything_contiguous() -> None:
    with simpler.Worker(level=2, platform="tiny") as chip:
        device = chip.malloc(64)
        assert device.address_space is simpler.AddressSpace.DEVICE
        assert device.owner_worker_id == 0
        assert device.shm is None
        chip.copy_to(device, np.arange(16, dtype=np.int32))
        back = bytearray(64)
        chip.copy_from(back, device)
        assert list(memoryview(back).cast("i")) == list(range(16))
        numbers = (ctypes.c_int * 4)()
        chip.copy_from(numbers, device, src_offset=16)
        assert list(numbers) == [4, 5, 6, 7]
        chip.copy_to(device, b"\xff\xff\xff\xff", dst_offset=4)
        chip.copy_from(back, device, nbytes=8, dst_offset=8)
        assert list(memoryview(back).cast("i"))[:4] == [0, 1, 0, -1]
        with pytest.raises(ValueError, match="64"):
            chip.copy_to(device, bytes(65))
        with pytest.raises(ValueError, match="writable"):
            chip.copy_from(bytes(64), device)
        with pytest.raises(TypeError, match="chip"):
            memoryview(device)  # type: ignore[arg-type]
        assert chip.committed_device_memory() > 0
        chip.free(device)
        with pytest.raises(simpler.Error):
            chip.free(device)


def test_weights_are_staged_once_in_the_memory_of_a_chip(adding: ChipCallable) -> None:
    with simpler.Worker(level=3, platform="a2a3sim", device_ids=[0], num_sub_workers=1) as worker:
        handle = worker.register(adding)
        weights = worker.alloc_child_tensor(0, (256,), "FLOAT32")
        a, out = worker.create_buffer(1024), worker.create_buffer(1024)
        a.numpy()[:] = np.arange(256)
        worker.copy_to(weights, a)
        a.numpy()[:] = 1
        worker.run(lambda orch, args, config: orch.submit_next_level(handle, three(a, weights, out), worker=0))
        assert (out.numpy() == np.arange(256) + 1).all()
        worker.copy_from(out, weights)
        assert (out.numpy() == np.arange(256)).all()
        with pytest.raises(TypeError, match="create_buffer"):
            worker.copy_to(weights, np.zeros(256, np.float32))
        with pytest.raises(IndexError):
            worker.alloc_child_tensor(1, (1,), "FLOAT32")
        with pytest.raises(TypeError, match="alloc_child_tensor"):
            worker.malloc(8)
        look = worker.register(lambda args: None)
        args = TaskArgs()
        args.add_tensor(weights.tensor((256,), "FLOAT32"))
        with pytest.raises(ValueError, match="lies on a chip"):
            worker.run(lambda orch, _args, config: orch.submit_sub(look, args))
        worker.free(weights)


def test_a_group_runs_on_both_chips_at_once(adding: ChipCallable) -> None:
    with simpler.Worker(level=3, platform="tiny", device_ids=[0, 1]) as worker:
        handle = worker.register(adding)
        a, b = worker.create_buffer(1024), worker.create_buffer(1024)
        a.numpy()[:], b.numpy()[:] = 1, 2
        outs = [worker.create_buffer(1024) for _ in range(2)]
        worker.run(
            lambda orch, args, config: orch.submit_next_level_group(handle, [three(a, b, out) for out in outs], workers=[0, 1])
        )
        assert all((out.numpy() == 3).all() for out in outs)


def test_a_source_that_does_not_compile_is_shown_with_its_line() -> None:
    with pytest.raises(simpler.CompileError, match="nonsense") as caught:
        simpler.compile_kernel(
            '#include "simpler/kernel.h"\nSIMPLER_KERNEL void kernel_entry(int64_t*) { nonsense; }\n', signature=[]
        )
    assert ":2:" in str(caught.value)
    with pytest.raises(FileNotFoundError, match=r"nowhere\.cpp"):
        simpler.compile_kernel("nowhere.cpp", signature=[])


def test_a_wrong_number_of_arguments_fails_the_run_and_leaves_the_chip_usable(adding: ChipCallable) -> None:
    with simpler.Worker(level=2, platform="tiny") as chip:
        handle = chip.register(adding)
        a, b, out = (chip.create_buffer(1024) for _ in range(3))
        with pytest.raises(RuntimeError):
            chip.run(handle, three(a, out))
        a.numpy()[:], b.numpy()[:] = 1, 1
        chip.run(handle, three(a, b, out))
        assert (out.numpy() == 2).all()
        with pytest.raises(TypeError, match=r"CallableHandle returned by Worker\.register"):
            chip.submit(lambda orch, args, config: None)


def test_a_chip_callable_is_made_read_and_checked(adding: ChipCallable) -> None:
    import pickle

    again = ChipCallable.from_bytes(adding.to_bytes())
    assert again.to_bytes() == pickle.loads(pickle.dumps(adding)).to_bytes() == adding.to_bytes()
    assert (again.func_name, again.sig_count, again.child_count, again.child_func_id(0)) == ("combine", 3, 1, 0)
    assert again.sig(2) is simpler.ArgDirection.OUT
    assert again.child(0).builtin == "add"
    assert again.child_offset(0) % 64 == 0
    assert again.buffer_size() == len(adding.to_bytes())
    with pytest.raises(IndexError):
        again.sig(3)
    with pytest.raises(ValueError, match=r"."):
        ChipCallable.from_bytes(adding.to_bytes()[:-1])
    with pytest.raises(TypeError, match=r"children\[0\]"):
        simpler.compile(ORCHESTRATION, signature=SIGNATURE, func_name="combine", children=[simpler.kernels.add])  # type: ignore[list-item]


def test_a_chip_callable_may_be_registered_on_a_running_worker(adding: ChipCallable) -> None:
    with simpler.Worker(level=3, platform="tiny", device_ids=[0]) as worker:
        handle = worker.register(adding)
        a, out = worker.create_buffer(1024), worker.create_buffer(1024)
        a.numpy()[:] = 4
        worker.run(lambda orch, args, config: orch.submit_next_level(handle, three(a, a, out), worker=0))
        assert (out.numpy() == 8).all()
        with pytest.raises(NotImplementedError):
            simpler.Worker(level=3, num_sub_workers=1).committed_device_memory()


def test_tags_may_be_given_as_members(adding: ChipCallable) -> None:
    assert TensorArgType.of("output") is TensorArgType.OUTPUT
