"""Settings and states of a worker."""

from __future__ import annotations

import faulthandler
import gc
import os
import pickle
import signal
import subprocess
import threading
import time
import warnings
from collections.abc import Callable

import pytest

import simpler

Script = Callable[..., "subprocess.CompletedProcess[str]"]


def processes() -> set[str]:
    """Return the children of this process."""
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return set(file.read().split())


@pytest.mark.parametrize(
    ("config", "kind", "text"),
    [
        ({"level": 1}, ValueError, "level=1"),
        ({"level": 4}, NotImplementedError, "level=4"),
        ({"level": True}, TypeError, "level=True"),
        ({"num_sub_workers": -1}, ValueError, "num_sub_workers=-1"),
        ({"num_sub_workers": True}, TypeError, "num_sub_workers=True"),
        ({"num_sub_workers": 1.0}, TypeError, "num_sub_workers=1.0"),
        ({"startup_timeout_s": 0}, ValueError, "startup_timeout_s=0"),
        ({"startup_timeout_s": float("nan")}, ValueError, "startup_timeout_s=nan"),
        ({"watchdog_s": float("inf")}, ValueError, "watchdog_s=inf"),
        ({"startup_timeout_s": "3"}, TypeError, "startup_timeout_s='3'"),
        ({"device_ids": [0, 0], "platform": "a2a3sim"}, ValueError, "0 twice"),
        ({"device_ids": [-1], "platform": "a2a3sim"}, ValueError, "-1"),
        ({"device_ids": "01"}, TypeError, "device_ids='01'"),
        ({"device_ids": [0]}, ValueError, "platform"),
        ({"device_ids": [0], "platform": "b7"}, ValueError, "platform='b7'"),
        (
            {"device_ids": [0], "platform": "a5sim", "runtime": "tensormap_and_ringbuffer"},
            NotImplementedError,
            "host_build_graph",
        ),
        ({"heap_ring_size": 12}, ValueError, "heap_ring_size=12"),
        ({"task_window": 2**40}, ValueError, "task_window"),
        ({"full_inference": 1}, TypeError, "full_inference=1"),
        ({"trace_path": 3}, TypeError, "trace_path=3"),
    ],
)
def test_b050_bad_settings_raise_before_anything_starts(config: dict[str, object], kind: type[Exception], text: str) -> None:
    before = processes()
    with pytest.raises(kind, match=text) as caught:
        simpler.Worker(**{"level": 3, **config})  # type: ignore[arg-type]
    assert isinstance(caught.value, simpler.Error)
    assert processes() == before


def test_b050_a_misspelt_setting_is_named_with_the_nearest_one() -> None:
    with pytest.warns(UserWarning, match="'num_subworkers'; did you mean 'num_sub_workers'"):
        simpler.Worker(level=3, num_subworkers=2)


def test_b050_a_misspelt_setting_is_an_error_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMPLER_STRICT", "1")
    with pytest.raises(ValueError, match="num_sub_workers"):
        simpler.Worker(level=3, num_subworkers=2)


def test_settings_of_other_machines_are_accepted() -> None:
    simpler.Worker(
        level=3, pipeline_depth=2, comm_profile="sim", remote_session_timeout_s=3, enable_sdma=False, device_ids=None
    )


def test_calls_before_init_say_that_a_ready_worker_is_needed(node: simpler.Worker) -> None:
    for call in (lambda: node.create_buffer(8), lambda: node.run(lambda orch, args, config: None), node.statistics):
        with pytest.raises(RuntimeError, match="initialised \\(READY\\) worker"):
            call()


def test_the_context_manager_starts_a_new_worker_and_ends_it() -> None:
    with simpler.Worker(level=3, num_sub_workers=1) as worker:
        assert "READY" in repr(worker)
        child = worker.statistics()[0]
        assert child.alive
    assert "CLOSED" in repr(worker)
    assert not os.path.exists(f"/proc/{child.pid}")
    worker.close()
    with pytest.raises(RuntimeError, match="CLOSED"):
        worker.create_buffer(1)


def test_a_worker_starts_once(node: simpler.Worker) -> None:
    node.init()
    with pytest.raises(RuntimeError, match="init"):
        node.init()


def test_closing_a_worker_that_never_started_does_no_harm() -> None:
    worker = simpler.Worker(level=3, num_sub_workers=1)
    worker.close()
    worker.close()


def test_an_exception_in_the_block_closes_the_worker_and_is_kept() -> None:
    with pytest.raises(KeyError, match="mine"), simpler.Worker(level=3, num_sub_workers=1) as worker:
        raise KeyError("mine")
    assert "CLOSED" in repr(worker)


def test_b065_another_thread_may_do_everything_and_signals_stay_as_they_were() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)]
    handlers = faulthandler.is_enabled()
    seen: list[bytes] = []

    def fill(args: simpler.MappedArgs) -> None:
        args[0].buffer[:] = b"abc"

    def work() -> None:
        with simpler.Worker(level=3, num_sub_workers=1) as worker:
            handle, buffer = worker.register(fill), worker.create_buffer(3)
            args = simpler.TaskArgs()
            args.add_tensor(buffer.tensor((3,), "UINT8"), "OUTPUT")
            worker.run(lambda orch, _args, _config: orch.submit_sub(handle, args))
            seen.append(bytes(buffer.shm.buf))  # type: ignore[union-attr]

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [b"abc"]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)] == before
    assert faulthandler.is_enabled() == handlers


def test_b093_threads_of_the_program_are_mentioned_once_at_init(node: simpler.Worker) -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="mine")
    thread.start()
    try:
        with pytest.warns(RuntimeWarning, match="mine"):
            node.init()
    finally:
        stop.set()
        thread.join()


def test_an_object_used_after_a_fork_of_the_program_says_whose_it_is(script: Script) -> None:
    done = script(
        """
        import os, simpler
        w = simpler.Worker(level=3, num_sub_workers=1)
        w.init()
        b = w.create_buffer(8)
        if (pid := os.fork()) == 0:
            try:
                w.create_buffer(8)
            except simpler.WrongProcess as error:
                os.write(1, b"refused\\n" if "belongs to process" in str(error) else b"?")
            w.close()
            del w, b
            os._exit(0)
        os.waitpid(pid, 0)
        print(len(w.create_buffer(8).shm.buf), w.statistics()[0].alive)
        w.close()
    """,
        "-W",
        "ignore::DeprecationWarning",
    )  # os.fork of a program with threads, from Python 3.12 on
    assert (done.returncode, done.stdout, done.stderr) == (0, "refused\n8 True\n", "")


def test_b075_a_dropped_worker_is_ended_with_a_warning_also_inside_a_cycle() -> None:
    pids = []
    for cycle in (False, True):
        worker = simpler.Worker(level=3, num_sub_workers=1)
        worker.register(lambda args: worker)  # noqa: B023, F821 - the cycle goes through the registered callable
        worker.init()
        pids.append(worker.statistics()[0].pid)
        if cycle:
            worker.me = worker  # type: ignore[attr-defined]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del worker
            gc.collect()
        assert [each.category for each in caught] == [ResourceWarning]
        del caught  # a warning holds what it is about
        gc.collect()
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_neither_workers_nor_handles_pickle(node: simpler.Worker) -> None:
    node.init()
    run = node.submit(lambda orch, args, config: None)
    for thing in (node, run):
        with pytest.raises(RuntimeError, match="cannot be pickled"):
            pickle.dumps(thing)


def test_back_to_baseline_over_many_starts() -> None:
    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))

    gc.collect()
    with simpler.Worker(level=3, num_sub_workers=1):
        pass  # what the process keeps for good is made here
    files, children = open_files(), processes()
    for _ in range(20):
        with simpler.Worker(level=3, num_sub_workers=2) as worker:
            worker.create_buffer(4096)
    del worker
    gc.collect()
    assert (open_files(), processes()) == (files, children)


def test_statistics_count_the_tasks_of_each_child(node: simpler.Worker) -> None:
    handle = node.register(lambda args: None)
    node.init()

    def graph(orch: simpler.Orchestrator, args: object, config: object) -> None:
        for _ in range(20):
            orch.submit_sub(handle)

    node.run(graph)
    assert [child.name for child in node.statistics()] == ["sub_worker 0", "sub_worker 1"]
    give_up = time.monotonic() + 30
    # A child counts a task just after it has answered.
    while sum(child.tasks for child in node.statistics()) < 20:
        assert time.monotonic() < give_up
