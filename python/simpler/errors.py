"""What simpler raises: one base class, and below it a class for each kind of failure.

Every class also derives from the builtin exception that code for this API catches, so ``except TimeoutError`` and
``except simpler.Error`` both work. Exceptions pickle with all of their details.
"""

from __future__ import annotations

import traceback as _traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Error",
    "InvalidArgument",
    "WrongType",
    "OutOfRange",
    "NotFound",
    "MissingFile",
    "AlreadyExists",
    "FailedPrecondition",
    "CapacityError",
    "Timeout",
    "WorkerDied",
    "TaskFailed",
    "TaskSkipped",
    "Cancelled",
    "InitCancelled",
    "Unsupported",
    "Unavailable",
    "WrongProcess",
    "Reentrant",
    "CompileError",
    "ProtocolError",
    "OperatingSystemError",
    "InternalError",
    "RemoteTraceback",
    "attach_exception_note",
]


class Error(Exception):
    """Base of everything that simpler raises.

    Attributes
    ----------
    message : str
        What went wrong, with the name and the value that it is about.
    code : str
        Name of the kind of failure, as in the C++ API.
    worker, callable, task : str
        Where it happened; empty when unknown.
    type_name : str
        Type of the exception that a callable raised in its process.
    remote_traceback : str
        Its traceback there, as text.
    run_code : int
        Documented number of a chip's failure; 0 when there is none.
    pid, exit_status, signal : int
        How a process ended; 0 when unknown.

    Examples
    --------
    >>> import pickle
    >>> error = pickle.loads(pickle.dumps(TaskFailed("boom", worker="L3/sub_worker 0", type_name="ValueError")))
    >>> print(error)
    L3/sub_worker 0: ValueError: boom
    """

    code = "internal"

    def __init__(
        self,
        message: str = "",
        *,
        worker: str = "",
        callable: str = "",
        task: str = "",
        type_name: str = "",
        remote_traceback: str = "",
        run_code: int = 0,
        pid: int = 0,
        exit_status: int = 0,
        signal: int = 0,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.worker = worker
        self.callable = callable
        self.task = task
        self.type_name = type_name
        self.remote_traceback = remote_traceback
        self.run_code = run_code
        self.pid = pid
        self.exit_status = exit_status
        self.signal = signal
        if remote_traceback:
            self.__cause__ = RemoteTraceback(remote_traceback)

    def __str__(self) -> str:
        kind = f"{self.type_name}: " if self.type_name else ""
        place = f"{self.worker}: " if self.worker and self.worker not in self.message else ""
        about = [f"callable {self.callable}"] if self.callable else []
        about += [self.task if self.task.startswith("task") else f"task {self.task}"] if self.task else []
        about += [f"code {self.run_code}"] if self.run_code else []
        return f"{place}{kind}{self.message}" + (f" ({', '.join(about)})" if about else "")

    def __reduce__(self) -> tuple[Callable[[type[Error], dict[str, object]], Error], tuple[type[Error], dict[str, object]]]:
        return _rebuild, (type(self), dict(self.__dict__))


def _rebuild(kind: type[Error], state: dict[str, object]) -> Error:
    error = kind.__new__(kind)
    error.args = (state.get("message", ""),)
    error.__dict__.update(state)
    if error.remote_traceback:
        error.__cause__ = RemoteTraceback(error.remote_traceback)
    return error


class InvalidArgument(Error, ValueError):
    """A value is outside of what the call takes."""

    code = "invalid_argument"


class WrongType(Error, TypeError):
    """An object of another type is needed."""

    code = "wrong_type"


class OutOfRange(Error, IndexError):
    """An index is past the end."""

    code = "out_of_range"


class NotFound(Error, KeyError):
    """Nothing is known under this name."""

    code = "not_found"

    __str__ = Error.__str__


class MissingFile(Error, FileNotFoundError):
    """A file that the call needs is not there."""

    code = "not_found"

    __str__ = Error.__str__


class AlreadyExists(Error, ValueError):
    """The name is taken."""

    code = "already_exists"


class FailedPrecondition(Error, RuntimeError):
    """The call is not possible in this state."""

    code = "failed_precondition"


class CapacityError(Error, RuntimeError):
    """A limit is reached that waiting cannot lift."""

    code = "resource_exhausted"


class Timeout(Error, TimeoutError):
    """The time given is over; what was waited for goes on."""

    code = "timeout"

    __str__ = Error.__str__


class WorkerDied(Error, RuntimeError):
    """A child process ended; `pid` and `signal` or `exit_status` say how."""

    code = "peer_lost"


class TaskFailed(Error, RuntimeError):
    """A callable raised, or a chip gave up; the traceback of its process is `remote_traceback` and the cause."""

    code = "task_failed"


class TaskSkipped(Error, RuntimeError):
    """A task did not run because one that it waits for failed."""

    code = "skipped"


class Cancelled(Error, RuntimeError):
    """Somebody cancelled it."""

    code = "cancelled"


class InitCancelled(Cancelled):
    """The worker was closed while it started."""


class Unsupported(Error, NotImplementedError):
    """This installation does not have it; the text says what there is."""

    code = "unsupported"


class Unavailable(Error, RuntimeError):
    """It cannot be reached at the moment."""

    code = "unavailable"


class WrongProcess(Error, RuntimeError):
    """The object belongs to the process that made it."""

    code = "wrong_process"


class Reentrant(Error, RuntimeError):
    """The call would wait for its own caller."""

    code = "reentrant"


class CompileError(Error, RuntimeError):
    """A source does not compile; the text is the compiler's own."""

    code = "compile_failed"


class ProtocolError(Error, RuntimeError):
    """Bytes from another process or file are not what they should be."""

    code = "corrupt"


class OperatingSystemError(Error, OSError):
    """The operating system refused."""

    code = "system"

    __str__ = Error.__str__


class InternalError(Error, RuntimeError):
    """A fault of simpler itself."""

    code = "internal"


class RemoteTraceback(Exception):
    """The traceback of another process, shown as the cause of the error here."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text.rstrip()}\n"""'


_BY_CODE: dict[str, type[Error]] = {
    kind.code: kind
    for kind in (
        InvalidArgument,
        WrongType,
        OutOfRange,
        NotFound,
        AlreadyExists,
        FailedPrecondition,
        CapacityError,
        Timeout,
        WorkerDied,
        TaskFailed,
        TaskSkipped,
        Cancelled,
        Unsupported,
        Unavailable,
        WrongProcess,
        Reentrant,
        CompileError,
        ProtocolError,
        OperatingSystemError,
        InternalError,
    )
}


def _from_status(
    code: str,
    message: str,
    worker: str,
    callable: str,
    task: str,
    type_name: str,
    remote_traceback: str,
    run_code: int,
    pid: int,
    exit_status: int,
    signal: int,
) -> Error:
    """Return the exception for a failed status of the native part."""
    kind = _BY_CODE.get(code, InternalError)
    # A number of the chip's means that a run failed, whatever the kind of mistake; callers catch RuntimeError for that.
    error = (TaskFailed if run_code and not issubclass(kind, RuntimeError) else kind)(
        message,
        worker=worker,
        callable=callable,
        task=task,
        type_name=type_name,
        remote_traceback=remote_traceback,
        run_code=run_code,
        pid=pid,
        exit_status=exit_status,
        signal=signal,
    )
    error.code = code
    return error


_LONG_TEXT = 200


def _describe(error: BaseException) -> tuple[str, str, str]:
    """Return type name, text and traceback of an exception of any kind; never raises."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be had: str() raised)"
    try:
        trace = "".join(_traceback.format_exception(kind, error, error.__traceback__))
    except Exception:
        trace = "".join(_traceback.format_tb(error.__traceback__))
    if len(text) > _LONG_TEXT:
        # The text travels by itself; the little space of a traceback is for the lines of code.
        trace = trace.replace(text, text[:_LONG_TEXT] + " …")
    return tuple(part.encode("utf-8", "backslashreplace").decode("utf-8") for part in (name, text, trace))  # type: ignore[return-value]


def attach_exception_note(error: BaseException, note: str) -> None:
    """Add a line that tracebacks show below the exception.

    Before Python 3.11 the line is kept in ``__notes__`` alone.

    Examples
    --------
    >>> error = ValueError("no")
    >>> attach_exception_note(error, "while reading the plan")
    >>> error.__notes__
    ['while reading the plan']
    """
    if hasattr(error, "add_note"):
        error.add_note(note)
    else:
        error.__dict__["__notes__"] = [*getattr(error, "__notes__", []), note]
