"""What of ./dev and the page writers users rely on."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]

# A shell verb whose set-up only prints: what would build is noted on standard output.
SHELL = """
import argparse, contextlib, sys
sys.path.insert(0, sys.argv[1])
import building, testing, verbs
building.exclusive = contextlib.nullcontext
building.prepare = lambda python, *groups: print("prepare", groups == testing.demo_groups(), flush=True)
building.build = lambda *targets, **options: print("build", targets, options)
verbs.run_verb(argparse.Namespace(verb="shell", python=None, command=[sys.executable, "-c", "print('mine')"]), [])
"""


def python(source: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", source, str(ROOT / "tools" / "dev"), *words], capture_output=True, text=True)


def tool(monkeypatch: pytest.MonkeyPatch, name: str) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module(name)


def test_a_shell_needs_what_the_demo_needs_and_leaves_standard_output_to_the_command() -> None:
    done = python(SHELL)
    assert (done.returncode, done.stdout) == (0, "mine\n")
    assert done.stderr.splitlines() == ["prepare True", "build ('release', 'python_package') {'only_if_due': True}"]


SHOWING = """
import sys
sys.path.insert(0, sys.argv[1])
import console
try:
    console.run_showing_work([sys.executable, "-c", sys.argv[2]], ("nothing to do", "looking"))
except console.Failure as failure:
    print("Failure")
"""


def test_a_build_with_nothing_to_do_shows_nothing_and_any_other_shows_everything() -> None:
    assert python(SHOWING, "print('looking'); print('nothing to do')").stdout == ""
    working = python(SHOWING, "print('looking'); print('compiling'); print('looking')").stdout.splitlines()
    assert working[0].startswith("+ ")
    assert working[1:] == ["looking", "compiling", "looking"]
    failing = python(SHOWING, "print('looking'); raise SystemExit(3)").stdout.splitlines()
    assert failing[0].startswith("+ ")
    assert failing[1:] == ["looking", "Failure"]


def test_a_public_name_without_a_heading_on_the_python_page_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = tool(monkeypatch, "write_reference")
    root = ast.parse((ROOT / "python" / "simpler" / "__init__.py").read_text())
    public = writer.public_names(root)
    import simpler

    assert public == set(simpler.__all__)
    page = (ROOT / "docs" / "reference" / "python.md").read_text()
    assert writer.missing_names(page, public) == []
    assert writer.missing_names(page.replace("### compile_kernel", "### other"), public) == ["compile_kernel"]
    assert writer.missing_names(page, {*public, "new_name"}) == ["new_name"]


def test_declarations_take_the_place_of_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = tool(monkeypatch, "write_reference")
    header = """\
#define TWICE(x) \\
  ((x) * 2)
// A pair.
struct Pair {
  Pair(int a, int b) : Base{}, a_{a}, b_(b) {
    if (a) { b_ = 1; }  // a } in a comment
  }
  int sum() const { return a_ + b_; }
  int a_ = {};
};
namespace detail {
inline void hidden() {}
}  // namespace detail
template <class T>
T make(const char* text = "{") {
  return T{};
}
""".splitlines()
    assert [line for line in writer.declarations(header) if line] == [
        "// A pair.",
        "struct Pair {",
        "  Pair(int a, int b);",
        "  int sum() const;",
        "  int a_ = {};",
        "};",
        "template <class T>",
        'T make(const char* text = "{");',
    ]
