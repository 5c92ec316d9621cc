"""The handle of one run."""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from .errors import Cancelled, Error, FailedPrecondition, InvalidArgument, Timeout, WrongType

if TYPE_CHECKING:
    from ._native import Run

__all__ = ["RunHandle"]

_settling = threading.Lock()  # held for an assignment only


class RunHandle:
    """What `Worker.submit` returns: one run on its way, or its outcome.

    A run goes on and ends whether somebody waits or not. Any number of threads may wait, and all see the same outcome.
    In a coroutine, ``await handle`` does the same without blocking the loop.
    """

    __slots__ = ("__weakref__", "_error", "_keep", "_known", "_run")

    def __init__(self, run: Run, keep: tuple[object, ...] = ()) -> None:
        self._run = run
        self._keep = keep  # callback, arguments and settings live as long as the handle
        self._known = False
        self._error: BaseException | None = None

    @property
    def done(self) -> bool:
        """Whether `wait` would not block."""
        return self._run.done

    @property
    def id(self) -> int:
        """Number of the run in its worker, from 1."""
        return self._run.id

    def wait(self, timeout: float | None = None) -> None:
        """Return when the run has ended; Ctrl-C gives control back at once and changes nothing for the run.

        Raises
        ------
        Timeout
            The time is over; the run goes on.
        InvalidArgument
            `timeout` is negative or not finite.
        Error
            The run's own first error, the same object at every call.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error

    def result(self, timeout: float | None = None) -> None:
        """Do as `wait`; a run has no value."""
        self.wait(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait as `wait`, and return the run's error instead of raising it; None for a success."""
        if not self._known:
            outcome = self._run.wait(None if timeout is None else _seconds(timeout))
            if outcome is False:
                raise Timeout(f"run {self.id} has not ended within {timeout} s")
            with _settling:
                if not self._known:
                    self._error = None if outcome is True else outcome
                    self._known = True
        return self._error

    @property
    def errors(self) -> list[BaseException]:
        """Every error of the ended run, in the order of arrival; empty while it runs or when it succeeded."""
        return self._run.errors()

    def cancel(self) -> None:
        """Let nothing of the run start any more; what runs already ends. The run then fails with `Cancelled`."""
        self._run.cancel()

    def cancelled(self) -> bool:
        """Return whether the run has ended because it was cancelled."""
        return self.done and isinstance(self.exception(), Cancelled)

    def add_done_callback(self, callback: Callable[[RunHandle], object]) -> None:
        """Call ``callback(handle)`` once when the run is over; at once when it already is.

        It is called on a thread of the worker's, which does nothing else meanwhile, so it should be short.
        """
        self._run.on_done(lambda: callback(self))

    def as_future(self) -> concurrent.futures.Future[None]:
        """Return a future that ends with the run; cancelling it cancels the run."""
        future: concurrent.futures.Future[None] = concurrent.futures.Future()

        def settle(handle: RunHandle) -> None:
            if future.cancelled():
                return
            error = handle.exception()
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        self.add_done_callback(settle)
        return future

    def __await__(self) -> Generator[object, None, None]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def settle() -> None:
            if not future.done():
                future.set_result(None)

        def over(_handle: RunHandle) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle)

        self.add_done_callback(over)
        try:
            yield from future
        except asyncio.CancelledError:
            self.cancel()
            raise
        self.wait()

    def __repr__(self) -> str:
        if not self.done:
            return f"<RunHandle {self.id}: running>"
        try:
            error = self.exception()
        except Error as other:
            error = other
        return f"<RunHandle {self.id}: {'done' if error is None else type(error).__name__}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise FailedPrecondition("a RunHandle belongs to the process that submitted the run and cannot be pickled")


def _seconds(timeout: float) -> float:
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise WrongType(f"timeout: a number of seconds is needed, not {type(timeout).__name__}")
    if timeout < 0 or math.isnan(timeout) or math.isinf(timeout):
        raise InvalidArgument(f"timeout={timeout}: must be a finite number of seconds, 0 or more")
    return float(timeout)
