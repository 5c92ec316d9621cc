"""Texts about arguments that do not serve: what was given, and what would be right."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence

__all__ = ["dims", "graph_parameters", "name", "nearest", "whole_numbers"]


def nearest(given: str, names: Iterable[str]) -> str | None:
    """Return the name that was probably meant, or None.

    Examples
    --------
    >>> nearest("OUTPUT", ["SCALAR", "IN", "OUT", "INOUT"]), nearest("float", ["INT8", "FLOAT32"])
    ('OUT', 'FLOAT32')
    """
    import difflib

    known, wanted = list(names), given.upper()
    begun = sorted((each for each in known if wanted.startswith(each)), key=len)
    close = difflib.get_close_matches(wanted, known, 1)
    longer = [each for each in known if wanted and each.startswith(wanted)]
    found = [*begun[-1:], *longer, *close]
    return found[0] if found else None


def name(kind: str, given: object, names: Sequence[str]) -> str:
    """Return what is wrong with a value that should be one of `names`.

    Examples
    --------
    >>> name("ArgDirection", "OUTPUT", ["IN", "OUT"])
    "'OUTPUT' is not an ArgDirection; did you mean 'OUT'? There are IN, OUT"
    """
    text = f"{given!r} is not {'an' if kind[0] in 'AEIOU' else 'a'} {kind}"
    near = nearest(given, names) if isinstance(given, str) else None
    if near is not None:
        return f"{text}; did you mean {near!r}? There are {', '.join(names)}"
    return f"{text}; there are {', '.join(names)}" if names else text


def dims(what: str, given: object) -> str:
    """Return what is wrong with a value that should be a sequence of whole numbers.

    Examples
    --------
    >>> dims("shapes", 8)
    'shapes=8: a sequence of whole numbers is needed; write (8,)'
    """
    meant = _meant(given)
    advice = "" if meant is None else f"; write {meant!r}"
    return f"{what}={_short(given)}: a sequence of whole numbers is needed{advice}"


def whole_numbers(what: str, given: object) -> tuple[int, ...]:
    """Return the numbers of a shape.

    Raises
    ------
    WrongType
        It is no sequence of whole numbers.
    """
    if isinstance(given, Iterable) and not isinstance(given, (str, bytes)):
        items = list(given)
        if all(hasattr(each, "__index__") and not isinstance(each, bool) for each in items):
            return tuple(operator.index(each) for each in items)
        given = items if not isinstance(given, Sequence) else given
    from .errors import WrongType

    raise WrongType(dims(what, given))


def graph_parameters(graph: Callable[..., object], error: TypeError) -> str | None:
    """Return what a graph function should take, when `error` came from calling it with three arguments; else None."""
    import inspect

    from ._transport import name_of
    from .errors import Error

    inside = error.__traceback__ is not None and error.__traceback__.tb_next is not None
    if inside or isinstance(error, Error):
        return None
    try:
        signature = inspect.signature(graph)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(None, None, None)
    except TypeError:
        taken = signature.replace(return_annotation=inspect.Signature.empty)
        return f"submit: a graph function takes (orch, args, config); {name_of(graph)} takes {taken}"
    return None


def _meant(given: object) -> tuple[int, ...] | None:
    items = [given] if isinstance(given, (int, float)) or not isinstance(given, Sequence) else list(given)
    if isinstance(given, (str, bytes)):
        return None
    numbers = []
    for each in items:
        if isinstance(each, bool) or not (hasattr(each, "__index__") or (isinstance(each, float) and each.is_integer())):
            return None
        numbers.append(operator.index(each) if hasattr(each, "__index__") else int(each))
    return tuple(numbers)


def _short(given: object) -> str:
    text = repr(given)
    return text if len(text) <= 80 else text[:77] + "..."
