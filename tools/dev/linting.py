"""The verb `lint`: format, layers, sizes, docs, clang's analyses, and the Python checkers.

Every check runs, so that one start shows all findings; the verb fails when any of them did.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import building
import pythons
import system
from console import BUILD, ROOT, Failure, run, say, shown

CODE_FOLDERS = ("src", "include", "tests", "bench", "examples", "python", "cmake")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def lint(wanted_python: str | None, fix: bool) -> None:
    """Run every check; with `fix`, formatters rewrite files first. Raises Failure naming the checks with findings."""
    with building.exclusive():
        building.prepare(wanted_python, "lint", "test")
        system.ensure(system.LINT_NEEDS, "to lint")
        checks: tuple[tuple[str, Callable[[], None]], ...] = (
            ("clang-format", lambda: _clang_format(fix)),
            ("layers and includes", lambda: _script("check_layers.py")),
            ("file sizes", lambda: _script("check_sizes.py")),
            ("docs index and links", lambda: _script("check_docs.py")),
            ("checklist rows", lambda: _script("write_rows.py", "--check")),
            ("reference pages", lambda: _script("write_reference.py", "--check")),
            ("ruff", lambda: _ruff(fix)),
            ("mypy", _mypy),
            ("clang build with thread-safety analysis", _clang_build),
            ("clang-tidy", _clang_tidy),
        )
        failed = []
        for name, check in checks:
            say(f"lint: {name}")
            try:
                check()
            except Failure as failure:
                say(f"lint: {name}: {failure}")
                failed.append(name)
    if failed:
        raise Failure(f"lint found something in: {', '.join(failed)}")
    say(f"lint: {len(checks)} checks, no findings")


def code_files(*suffixes: str) -> list[Path]:
    """Return the files of the checkout's code folders with one of `suffixes`, sorted."""
    found: list[Path] = []
    for folder in CODE_FOLDERS:
        found += [path for path in (ROOT / folder).rglob("*") if path.suffix in suffixes and path.is_file()]
    return sorted(found)


def _script(name: str, *words: str) -> None:
    run([pythons.python(), "-B", ROOT / "tools" / name, *words], echo=False)


def _clang_format(fix: bool) -> None:
    files = code_files(".h", ".cpp")
    if files:
        run(["clang-format", *(["-i"] if fix else ["--dry-run", "-Werror"]), *files], echo=False)


def _python_places() -> list[Path]:
    return [ROOT / place for place in ("tools", "python", "examples", "bench", "tests") if any((ROOT / place).rglob("*.py"))]


def _ruff(fix: bool) -> None:
    ruff: list[str | Path] = [pythons.python(), "-m", "ruff"]
    cache: list[str | Path] = ["--cache-dir", BUILD / "ruff"]
    run([*ruff, "check", *cache, *(["--fix"] if fix else []), *_python_places()], echo=False)
    run([*ruff, "format", *cache, *([] if fix else ["--check"]), *_python_places()], echo=False)


def _mypy() -> None:
    mypy: list[str | Path] = [pythons.python(), "-m", "mypy", "--cache-dir", BUILD / "mypy"]
    run([*mypy, "tools/dev"], echo=False, env={"MYPYPATH": str(ROOT / "tools" / "dev")})
    for script in sorted((ROOT / "tools").glob("*.py")):
        run([*mypy, script], echo=False)
    if (ROOT / "python" / "bindings" / "module.cpp").exists():
        building.build("release", "python_package")  # makes the stubs
        run([*mypy, "python/simpler"], echo=False, env={"MYPYPATH": str(ROOT / "python")})


def _clang_build() -> None:
    building.build("clang", "all", "headers_alone", keep_going=True)


def _clang_tidy() -> None:
    """Run clang-tidy on product files whose text, includes or rules changed since they were found clean."""
    database = json.loads((BUILD / "clang" / "compile_commands.json").read_text())
    sources = sorted({Path(entry["file"]) for entry in database})
    product = [
        path for path in sources if path.is_relative_to(ROOT / "src") and not re.search(r"_(test|bench|fuzz)$", path.stem)
    ]
    clean = BUILD / "tidy"
    clean.mkdir(parents=True, exist_ok=True)
    rules = (ROOT / ".clang-tidy").read_bytes()
    wanted = {path: clean / f"{'.'.join(path.relative_to(ROOT).parts)}.{_content_hash(path, rules)}" for path in product}
    due = [path for path, mark in wanted.items() if not mark.exists()]
    say(f"lint: clang-tidy: {len(due)} of {len(product)} files changed")
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(building.jobs()) as pool:
        for path, text in pool.map(_tidy_one, due):
            if text:
                bad += 1
                print(text, flush=True)
            else:
                wanted[path].touch()
    keep = set(wanted.values())
    for mark in clean.iterdir():
        if mark not in keep:
            mark.unlink()
    if bad:
        raise Failure(f"{bad} files with findings")


def _tidy_one(path: Path) -> tuple[Path, str]:
    done = subprocess.run(
        ["clang-tidy", "-p", BUILD / "clang", "--quiet", path],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode == 0 and not done.stdout.strip():
        return path, ""
    return path, f"{shown(path)}:\n{done.stdout}{done.stderr if done.returncode else ''}"


def _content_hash(path: Path, rules: bytes) -> str:
    """Return a hash over the rules, the file and every file of ours that it includes, however deep."""
    digest = hashlib.sha256(rules)
    for part in sorted(_included({path})):
        digest.update(part.read_bytes())
    return digest.hexdigest()[:16]


def _included(start: Iterable[Path]) -> set[Path]:
    seen: set[Path] = set()
    todo = list(start)
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        for spelled in INCLUDE.findall(path.read_text(errors="replace")):
            todo += [root / spelled for root in (ROOT / "src", ROOT / "include") if (root / spelled).is_file()]
    return seen
