"""Fill docs/seeds.md and docs/scenarios.md from the tests that carry a row's id; `--check` only compares.

A row that a test names gets that test's place and the state `test`; one that no test names any more goes back to `later`.
Rows with the states `reason` and `see` are written by hand and stay.
"""

from __future__ import annotations

import re
import sys

from checkout import ROOT, files, name, report, write

IDS = {
    "docs/seeds.md": re.compile(r"(?<![A-Za-z0-9])(S[0-9])[-_]([0-9]{3})(?![0-9])"),
    "docs/scenarios.md": re.compile(r"(?<![A-Za-z0-9])(B)([0-9]{3})(?![0-9])"),
}
ROW = re.compile(r"^\| (\S+) \| (.*) \| (.*) \| (test|later) \|$")


def places(pattern: re.Pattern[str]) -> dict[str, list[str]]:
    """Return the test files that name each id."""
    found: dict[str, list[str]] = {}
    for path in files(("src", "tests", "python/tests", "examples"), (".cpp", ".py", ".h")):
        relative = name(path)
        if not (path.stem.endswith("_test") or path.stem.startswith("test_") or relative.startswith("tests/")):
            continue
        for family, number in pattern.findall(path.read_text()):
            row = f"{family}{number}" if family == "B" else f"{family}-{number}"
            if relative not in found.setdefault(row, []):
                found[row].append(relative)
    return found


def filled(text: str, tests: dict[str, list[str]]) -> str:
    """Return the page with the columns `where` and `state` of its open rows filled."""
    lines = []
    for line in text.splitlines():
        match = ROW.match(line)
        if match:
            where = ", ".join(tests.get(match[1], []))
            line = f"| {match[1]} | {match[2]} | {where or '–'} | {'test' if where else 'later'} |"
        lines.append(line)
    return "\n".join(lines) + "\n"


def main() -> None:
    findings = []
    states: dict[str, int] = {}
    for page, pattern in IDS.items():
        path = ROOT / page
        text = path.read_text()
        fresh = filled(text, places(pattern))
        if fresh != text:
            if "--check" in sys.argv[1:]:
                findings.append(f"{page}: does not agree with the tests; run tools/write_rows.py")
            else:
                write(path, fresh)
        for state in re.findall(r"\| (test|reason|later|see) \|$", fresh, re.MULTILINE):
            states[state] = states.get(state, 0) + 1
    report("write_rows", findings, "rows: " + ", ".join(f"{count} {state}" for state, count in sorted(states.items())))


main()
