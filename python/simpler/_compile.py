"""C++ sources to callables of a chip, with the system's compiler and a cache on disk."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from ._enums import ArgDirection
from ._native import ChipCallable, CoreCallable, compile_shared
from .errors import MissingFile, WrongType

__all__ = ["compile", "compile_kernel", "include_dir"]


def include_dir() -> Path:
    """Return the folder of the public headers, for other build systems.

    Examples
    --------
    >>> (include_dir() / "simpler" / "kernel.h").is_file()
    True
    """
    here = Path(__file__).resolve().parent
    for folder in (here / "include", here.parents[1] / "include"):
        if (folder / "simpler" / "kernel.h").is_file():
            return folder
    raise MissingFile(f"simpler/kernel.h lies neither in {here / 'include'} nor in {here.parents[1] / 'include'}")


def _refuse_one(**lists: object) -> None:
    """Refuse a single text or path where several are taken: it would be taken apart into its letters."""
    for name, value in lists.items():
        if isinstance(value, (str, bytes, os.PathLike)):
            raise WrongType(f"{name}={value!r}: must be a sequence; write {name}=[{value!r}]")


def _shared(
    source: str | os.PathLike[str],
    orchestration: bool,
    entry: str,
    name: str | None,
    include_dirs: Iterable[str | os.PathLike[str]],
    flags: Iterable[str],
    compiler: str,
    use_cache: bool,
) -> bytes:
    _refuse_one(include_dirs=include_dirs, flags=flags)
    is_text = isinstance(source, str) and "\n" in source
    path = "" if is_text else os.fspath(source)
    if not is_text and not Path(path).is_file():
        raise MissingFile(f"source {path}: no such file; pass a path, or the source itself as a string of several lines")
    return compile_shared(
        orchestration=orchestration,
        name=name or "",
        path=path,
        text=str(source) if is_text else "",
        entry=entry,
        include_dirs=[os.fspath(each) for each in include_dirs],
        flags=list(flags),
        headers=str(include_dir()),
        compiler=compiler,
        use_cache=use_cache,
    )


def compile(
    source: str | os.PathLike[str],
    *,
    signature: Sequence[ArgDirection | int | str],
    func_name: str = "aicpu_orchestration_entry",
    config_name: str = "",
    children: Iterable[tuple[int, CoreCallable]] = (),
    name: str | None = None,
    include_dirs: Iterable[str | os.PathLike[str]] = (),
    flags: Iterable[str] = (),
    compiler: str = "",
    use_cache: bool = True,
) -> ChipCallable:
    """Compile an orchestration and pack it with its kernels.

    Parameters
    ----------
    source
        Path of a C++ file, or the source itself as a string of several lines.
    signature
        Direction of every argument that a run takes, in order.
    func_name, config_name
        Exported names of the orchestration and of its config function, which it need not have.
    children
        Numbers and kernels that the orchestration submits, such as ``(0, simpler.kernels.add)``.
    name
        What the compiler's messages call it; the file's name by default. A run's errors name `func_name`.
    include_dirs, flags, compiler
        What the compiler is given besides the public headers; ``compiler`` defaults to ``CXX``, then ``c++``.
    use_cache
        Whether the result of an earlier call with the same source, headers and flags may be taken.

    Raises
    ------
    CompileError
        The source is wrong; the text is the compiler's, with file and line.
    MissingFile
        There is no such file.
    Unavailable
        There is no compiler; the text says where one was looked for.

    Examples
    --------
    >>> import simpler
    >>> source = '''
    ... #include "simpler/orchestration.h"
    ... using namespace simpler::orchestration;
    ... SIMPLER_ORCHESTRATION void twice(const ChipTaskArgs& args) {
    ...   CoreTaskArgs task;
    ...   task.add_input(args.tensor(0));
    ...   task.add_input(args.tensor(0));
    ...   task.add_output(args.tensor(1));
    ...   rt_submit_aiv_task(0, task);
    ... }
    ... '''
    >>> simpler.compile(source, signature=["IN", "OUT"], func_name="twice", children=[(0, simpler.kernels.add)])
    ChipCallable(twice, 2 arguments, 1 kernels)
    """
    _refuse_one(signature=signature)
    code = _shared(source, True, func_name, name, include_dirs, flags, compiler, use_cache)
    return ChipCallable.build(signature, func_name, code, list(children), config_name)


def compile_kernel(
    source: str | os.PathLike[str],
    *,
    signature: Sequence[ArgDirection | int | str],
    name: str | None = None,
    include_dirs: Iterable[str | os.PathLike[str]] = (),
    flags: Iterable[str] = (),
    compiler: str = "",
    use_cache: bool = True,
) -> CoreCallable:
    """Compile one kernel, a source that exports ``kernel_entry``.

    The parameters are those of `compile`; `signature` has the tensors and then the scalars of one task.

    Raises
    ------
    CompileError
        The source is wrong; the text is the compiler's, with file and line.
    MissingFile
        There is no such file.
    Unavailable
        There is no compiler; the text says where one was looked for.

    Examples
    --------
    >>> kernel = compile_kernel('''
    ... #include "simpler/kernel.h"
    ... SIMPLER_KERNEL void kernel_entry(int64_t* args) { (void)args; }
    ... ''', signature=[])
    >>> kernel.sig_count
    0
    """
    _refuse_one(signature=signature)
    return CoreCallable.build(signature, _shared(source, False, "", name, include_dirs, flags, compiler, use_cache))
