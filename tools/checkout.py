"""What the checkers of this folder share: where the files are, and how findings are reported."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SKIPPED = {".git", ".venv", "build", "dist", ".cache", "__pycache__"}


def files(folders: Iterable[str], suffixes: Iterable[str]) -> Iterator[Path]:
    """Yield the files below `folders` of the checkout that end in one of `suffixes`, sorted; "." is the whole checkout."""
    wanted = set(suffixes)
    found = set()
    for folder in folders:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in wanted and path.is_file() and not SKIPPED & set(path.relative_to(ROOT).parts):
                found.add(path)
    yield from sorted(found)


def name(path: Path) -> str:
    """Return the path as seen from the root of the checkout."""
    return path.relative_to(ROOT).as_posix()


def report(tool: str, findings: list[str], looked_at: str) -> None:
    """Print the findings, or one line that says what was looked at, and end the program."""
    for finding in findings:
        print(finding)
    print(f"{tool}: {len(findings)} findings in {looked_at}")
    sys.exit(1 if findings else 0)


def write(path: Path, text: str) -> None:
    """Write by rename, so that a reader sees the old text or the new one."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text)
    os.replace(fresh, path)
