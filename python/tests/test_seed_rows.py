"""Rows of docs/seeds.md that a program in Python can see and that no other test checks."""

from __future__ import annotations

import gc
import itertools
import os
import weakref
from collections.abc import Callable

import numpy as np
import pytest

import simpler
from simpler import CallConfig, ChipCallable, DataType, MappedArgs, Orchestrator, TaskArgs, TaskHandle, TensorArgType
from simpler.worker_level import WorkerLevel

SOURCE = """
#include "simpler/orchestration.h"
using namespace simpler::orchestration;
SIMPLER_ORCHESTRATION void add_to(const ChipTaskArgs& args) {
  CoreTaskArgs task;
  task.add_input(args.tensor(0), args.tensor(0));
  task.add_output(args.tensor(1));
  rt_submit_aiv_task(0, task);
}
"""


@pytest.fixture(scope="module")
def doubling() -> ChipCallable:
    return simpler.compile(SOURCE, signature=["IN", "OUT"], func_name="add_to", children=[(0, simpler.kernels.add)])


def two(source: simpler.Buffer, target: simpler.Buffer) -> TaskArgs:
    args = TaskArgs()
    args.add_tensor(source.tensor((4,), "FLOAT32"), "INPUT")
    args.add_tensor(target.tensor((4,), "FLOAT32"), "OUTPUT")
    return args


def wait_for(args: MappedArgs) -> None:
    while args[0].buffer[0] == 0:
        os.sched_yield()


def mark(args: MappedArgs) -> None:
    args[0].buffer[0] += 1


def byte(buffer: simpler.Buffer, tag: str = "INOUT") -> TaskArgs:
    args = TaskArgs()
    args.add_tensor(buffer.tensor((1,), "UINT8"), tag)
    return args


def test_s0_198_s0_199_a_next_level_submit_returns_a_handle_and_a_sub_submit_nothing(doubling: ChipCallable) -> None:
    worker = simpler.Worker(level=3, platform="tiny", device_ids=[0, 1], num_sub_workers=1)
    chip, host = worker.register(doubling), worker.register(mark)
    returned: list[object] = []
    with worker:
        a, b, c = worker.create_buffer(16), worker.create_buffer(16), worker.create_buffer(16)
        a.numpy()[:] = 3

        def graph(orch: Orchestrator, args: object, config: object) -> None:
            first = orch.submit_next_level(chip, two(a, b), worker=0)
            after = two(a, c)
            after.add_dep_wait(first)
            returned.extend((first, orch.submit_next_level(chip, after, worker=1), orch.submit_sub(host, byte(c))))
            assert not hasattr(first, "wait")

        worker.run(graph)
    assert [type(each) for each in returned] == [TaskHandle, TaskHandle, type(None)]


def test_s0_046_s0_204_a_configuration_is_copied_at_submit(doubling: ChipCallable) -> None:
    with simpler.Worker(level=3, platform="tiny", device_ids=[0]) as worker:
        handle = worker.register(doubling)
        a, b = worker.create_buffer(16), worker.create_buffer(16)
        config = CallConfig()

        def graph(orch: Orchestrator, args: object, settings: object) -> None:
            orch.submit_next_level(handle, two(a, b), config, worker=0)
            config.output_prefix = "/nowhere"
            config.enable_scope_stats = True  # which a simulated chip refuses

        worker.run(graph)
        with pytest.raises(simpler.Unsupported, match="diagnostics"):
            worker.run(lambda orch, args, settings: orch.submit_next_level(handle, two(a, b), config, worker=0))


def test_s0_204_what_is_submitted_runs_although_its_callable_is_unregistered(node: simpler.Worker) -> None:
    gate, late = node.register(wait_for), node.register(mark)
    node.init()
    flag, count = node.create_buffer(1), node.create_buffer(1)
    held = node.submit(lambda orch, args, config: orch.submit_sub(gate, byte(flag, "INPUT")))
    run = node.submit(lambda orch, args, config: orch.submit_sub(late, byte(count)))
    node.unregister(late)
    flag.numpy(None, "UINT8")[0] = 1
    held.wait()
    run.wait()
    assert bytes(count) == b"\x01"


def test_s0_048_s4_084_one_configuration_and_one_kind_of_handle_at_both_levels(doubling: ChipCallable) -> None:
    def at_two(worker: simpler.Worker) -> Callable[[TaskArgs, CallConfig], simpler.RunHandle]:
        handle = worker.register(doubling)
        return lambda args, config: worker.submit(handle, args, config)

    def at_three(worker: simpler.Worker) -> Callable[[TaskArgs, CallConfig], simpler.RunHandle]:
        handle = worker.register(doubling)
        return lambda args, config: worker.submit(
            lambda orch, _args, _config: orch.submit_next_level(handle, args, config, worker=0)
        )

    config = CallConfig()
    config.runtime_env.ring_task_window = 8
    for worker, prepare in (
        (simpler.Worker(level=2, platform="tiny"), at_two),
        (simpler.Worker(level=3, platform="tiny", device_ids=[0]), at_three),
    ):
        with worker:
            submit = prepare(worker)
            a, b = worker.create_buffer(16), worker.create_buffer(16)
            a.numpy()[:] = 4
            run = submit(two(a, b), config)
            assert type(run) is simpler.RunHandle
            run.wait()
            assert b.numpy().tolist() == [8, 8, 8, 8]


def test_s4_085_arguments_and_configuration_may_be_left_out(node: simpler.Worker) -> None:
    node.init()
    seen: list[object] = []
    node.run(lambda orch, args, config: seen.extend((args, config)))
    assert seen == [None, CallConfig()]


def test_s1_003_s1_004_levels_have_words_and_level_1_has_none() -> None:
    words = {level.name: level.value for level in WorkerLevel}
    assert words == {"core": 0, "chip": 2, "node": 3, "network1": 4, "network2": 5, "network3": 6}


def test_s0_234_a_single_task_goes_to_the_worker_that_it_names(doubling: ChipCallable) -> None:
    with simpler.Worker(level=3, platform="tiny", device_ids=[4, 7]) as worker:
        handle = worker.register(doubling)
        buffers = [worker.create_buffer(16) for _ in range(4)]
        buffers[0].numpy()[:] = 1

        def graph(orch: Orchestrator, args: object, config: object) -> None:
            for source, target in itertools.pairwise(buffers):
                orch.submit_next_level(handle, two(source, target), worker=1)

        worker.run(graph)
        assert buffers[3].numpy().tolist() == [8, 8, 8, 8]
        assert [child.tasks for child in worker.statistics()] == [0, 3]


def test_s4_017_a_handle_keeps_function_and_arguments_of_its_run(node: simpler.Worker) -> None:
    gate = node.register(wait_for)
    node.init()
    flag = node.create_buffer(1)
    given = byte(flag, "INPUT")

    def graph(orch: Orchestrator, args: TaskArgs | None, config: object) -> None:
        orch.submit_sub(gate, args)

    kept = [weakref.ref(given), weakref.ref(graph)]
    run = node.submit(graph, given)
    del given, graph
    gc.collect()
    assert None not in [each() for each in kept]
    flag.numpy(None, "UINT8")[0] = 1
    run.wait()
    del run
    gc.collect()
    assert [each() for each in kept] == [None, None]


def test_s0_231_the_worked_example_with_arrays_that_outlive_the_close() -> None:
    count = 1024
    add = simpler.compile(
        SOURCE.replace("args.tensor(0), args.tensor(0)", "args.tensor(0), args.tensor(1)").replace(
            "add_output(args.tensor(1))", "add_output(args.tensor(2))"
        ),
        signature=["IN", "IN", "OUT"],
        func_name="add_to",
        children=[(0, simpler.kernels.add)],
    )
    with pytest.raises(simpler.Unsupported, match="host_build_graph"):
        simpler.Worker(level=3, device_ids=[0], platform="a2a3sim", runtime="tensormap_and_ringbuffer")
    w3 = simpler.Worker(level=3, device_ids=[0], platform="a2a3sim", runtime="host_build_graph")
    chip_handle = w3.register(add)
    w3.init()
    try:
        a_buf, b_buf, c_buf = (w3.create_buffer(count * 4) for _ in range(3))
        assert a_buf.shm is not None
        assert b_buf.shm is not None
        assert c_buf.shm is not None
        a = np.frombuffer(a_buf.shm.buf, np.float32, count)
        b = np.frombuffer(b_buf.shm.buf, np.float32, count)
        c = np.frombuffer(c_buf.shm.buf, np.float32, count)
        a.fill(2)
        b.fill(3)
        c.fill(0)
        args = TaskArgs()
        args.add_tensor(a_buf.tensor((count,), DataType.FLOAT32), TensorArgType.INPUT)
        args.add_tensor(b_buf.tensor((count,), DataType.FLOAT32), TensorArgType.INPUT)
        args.add_tensor(c_buf.tensor((count,), DataType.FLOAT32), TensorArgType.OUTPUT_EXISTING)

        def my_orch(orch: Orchestrator, task_args: TaskArgs, cfg: CallConfig) -> None:
            orch.submit_next_level(chip_handle, task_args, cfg, worker=0)

        w3.run(my_orch, args, CallConfig())
        assert (c == 5).all()
    finally:
        w3.close()
    c += a  # still memory of this process
    assert (c == 7).all()
