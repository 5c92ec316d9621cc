"""Keep docs/seeds.md and docs/scenarios.md true to the tests; `--check` only compares.

A row whose state is `test` or `part` names tests: `Suite.Title` of C++, `file.py::function` of Python. A test that carries
a row's id in its title or in a comment beside it is added to that row; a name that no test has any more is taken out, and a
row without names goes back to `later`. Rows with the states `reason` and `see` are written by hand and stay.
"""

from __future__ import annotations

import re
import sys

from checkout import ROOT, files, report, write

IDS = {
    "docs/seeds.md": re.compile(r"(?<![A-Za-z0-9])([Ss][0-9])[-_]([0-9]{3})(?![0-9])"),
    "docs/scenarios.md": re.compile(r"(?<![A-Za-z0-9])([Bb])([0-9]{3})(?![0-9])"),
}
ROW = re.compile(r"^\| (\S+) \| (.*) \| (.*) \| (test|part|later) \|$")
NAME = re.compile(r"`([^`]+)`")
CPP_TEST = re.compile(r"^(?:TYPED_)?TEST(?:_[PF])?\(\s*(\w+),\s*(\w+)")
PYTHON_TEST = re.compile(r"^def (test_\w+)")


def tests() -> dict[str, str]:
    """Return every test with the text that may carry ids: its title and the comments before and behind it."""
    found = {}
    for path in files(("src", "tests", "python/tests", "examples"), (".cpp", ".py")):
        before = ""
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines):
            whole = line if line.count("(") == line.count(")") else " ".join(lines[number : number + 2])
            cpp = CPP_TEST.match(whole)
            python = PYTHON_TEST.match(line) if path.name.startswith("test_") else None
            if cpp:
                found[f"{cpp[1]}.{cpp[2]}"] = before + whole
            elif python:
                found[f"{path.name}::{python[1]}"] = before + line
            before = before + line + "\n" if re.match(r"\s*(//|#)", line) else ""
    return found


def carriers(pattern: re.Pattern[str], known: dict[str, str]) -> dict[str, list[str]]:
    """Return the tests that carry each id."""
    found: dict[str, list[str]] = {}
    for test, text in known.items():
        for family, number in pattern.findall(text):
            row = f"{family}{number}" if family in "Bb" else f"{family}-{number}"
            if test not in found.setdefault(row.upper(), []):
                found[row.upper()].append(test)
    return found


def filled(page: str, text: str, known: dict[str, str], carrying: dict[str, list[str]], findings: list[str]) -> str:
    """Return the page with the columns `where` and `state` of its open rows made true."""
    lines = []
    for line in text.splitlines():
        match = ROW.match(line)
        if match:
            named = NAME.findall(match[3])
            findings.extend(f"{page}: {match[1]} names {each}, and no test is called so" for each in named if each not in known)
            where = [each for each in named if each in known]
            where += [each for each in carrying.get(match[1], []) if each not in where]
            state = ("part" if match[4] == "part" else "test") if where else "later"
            line = f"| {match[1]} | {match[2]} | {', '.join(f'`{each}`' for each in where) or '–'} | {state} |"
        lines.append(line)
    return "\n".join(lines) + "\n"


def main() -> None:
    findings: list[str] = []
    states: dict[str, int] = {}
    known = tests()
    checking = "--check" in sys.argv[1:]
    for page, pattern in IDS.items():
        path = ROOT / page
        text = path.read_text()
        fresh = filled(page, text, known, carriers(pattern, known), findings)
        if fresh != text:
            if checking:
                findings.append(f"{page}: does not agree with the tests; run tools/write_rows.py")
            else:
                write(path, fresh)
        for state in re.findall(r"\| (test|part|reason|later|see) \|$", fresh, re.MULTILINE):
            states[state] = states.get(state, 0) + 1
    counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    report("write_rows", findings if checking else [], f"{len(known)} tests; rows: {counts}")


main()
