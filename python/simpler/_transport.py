"""How a Python callable reaches the children of a worker, and how it is made there.

Before ``init()`` everything travels with the fork. A callable that can be imported is known by its name; one that can be
pickled by value (with cloudpickle, where it is installed) runs as it was when it was registered; anything else runs as
it is at ``init()`` and cannot be sent to children that already run.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ._enums import CallableKind

# Larger ones travel with the fork alone: pickling a model by accident would double its memory.
MOST_PAYLOAD_BYTES = 1 << 20


@dataclass
class Parcel:
    """One callable, made ready to travel."""

    kind: CallableKind
    name: str
    payload: bytes | None = None
    unsendable: str = ""
    keep_fds: list[int] = field(default_factory=list)


class _TooLarge(Exception):
    pass


class _BoundedFile(io.BytesIO):
    def write(self, data: object) -> int:
        size = memoryview(data).nbytes  # type: ignore[arg-type]
        if self.tell() + size > MOST_PAYLOAD_BYTES:
            raise _TooLarge(f"it pickles to more than {MOST_PAYLOAD_BYTES} bytes")
        return super().write(data)  # type: ignore[arg-type]


def name_of(target: object) -> str:
    """Return what a callable is called in messages."""
    inner = getattr(target, "func", target)  # functools.partial
    return str(getattr(inner, "__qualname__", None) or type(target).__qualname__)


def import_target(target: object) -> str | None:
    """Return ``module:qualname`` when importing that gives this very object."""
    module, qualname = getattr(target, "__module__", None), getattr(target, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualname, str) or module == "__main__" or "<" in qualname:
        return None
    found: object = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return f"{module}:{qualname}" if found is target else None


def pickled(target: object) -> tuple[bytes | None, str]:
    """Return the bytes of a callable taken by value, or None and why there are none."""
    try:
        import cloudpickle  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        return None, "cloudpickle is not installed; define the callable in a module, or register it before init()"
    for name, value in captured(target):
        # cloudpickle would send a copy of an open file's contents, which is another file.
        if _descriptor(value) is not None:
            return None, f"it captures {name} of type {type(value).__qualname__}, which is open here"
    file = _BoundedFile()
    try:
        cloudpickle.CloudPickler(file, protocol=5).dump(target)
    except _TooLarge as error:
        return None, str(error)
    except Exception as error:
        return None, _why_not(target, error, cloudpickle.dumps)
    # What follows a pickle is not read as part of it: the file that tracebacks name.
    function = _function_of(target)
    source = "" if function is None else function.__code__.co_filename
    return file.getvalue() + source.encode("utf-8", "surrogateescape"), ""


def _why_not(target: object, error: Exception, dumps: Callable[[object], bytes]) -> str:
    for name, value in captured(target):
        try:
            dumps(value)
        except Exception as inner:
            return f"it captures {name} of type {type(value).__qualname__}, which cannot be pickled ({inner})"
    return f"it cannot be pickled: {error}"


def captured(target: object) -> Iterator[tuple[str, object]]:
    """Yield names and values that a callable carries with it."""
    bound = getattr(target, "__self__", None)
    if bound is not None and not isinstance(bound, types.ModuleType):
        yield from ((f"self.{name}", value) for name, value in getattr(bound, "__dict__", {}).items())
    for name in ("args", "keywords"):  # functools.partial
        values = getattr(target, name, None) if hasattr(target, "func") else None
        if isinstance(values, tuple):
            yield from ((f"argument {i}", value) for i, value in enumerate(values))
        elif isinstance(values, dict):
            yield from values.items()
    function = getattr(target, "__func__", getattr(target, "func", target))
    code = getattr(function, "__code__", None)
    if not isinstance(code, types.CodeType):
        return
    for name, cell in zip(code.co_freevars, getattr(function, "__closure__", None) or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue
    for i, value in enumerate(getattr(function, "__defaults__", None) or ()):
        yield f"default {i}", value
    names = getattr(function, "__globals__", {})
    for name in code.co_names:
        if name in names and not isinstance(names[name], types.ModuleType):
            yield name, names[name]


def _descriptor(value: object) -> int | None:
    number = getattr(value, "fileno", None)
    if number is None or isinstance(value, type):
        return None
    try:
        return int(number())
    except Exception:
        return None


def descriptors(target: object) -> list[int]:
    """Return the file descriptors that a callable captures: its children keep them."""
    found = [_descriptor(value) for _, value in captured(target)]
    return [each for each in found if each is not None and each > 2]


def load_serialized(payload: bytes) -> object:
    """Make a callable of the bytes that `pickled` gave; runs in a child."""
    import pickle

    file = io.BytesIO(payload)
    made = pickle.load(file)
    source = file.read().decode("utf-8", "surrogateescape")
    function = _function_of(made)
    if function is not None and source:
        function.__code__ = _renamed(function.__code__, source)
    return made


def _function_of(target: object) -> types.FunctionType | None:
    """Return the function behind a callable, where there is one."""
    for found in (target, getattr(target, "__func__", None), vars(type(target)).get("__call__")):
        if isinstance(found, types.FunctionType):
            return found
    return None


def _renamed(code: types.CodeType, source: str) -> types.CodeType:
    """Return the code with the name of its file, which by-value pickling drops, so that tracebacks show lines."""
    if os.path.exists(code.co_filename):
        return code
    inner = tuple(_renamed(each, source) if isinstance(each, types.CodeType) else each for each in code.co_consts)
    return code.replace(co_filename=source, co_consts=inner)


def load_import(target: bytes) -> object:
    """Import a callable; runs in a child."""
    module, _, qualname = target.decode("utf-8").partition(":")
    found: object = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


def flush_streams() -> None:
    """Write out what print() has buffered."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            continue
