"""Importing the package: cheap, quiet, and possible where the native part is missing."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

import simpler

Script = Callable[..., "subprocess.CompletedProcess[str]"]


def test_b090_import_loads_neither_numpy_nor_torch_nor_the_native_part_and_starts_nothing(script: Script) -> None:
    done = script("""
        import sys, threading
        before = threading.active_count()
        import simpler
        for name in ("numpy", "torch", "simpler._native", "simpler.worker", "asyncio", "cloudpickle"):
            assert name not in sys.modules, name
        simpler.Worker
        for name in ("numpy", "torch", "cloudpickle"):
            assert name not in sys.modules, name
        assert threading.active_count() == before
    """)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")


def test_import_succeeds_where_the_extension_is_missing(script: Script) -> None:
    done = script("""
        import sys
        sys.modules["simpler._native"] = None
        import simpler
        assert simpler.DEFAULT_THRESHOLD == 25 and "Worker" in dir(simpler)
        try:
            simpler.Worker
        except ImportError:
            print("refused")
    """)
    assert (done.returncode, done.stdout) == (0, "refused\n")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Wroker'"):
        _ = simpler.Wroker  # type: ignore[attr-defined]


def test_every_exported_name_can_be_had() -> None:
    for name in simpler.__all__:
        assert getattr(simpler, name) is not None


def test_the_logger_has_a_level_between_info_and_warning() -> None:
    import logging

    assert (simpler.TIMING, simpler.NUL) == (25, 60)
    assert logging.getLevelName(25) == "TIMING"
    logger = simpler.get_logger()
    logger.setLevel(11)
    assert simpler.get_current_config() == 20
    logger.setLevel(logging.NOTSET)


def test_it_works_under_python_o(script: Script) -> None:
    done = script(
        """
        import simpler
        def fill(args):
            args[0].buffer[:] = b"ok"
        with simpler.Worker(level=3, num_sub_workers=1) as w:
            h = w.register(fill)
            b = w.create_buffer(2)
            a = simpler.TaskArgs(); a.add_tensor(b.tensor((2,), "UINT8"), "OUTPUT")
            w.run(lambda orch, args, config: orch.submit_sub(h, args), a)
            print(bytes(b).decode())
        """,
        "-O",
        "-W",
        "error",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")
