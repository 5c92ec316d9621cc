"""What a mistake is answered with: the value that was given, and what would be right."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import numpy as np
import pytest

import simpler
from simpler import ArgDirection, DataType, Orchestrator, TaskArgs


def no_parameters() -> None:
    raise AssertionError("not called")


class Graph:
    def __call__(self, orch: Orchestrator, args: object) -> None:
        raise AssertionError("not called")


def raises_inside(orch: Orchestrator, args: object, config: object) -> None:
    no_parameters(1, 2)  # type: ignore[call-arg]


def test_a_graph_function_with_other_parameters_is_told_which_it_should_have(node: simpler.Worker) -> None:
    node.init()
    for graph, words in (
        (no_parameters, "no_parameters takes ()"),
        (lambda orch, args: None, "takes (orch, args)"),
        (Graph(), "Graph takes (orch: 'Orchestrator', args: 'object')"),
        (functools.partial(raises_inside, 1), "raises_inside takes (args: 'object', config: 'object')"),
    ):
        with pytest.raises(simpler.WrongType) as caught:
            node.run(graph)
        assert str(caught.value).startswith("submit: a graph function takes (orch, args, config); ")
        assert words in str(caught.value)
    node.run(lambda orch, args, config: None)


def test_a_type_error_from_inside_a_graph_function_comes_out_as_it_was(node: simpler.Worker) -> None:
    node.init()
    with pytest.raises(TypeError, match=r"no_parameters\(\) takes 0 positional arguments but 2 were given") as caught:
        node.run(raises_inside)
    assert type(caught.value) is TypeError
    with pytest.raises(TypeError) as other:
        node.run(lambda orch, args, config: len(3))  # type: ignore[arg-type]
    assert type(other.value) is TypeError


def test_a_submit_without_worker_says_which_word_is_missing() -> None:
    with simpler.Worker(level=3, platform="tiny", device_ids=[0]) as worker:
        handle = worker.register(simpler.compile(GRAPH, signature=["IN", "OUT"], func_name="running_maximum"))

        def without(orch: Orchestrator, args: object, config: object) -> None:
            orch.submit_next_level(handle, TaskArgs())  # type: ignore[call-arg]

        def group(orch: Orchestrator, args: object, config: object) -> None:
            orch.submit_next_level_group(handle, [TaskArgs()])  # type: ignore[call-arg]

        with pytest.raises(simpler.WrongType, match=r"^submit_next_level: worker= is missing, the number of the chip$"):
            worker.run(without)
        with pytest.raises(simpler.WrongType, match=r"^submit_next_level_group: workers= is missing"):
            worker.run(group)


def test_a_name_that_is_no_member_is_told_the_nearest_one(node: simpler.Worker) -> None:
    node.init()
    buffer = node.create_buffer(16)
    for give, kind, near in (
        (lambda: buffer.numpy(None, "float99"), "a DataType", "FLOAT"),
        (lambda: buffer.tensor((4,), "float"), "a DataType", "FLOAT32"),
        (lambda: buffer.tensor((4,), "FLOAT_32"), "a DataType", "FLOAT32"),
        (lambda: buffer.numpy(None, "FLOAT_32"), "a DataType", "FLOAT32"),
        (lambda: simpler.CoreCallable.build(["OUTPUT"], b"x"), "an ArgDirection", "OUT"),
        (lambda: simpler.CoreCallable.build(["INPUT"], b"x"), "an ArgDirection", "IN"),
        (lambda: TaskArgs().add_tensor(buffer.tensor((4,), "INT8"), "OUT"), "a TensorArgType", "OUTPUT"),
        (lambda: ArgDirection.of("OUTPUT"), "an ArgDirection", "OUT"),
        (lambda: DataType("float"), "a DataType", "FLOAT32"),
    ):
        with pytest.raises(simpler.InvalidArgument, match=f"is not {kind}; did you mean '{near}") as caught:
            give()
        assert isinstance(caught.value, ValueError)
    with pytest.raises(simpler.InvalidArgument, match="99 is not a DataType"):
        buffer.tensor((4,), 99)
    with pytest.raises(simpler.InvalidArgument, match="99 is not a DataType"):
        DataType.of(99)
    with pytest.raises(simpler.InvalidArgument, match="'qqq' is not a DataType; there are FLOAT32"):
        buffer.tensor((4,), "qqq")
    assert buffer.numpy(None, np.int16).dtype == np.int16


def test_an_array_that_does_not_fit_names_the_call_and_the_shape(node: simpler.Worker) -> None:
    node.init()
    buffer = node.create_buffer(16)
    with pytest.raises(
        simpler.InvalidArgument, match=re.escape("numpy: shape (3, 3) of FLOAT32 takes 36 bytes; the buffer has 16")
    ):
        buffer.numpy((3, 3))
    with pytest.raises(
        simpler.InvalidArgument, match=re.escape("shape (4,) of FLOAT32 takes 16 bytes; the buffer has 8 from byte_offset=8 on")
    ):
        buffer.numpy((4,), byte_offset=8)
    with pytest.raises(simpler.InvalidArgument, match="numpy: shape"):
        buffer.numpy((1 << 33,), "INT8")
    assert buffer.numpy((2, 2)).shape == (2, 2)


def test_a_shape_that_is_no_sequence_is_told_how_to_write_it(node: simpler.Worker) -> None:
    node.init()
    buffer = node.create_buffer(64)
    for shape, shown in ((8, "8"), ((8.0,), "(8.0,)"), ([8.0], "[8.0]")):
        for name, give in (
            ("shapes", lambda s: buffer.tensor(s, "INT8")),
            ("shape", lambda s: buffer.view(s, "INT8")),
            ("numpy: shape", lambda s: buffer.numpy(s, "INT8")),
            ("alloc_shared_tensor: shapes", lambda s: node.alloc_shared_tensor(s, "INT8")),
        ):
            wanted = f"{name}={shown}: a sequence of whole numbers is needed; write (8,)"
            with pytest.raises(simpler.WrongType, match=re.escape(wanted)):
                give(shape)
    for shape in ("8", (8.5,), None, (True,)):
        with pytest.raises(simpler.WrongType, match=r"a sequence of whole numbers is needed$"):
            buffer.tensor(shape, "INT8")  # type: ignore[arg-type]


def test_a_kernel_alone_cannot_be_registered(node: simpler.Worker) -> None:
    with pytest.raises(
        simpler.WrongType, match=re.escape("CoreCallable: pack it with simpler.compile(..., children=[(0, kernel)])")
    ):
        node.register(simpler.kernels.add)  # type: ignore[arg-type]


def test_entering_a_closed_worker_raises_at_once() -> None:
    worker = simpler.Worker(level=3, num_sub_workers=1)
    worker.init()
    with worker:  # READY: taken as it is
        pass
    with pytest.raises(simpler.FailedPrecondition, match=r"^this worker is CLOSED; make a new Worker$"), worker:
        raise AssertionError("not entered")


def test_devices_without_a_platform_are_told_which_there_are() -> None:
    for level, devices in ((3, {"device_ids": [0]}), (2, {"device_id": 0}), (2, {})):
        with pytest.raises(simpler.InvalidArgument, match=r"^platform is missing: devices need one of .*a2a3sim.*a5sim.*tiny"):
            simpler.Worker(level=level, **devices)


def test_a_buffer_says_why_it_gives_no_views() -> None:
    with simpler.Worker(level=3, num_sub_workers=1) as worker:
        closed, released, left = (worker.create_buffer(16) for _ in range(3))
        closed.close()
        worker.release_buffer(released)
        left.close()
    for buffer, why in (
        (closed, "went with its worker, which is closed"),
        (released, "was released"),
        (left, "which is closed"),
    ):
        for use in (lambda b=buffer: b.tensor((1,), "INT8"), buffer.numpy, lambda b=buffer: memoryview(b)):
            with pytest.raises(simpler.InvalidArgument, match=why):
                use()
    with simpler.Worker(level=3, num_sub_workers=1) as worker:
        buffer = worker.create_buffer(16)
        buffer.close()
        with pytest.raises(simpler.InvalidArgument, match=r"^buffer .* is closed$"):
            buffer.numpy()


def test_without_a_compiler_the_error_is_unavailable_and_says_where_it_looked() -> None:
    with pytest.raises(simpler.errors.Unavailable, match="no C\\+\\+ compiler: '/nowhere/c\\+\\+'"):
        simpler.compile_kernel(KERNEL, signature=["IN", "OUT"], compiler="/nowhere/c++")
    with pytest.raises(simpler.MissingFile):
        simpler.compile_kernel("nowhere.cpp", signature=[])


GUIDE = (Path(__file__).parents[2] / "docs" / "guide" / "callables.md").read_text()
SOURCES = re.findall(r"```cpp\n(#include \"simpler/\w+.h\"\n.*?)```", GUIDE, re.DOTALL)
KERNEL = next(text for text in SOURCES if "row * x.strides[0]" in text)
GRAPH = next(text for text in SOURCES if "running_maximum" in text)


def test_the_guides_kernel_runs_along_rows_of_views_and_its_orchestration_refuses_what_does_not_fit() -> None:
    kernel = simpler.compile_kernel(KERNEL, signature=["IN", "OUT"], name="running_maximum")
    program = simpler.compile(GRAPH, signature=["IN", "OUT"], func_name="running_maximum", children=[(0, kernel)])
    with simpler.Worker(level=3, platform="a2a3sim", device_ids=[0]) as worker:
        handle = worker.register(program)
        x, y = worker.create_buffer(6 * 10 * 4), worker.create_buffer(6 * 8 * 4)
        values = np.random.default_rng(1).standard_normal((6, 10), np.float32)
        x.numpy((6, 10))[:] = values

        def run(source: simpler.Tensor, target: simpler.Tensor) -> None:
            args = TaskArgs().input(source).output(target)
            worker.run(lambda orch, _, config: orch.submit_next_level(handle, args, worker=0))

        rows = x.tensor((6, 8), "FLOAT32", strides=(10, 1))
        run(rows, y.tensor((6, 8), "FLOAT32"))
        assert np.array_equal(y.numpy((6, 8)), np.maximum.accumulate(values[:, :8], axis=1))
        columns = x.tensor((6, 8), "FLOAT32", strides=(1, 6))
        run(columns, y.tensor((6, 8), "FLOAT32"))
        by_columns = np.lib.stride_tricks.as_strided(values, (6, 8), (4, 24))
        assert np.array_equal(y.numpy((6, 8)), np.maximum.accumulate(by_columns, axis=1))

        shown = re.search(r"raises, before the chip starts,\n\n```text\n(.*?)\n```", GUIDE, re.DOTALL)
        assert shown is not None
        with pytest.raises(simpler.TaskFailed) as caught:
            run(x.tensor((2, 8), "FLOAT32"), y.tensor((3, 3), "FLOAT32"))
        assert f"TaskFailed: {caught.value}".startswith(shown[1])
        assert caught.value.run_code == 9
        with pytest.raises(simpler.TaskFailed, match="fatal 1: x has 1 dimensions and element type 2"):
            run(x.tensor((4,), "INT32"), y.tensor((4,), "INT32"))
        run(rows, y.tensor((6, 8), "FLOAT32"))


def test_statistics_list_the_python_workers_before_the_chips() -> None:
    with simpler.Worker(level=3, platform="tiny", device_ids=[0, 1], num_sub_workers=2) as worker:
        names = [child.name for child in worker.statistics()]
    assert names == ["sub_worker 0", "sub_worker 1", "chip 0", "chip 1"]


def test_one_text_where_several_are_taken_is_not_taken_apart() -> None:
    for given, words in (
        ({"flags": "-O3"}, "flags='-O3': must be a sequence; write flags=['-O3']"),
        ({"include_dirs": "include"}, "include_dirs='include': must be a sequence; write include_dirs=['include']"),
        ({"signature": "IN"}, "signature='IN': must be a sequence; write signature=['IN']"),
    ):
        options = {"signature": ["IN", "OUT"], **given}
        with pytest.raises(simpler.WrongType) as caught:
            simpler.compile_kernel(GRAPH, **options)  # type: ignore[arg-type]
        assert str(caught.value) == words
        with pytest.raises(simpler.WrongType) as caught:
            simpler.compile(GRAPH, func_name="running_maximum", **options)  # type: ignore[arg-type]
        assert str(caught.value) == words


def test_a_single_chip_at_level_3_is_a_list_of_one() -> None:
    with pytest.raises(
        simpler.InvalidArgument, match=re.escape("device_id=1: only a level-2 worker takes one; write device_ids=[1]")
    ):
        simpler.Worker(level=3, platform="tiny", device_id=1)


def loses_its_key(args: simpler.MappedArgs) -> None:
    raise KeyError("nothing here")


def test_the_first_error_of_a_run_comes_to_a_later_submit_as_it_was(node: simpler.Worker) -> None:
    handle = node.register(loses_its_key)
    node.init()
    seen = []

    def graph(orch: Orchestrator, args: object, config: object) -> None:
        try:
            while True:
                orch.submit_sub(handle, TaskArgs())
        except simpler.TaskFailed as error:
            seen.append(str(error))
            raise

    with pytest.raises(simpler.TaskFailed):
        node.run(graph)
    assert "submit_sub" not in seen[0]
    assert "KeyError: 'nothing here'" in seen[0]
