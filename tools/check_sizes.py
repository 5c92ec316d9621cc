"""Report the largest files; one over 600 lines needs a reason in the README of its folder, in a line that names it."""

from __future__ import annotations

from pathlib import Path

from checkout import ROOT, files, name, report

LIMIT = 600
FOLDERS = ("src", "include", "python", "tests", "bench", "examples", "tools", "cmake")
SUFFIXES = (".h", ".cpp", ".py", ".cmake")


def has_reason(path: Path) -> bool:
    """Return whether the nearest README above the file has a line that names it and speaks of its lines."""
    for folder in path.parents:
        readme = folder / "README.md"
        if readme.exists():
            return any(path.name in line and "lines" in line for line in readme.read_text().splitlines())
        if folder == ROOT:
            break
    return False


def main() -> None:
    sizes = sorted(((len(path.read_text().splitlines()), path) for path in files(FOLDERS, SUFFIXES)), reverse=True)
    for lines, path in sizes[:5]:
        print(f"{lines:5} {name(path)}")
    findings = [
        f"{name(path)}: {lines} lines, limit {LIMIT}: split it, or give the reason in its folder's README"
        for lines, path in sizes
        if lines > LIMIT and not has_reason(path)
    ]
    report("check_sizes", findings, f"{len(sizes)} files, {sum(lines for lines, _ in sizes)} lines")


main()
