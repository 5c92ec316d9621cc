"""One level of the tree: a chip in this process (level 2), or a node with chips and Python workers (level 3)."""

from __future__ import annotations

import atexit
import builtins
import difflib
import math
import os
import sys
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType

from . import _advice, _native, _transport
from ._enums import CallableKind, DataType
from ._native import Buffer, CallableHandle, CallConfig, ChildStatistics, ChipCallable, CoreCallable, TaskArgs, Tensor
from .errors import (
    Cancelled,
    Error,
    FailedPrecondition,
    InitCancelled,
    InvalidArgument,
    Timeout,
    Unsupported,
    WrongType,
)
from .run import RunHandle

__all__ = ["InitCancelled", "RunHandle", "Worker"]

_COUNTS = ("level", "device_id", "num_sub_workers", "heap_ring_size", "chip_threads", "task_window", "max_pending_runs")
_SECONDS = ("startup_timeout_s", "heap_wait_timeout_s", "control_timeout_s", "close_timeout_s", "watchdog_s")
_FLAGS = ("full_inference", "measure_user_time")
_OPTIONS = frozenset((*_COUNTS, *_SECONDS, *_FLAGS, "platform", "runtime", "device_ids", "trace_path"))
# Settings of parts that a simulated node does not have: accepted, so that one script serves every machine.
_WITHOUT_EFFECT = frozenset(
    (
        "comm_profile",
        "enable_sdma",
        "global_device_ranks",
        "launch_depth",
        "pending_run_depth",
        "pipeline_depth",
        "remote_heap_ring_size",
        "remote_session_timeout_s",
        "workspace_budget_bytes",
    )
)

_ready: weakref.WeakSet[Worker] = weakref.WeakSet()


class Worker:
    """A tree of processes that runs graphs.

    Parameters
    ----------
    level
        3 for a node with children, 2 for one chip in this process.
    platform
        The simulated chip: ``"a2a3sim"``, ``"a5sim"`` or ``"tiny"``; needed with devices.
    device_ids, device_id
        The chips of level 3, one process each; the chip of level 2.
    num_sub_workers
        Python workers of level 3, one process each.
    heap_ring_size
        Bytes of each of the four heaps that graphs allocate from.
    trace_path
        File that receives a Chrome trace at `close`.
    measure_user_time
        Whether `statistics` tells the CPU time inside kernels and callables.

    Other settings: ``runtime``, ``startup_timeout_s``, ``heap_wait_timeout_s``, ``control_timeout_s``,
    ``close_timeout_s``, ``watchdog_s``, ``chip_threads``, ``task_window``, ``max_pending_runs``, ``full_inference``.
    A name that nobody knows is reported with the nearest one that exists: a warning, or an error where the variable
    ``SIMPLER_STRICT`` is 1.

    Raises
    ------
    InvalidArgument, WrongType
        A setting is out of its range; nothing has been started.

    Examples
    --------
    >>> import simpler
    >>> def double(args):
    ...     values = args[0].buffer.cast("i")
    ...     values[0] = 2 * values[0]
    >>> worker = simpler.Worker(level=3, num_sub_workers=1)
    >>> handle = worker.register(double)
    >>> with worker:
    ...     buffer = worker.create_buffer(4)
    ...     number = buffer.shm.buf.cast("i")
    ...     number[0] = 21
    ...     args = simpler.TaskArgs().add_tensor(buffer.tensor((1,), "INT32"), "INOUT")
    ...     worker.run(lambda orch, args, config: orch.submit_sub(handle, args), args)
    ...     number[0]
    42
    """

    def __init__(self, level: int, **config: object) -> None:
        options = _checked({"level": level, **config})
        self._options = options
        self.level = level
        self._native = _native.Worker(**options)
        self._lock = threading.Lock()
        self._functions: list[object] = []  # children inherit these; the native part only borrows them
        self._imports: dict[str, object] = {}
        # As many as can be unfinished, so that close() can wait for them in a way that Ctrl-C ends.
        pending = options.get("max_pending_runs", 16)
        self._runs: deque[_native.Run] = deque(maxlen=1 + (pending if isinstance(pending, int) else 16))
        self._pid = os.getpid()

    # --- what can run -------------------------------------------------------------------------------------------------

    def register(self, target: ChipCallable | Callable[..., object], *, workers: Sequence[int] | None = None) -> CallableHandle:
        """Make a callable known to the children that can run it, before `init` or after.

        A Python callable is called with `MappedArgs` in a Python worker. Registered before `init`, it reaches the
        children by the fork; it runs as it was at this call when it can be pickled by value in little space, and as it
        is at `init` otherwise. Afterwards it is imported by name or pickled with cloudpickle.

        Raises
        ------
        WrongType
            It is no callable, a level-2 worker was given something else than a `ChipCallable`, or it cannot be sent to
            children that run already; the text names what it captures.
        InvalidArgument
            This worker has no child that could run it.
        """
        if isinstance(target, CoreCallable):
            raise WrongType(
                "register: a ChipCallable is needed, not CoreCallable: pack it with "
                "simpler.compile(..., children=[(0, kernel)])"
            )
        if workers is not None:
            raise Unsupported("register: workers= is for remote children, which this release does not have")
        if isinstance(target, ChipCallable):
            if self.level >= 3 and not self._options.get("device_ids"):
                raise InvalidArgument("register: a chip callable needs a chip, and device_ids is empty")
            return self._native.register_chip(target)
        if self.level == 2:
            raise WrongType(f"register: a level-2 worker runs ChipCallable only, not {type(target).__name__}")
        if not callable(target):
            raise WrongType(f"register: a ChipCallable or a Python callable is needed, not {type(target).__name__}")
        if not self._options.get("num_sub_workers"):
            raise InvalidArgument("register: a Python callable needs a Python worker, and num_sub_workers is 0")
        return self._register_python(target)

    def _register_python(self, target: Callable[..., object]) -> CallableHandle:
        started = self._native.state != "NEW"
        name = _transport.name_of(target)
        with self._lock:
            self._functions.append(target)
            by_name = _transport.import_target(target)
            if by_name is not None and self._imports.setdefault(by_name, target) is target:
                return self._native.register_python(
                    target,
                    kind=CallableKind.PYTHON_IMPORT,
                    digest=_native.digest_of_import(by_name),
                    name=name,
                    payload=by_name.encode(),
                    keep_fds=_transport.descriptors(target),
                )
        payload, unsendable = _transport.pickled(target)
        if payload is not None:
            return self._native.register_python(
                target,
                kind=CallableKind.PYTHON_SERIALIZED,
                digest=_native.digest_of_payload(payload),
                name=name,
                payload=payload,
                from_payload=True,
            )
        if started:
            raise WrongType(f"register: {name} cannot be sent to children that run already: {unsendable}")
        return self._native.register_python(
            target,
            kind=CallableKind.PYTHON_FORK_ONLY,
            digest=_native.digest_of_fork(),
            name=name,
            unsendable=unsendable,
            keep_fds=_transport.descriptors(target),
        )

    def unregister(self, handle: CallableHandle) -> None:
        """Forget one registration; what is submitted already still runs.

        Raises
        ------
        NotFound
            It is not registered here.
        """
        if not isinstance(handle, CallableHandle):
            raise WrongType(f"unregister takes the CallableHandle returned by Worker.register, not {type(handle).__name__}")
        self._native.unregister(handle)

    # --- lifecycle ----------------------------------------------------------------------------------------------------

    def init(self, prewarm_config: CallConfig | None = None) -> None:
        """Start the tree and return when all of it is ready.

        Raises
        ------
        Error
            It did not start; the text is the first child's own, and nothing is left behind.
        InitCancelled
            Another thread closed the worker meanwhile.
        """
        if prewarm_config is not None:
            prewarm_config.validate()
        if self.level >= 3:
            _warn_of_threads()
            _transport.flush_streams()
        try:
            self._native.init()
        except Cancelled as error:
            raise InitCancelled(error.message) from None
        _ready.add(self)

    def close(self) -> None:
        """Wait for the runs that were accepted, then end the tree; calling it again does no harm.

        While an interrupt (Ctrl-C) is on its way up, it ends the tree at once instead, as `terminate`.

        Raises
        ------
        Timeout
            Runs are still going after ``close_timeout_s``; close again, or `terminate`.
        Reentrant
            Called from inside a call on the same worker.
        """
        if self._pid != os.getpid():
            return
        if isinstance(sys.exc_info()[1], KeyboardInterrupt):
            self.terminate()
            return
        if not _native.is_building():
            self._drain()
        self._native.close()
        self._runs.clear()
        _ready.discard(self)

    def _drain(self) -> None:
        """Wait for the runs in a way that Ctrl-C can end, before the native close does it in one piece."""
        seconds = self._options.get("close_timeout_s", 10.0)
        deadline = time.monotonic() + (seconds if isinstance(seconds, (int, float)) else 10.0)
        try:
            for run in list(self._runs):
                if run.wait(max(0.0, deadline - time.monotonic())) is False:
                    return
        except KeyboardInterrupt:
            self.terminate()
            raise

    def terminate(self) -> None:
        """End the tree at once: what has not started fails, and children that are inside something are killed."""
        if self._pid != os.getpid():
            return
        self._native.terminate()
        self._runs.clear()
        _ready.discard(self)

    def __enter__(self) -> Worker:
        """Start the worker if it is NEW; one that is READY is taken as it is.

        Raises
        ------
        FailedPrecondition
            The worker is CLOSED, or its start failed.
        """
        state = self._native.state
        if state in ("CLOSED", "FAILED"):
            raise FailedPrecondition(f"this worker is {state}; make a new Worker")
        if state == "NEW":
            self.init()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self.terminate()
            return
        try:
            self.close()
        except Timeout:
            self.terminate()
            if error is None:
                raise

    def __del__(self) -> None:
        native = getattr(self, "_native", None)
        if native is None or self._pid != os.getpid() or native.state in ("NEW", "CLOSED", "FAILED"):
            return
        warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self, stacklevel=2)

    # --- runs ---------------------------------------------------------------------------------------------------------

    def submit(
        self,
        callable: CallableHandle | Callable[..., object],
        args: TaskArgs | None = None,
        config: CallConfig | None = None,
    ) -> RunHandle:
        """Start a run and return its handle.

        Level 3 takes a function ``graph(orch, args, config)``, calls it on this thread, and returns when the graph is
        built. Level 2 takes the handle of a chip callable and its arguments.

        Raises
        ------
        FailedPrecondition
            The worker is not READY.
        WrongType
            `callable` is not what this level takes, or a graph function has other parameters.
        Exception
            What the graph function raised; what had not started was cancelled, and the rest has ended.
        """
        if args is not None and not isinstance(args, TaskArgs):
            raise WrongType(f"submit: args is a TaskArgs, not {type(args).__name__}")
        if config is not None and not isinstance(config, CallConfig):
            raise WrongType(f"submit: config is a CallConfig, not {type(config).__name__}")
        if self.level == 2:
            if not isinstance(callable, CallableHandle):
                raise WrongType(
                    "submit: a level-2 worker takes the CallableHandle returned by Worker.register, "
                    f"not {type(callable).__name__}"
                )
            settings = CallConfig() if config is None else config
            run = self._native.submit_task(callable, TaskArgs() if args is None else args, settings)
        else:
            if isinstance(callable, CallableHandle) or not builtins.callable(callable):
                raise WrongType(
                    f"submit: a level-3 worker takes a function graph(orch, args, config), not {type(callable).__name__}; "
                    "submit the CallableHandle returned by Worker.register from inside that function"
                )
            try:
                run = self._native.submit_graph(self, callable, args, config)
            except TypeError as error:
                advice = _advice.graph_parameters(callable, error)
                if advice is None:
                    raise
                raise WrongType(advice) from None
        self._runs.append(run)
        return RunHandle(run, (callable, args, config))

    def run(
        self,
        callable: CallableHandle | Callable[..., object],
        args: TaskArgs | None = None,
        config: CallConfig | None = None,
    ) -> None:
        """Submit a run and wait for it; raises as `submit` and `RunHandle.wait` do."""
        self.submit(callable, args, config).wait()

    # --- memory -------------------------------------------------------------------------------------------------------

    def create_buffer(self, nbytes: int) -> Buffer:
        """Return host memory that the children share, also those that run already.

        Raises
        ------
        InvalidArgument
            `nbytes` is 0 or less.
        CapacityError
            There is not that much memory; the text says what was asked for and what is there.
        """
        return self._native.create_buffer(_positive("create_buffer: nbytes", nbytes))

    def alloc_shared_tensor(self, shapes: Sequence[int], dtype: DataType | int | str) -> Buffer:
        """Return host memory for a tensor of this shape; raises as `create_buffer` does."""
        extents = _advice.whole_numbers("alloc_shared_tensor: shapes", shapes)
        return self.create_buffer(math.prod(extents) * _native.get_element_size(dtype))

    def release_buffer(self, buffer: Buffer) -> None:
        """Give host memory back; arrays over it stay valid, and doing it twice does no harm.

        Raises
        ------
        FailedPrecondition
            A run that is not over names the buffer.
        """
        if not isinstance(buffer, Buffer):
            raise WrongType(f"release_buffer takes a Buffer, not {type(buffer).__name__}")
        self._native.release_buffer(buffer)

    def make_tensor_arg(
        self, tensor: object, shapes: Sequence[int], dtype: DataType | int | str, *, strides: Sequence[int] | None = None
    ) -> Tensor:
        """Return the view that tasks take, of an array over memory of this worker.

        A level-2 worker takes any contiguous array; its memory is kept alive until `close`.

        Raises
        ------
        InvalidArgument
            The children do not share the array's memory; put it into `create_buffer`.
        """
        return self._native.make_tensor_arg(tensor, shapes, dtype, strides, self.level == 2)

    def malloc(self, size: int) -> Buffer:
        """Return memory of the chip of a level-2 worker.

        Raises
        ------
        WrongType
            The worker has another level; `alloc_child_tensor` is the call there.
        """
        if self.level != 2:
            raise WrongType("malloc: only at level 2; use alloc_child_tensor(worker_id, shapes, dtype)")
        return self._native.malloc(_positive("malloc: size", size))

    def alloc_child_tensor(self, worker_id: int, shapes: Sequence[int], dtype: DataType | int | str) -> Buffer:
        """Return memory of one chip.

        Raises
        ------
        OutOfRange
            There is no chip of this number.
        """
        return self._native.alloc_child_tensor(worker_id, shapes, dtype)

    def free(self, handle: Buffer) -> None:
        """Give memory of a chip back.

        Raises
        ------
        FailedPrecondition
            A run that is not over names it.
        """
        if not isinstance(handle, Buffer):
            raise WrongType(f"free takes a Buffer, not {type(handle).__name__}")
        self._native.free(handle)

    def copy_to(self, dst: Buffer, src: object, *, dst_offset: int = 0, src_offset: int = 0, nbytes: int | None = None) -> None:
        """Copy host memory to a chip; `nbytes` defaults to the rest of `src`.

        Level 3 takes a `Buffer` as `src`; level 2 also arrays, bytearrays and ctypes arrays.

        Raises
        ------
        InvalidArgument
            The range leaves one of the two.
        """
        self._check_sides("copy_to", dst, src)
        self._native.copy_to(dst, src, dst_offset, src_offset, nbytes)

    def copy_from(
        self, dst: object, src: Buffer, *, dst_offset: int = 0, src_offset: int = 0, nbytes: int | None = None
    ) -> None:
        """Copy memory of a chip to the host; `nbytes` defaults to the rest of `dst`. Takes what `copy_to` takes."""
        self._check_sides("copy_from", src, dst)
        self._native.copy_from(dst, src, dst_offset, src_offset, nbytes)

    def _check_sides(self, call: str, device: object, host: object) -> None:
        if not isinstance(device, Buffer):
            raise WrongType(f"{call}: the chip's side is a Buffer, not {type(device).__name__}")
        if self.level >= 3 and not isinstance(host, Buffer):
            raise WrongType(
                f"{call}: the host side is a Buffer, not {type(host).__name__}; put the bytes into create_buffer(nbytes)"
            )

    def committed_device_memory(self, worker_id: int = 0) -> int:
        """Return the bytes that one chip has committed.

        Raises
        ------
        Unsupported
            The worker has no chip.
        """
        if self.level >= 3 and not self._options.get("device_ids"):
            raise Unsupported("committed_device_memory: this worker has no chip; device_ids is empty")
        return self._native.committed_device_memory(worker_id)

    # --- what it is and does ------------------------------------------------------------------------------------------

    def statistics(self) -> list[ChildStatistics]:
        """Return what each child has done so far: the Python workers first, then the chips, each by number."""
        return self._native.statistics()

    def peak_heap_bytes(self) -> int:
        """Return the most bytes that allocations of graphs have used at once."""
        return self._native.peak_heap_bytes()

    def __repr__(self) -> str:
        parts = [f"level={self.level}"]
        parts += [
            f"{key}={self._options[key]!r}" for key in ("platform", "device_ids", "num_sub_workers") if self._options.get(key)
        ]
        return f"<Worker {', '.join(parts)}: {self._native.state}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise FailedPrecondition("a Worker belongs to the process that made it and cannot be pickled")


def _positive(what: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise WrongType(f"{what}: a whole number is needed, not {type(value).__name__}")
    if value <= 0:
        raise InvalidArgument(f"{what}={value}: must be 1 or more")
    return value


def _checked(config: dict[str, object]) -> dict[str, object]:
    """Return the settings that have a value, with their types checked; ranges are checked by the native part."""
    if "py_control_timeout_s" in config:
        config.setdefault("control_timeout_s", config.pop("py_control_timeout_s"))
    options = {}
    for key, value in config.items():
        if key in _WITHOUT_EFFECT:
            continue
        if key not in _OPTIONS:
            _report_unknown(key)
        elif value is not None:
            options[key] = _typed(key, value)
    return options


def _typed(key: str, value: object) -> object:
    def refuse(needed: str) -> WrongType:
        return WrongType(f"{key}={value!r}: {needed} is needed")

    if key in _COUNTS:
        if isinstance(value, bool) or not isinstance(value, int):
            raise refuse("a whole number")
        if not -(2**31) <= value < (2**63 if key == "heap_ring_size" else 2**31) or (
            value < 0 and key in ("heap_ring_size", "task_window", "max_pending_runs")
        ):
            raise InvalidArgument(f"{key}={value}: out of range")
    elif key in _SECONDS:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise refuse("a number of seconds")
        return float(value)
    elif key in _FLAGS:
        if not isinstance(value, bool):
            raise refuse("True or False")
    elif key == "device_ids":
        if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
            raise refuse("a sequence of whole numbers")
        if any(isinstance(each, bool) or not isinstance(each, int) for each in value):
            raise refuse("a sequence of whole numbers")
        return [int(each) for each in value]
    elif key == "trace_path":
        return os.fspath(value) if isinstance(value, (str, os.PathLike)) else _typed_text(key, value)
    else:
        return _typed_text(key, value)
    return value


def _typed_text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise WrongType(f"{key}={value!r}: a text is needed")
    return value


def _report_unknown(key: str) -> None:
    near = difflib.get_close_matches(key, _OPTIONS, 1)
    advice = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(sorted(_OPTIONS))}"
    text = f"Worker has no setting {key!r}{advice}"
    if _native.environment().get("SIMPLER_STRICT", "0") not in ("", "0"):
        raise InvalidArgument(text)
    warnings.warn(text, UserWarning, stacklevel=4)


def _warn_of_threads() -> None:
    """Say once per start that a fork copies locks of other threads; the main thread and the caller are no such threads."""
    others = [each for each in threading.enumerate() if each not in (threading.current_thread(), threading.main_thread())]
    if others:
        warnings.warn(
            f"init() forks while {len(others)} other thread(s) of the program run "
            f"({', '.join(each.name for each in others[:4])}); "
            "a lock that one of them holds stays locked in the children. Call init() before starting threads.",
            RuntimeWarning,
            stacklevel=3,
        )


def _terminate_all() -> None:
    for worker in list(_ready):
        try:
            worker.terminate()
        except Error as error:
            sys.stderr.write(f"simpler: {worker!r} at exit: {error}\n")


atexit.register(_terminate_all)
