"""Exceptions: their bases, their texts and their way through pickle."""

from __future__ import annotations

import pickle

import pytest

from simpler import errors

BUILTIN = {
    errors.InvalidArgument: ValueError,
    errors.WrongType: TypeError,
    errors.OutOfRange: IndexError,
    errors.NotFound: KeyError,
    errors.MissingFile: FileNotFoundError,
    errors.Timeout: TimeoutError,
    errors.Unsupported: NotImplementedError,
    errors.TaskFailed: RuntimeError,
    errors.WorkerDied: RuntimeError,
    errors.FailedPrecondition: RuntimeError,
    errors.CapacityError: RuntimeError,
    errors.CompileError: RuntimeError,
    errors.OperatingSystemError: OSError,
    errors.InitCancelled: RuntimeError,
}


@pytest.mark.parametrize("kind", BUILTIN, ids=lambda kind: kind.__name__)
def test_each_is_an_error_of_ours_and_the_builtin_that_callers_catch(kind: type[errors.Error]) -> None:
    assert issubclass(kind, errors.Error)
    assert issubclass(kind, BUILTIN[kind])


@pytest.mark.parametrize("kind", BUILTIN, ids=lambda kind: kind.__name__)
def test_each_pickles_with_its_details(kind: type[errors.Error]) -> None:
    error = kind("text", worker="L3/sub_worker 1", callable="f", type_name="ValueError", remote_traceback="line 1\n", pid=7)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error) == "L3/sub_worker 1: ValueError: text (callable f)"
    assert again.pid == 7
    assert "line 1" in str(again.__cause__)


def test_a_note_is_added_on_every_python() -> None:
    error = errors.TaskFailed("x")
    errors.attach_exception_note(error, "first")
    errors.attach_exception_note(error, "second")
    assert error.__notes__ == ["first", "second"]
