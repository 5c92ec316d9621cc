"""What each verb of ./dev does, except `test` and `lint`, which have files of their own."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from pathlib import Path

import benching
import building
import linting
import pythons
import system
import testing
from console import BUILD, ROOT, Failure, output_to_stderr, run, say


def run_verb(options: argparse.Namespace, rest: list[str]) -> int:
    """Carry out the verb that was asked for and return the exit status."""
    if options.verb == "demo":
        return _demo(options.python, rest)
    if options.verb == "test":
        return _test(options)
    if options.verb == "build":
        return _build(options)
    if options.verb == "bench":
        return benching.bench(options)
    if options.verb == "lint":
        linting.lint(options.python, options.fix)
    elif options.verb == "docs":
        _docs(options)
    elif options.verb == "soak":
        return _soak(options)
    elif options.verb == "clean":
        _remove(BUILD, ROOT / "dist", ROOT / ".cache")
    elif options.verb == "uninstall":
        _remove(BUILD, ROOT / "dist", ROOT / ".cache", pythons.VENV)
        for made in (ROOT / "python" / "simpler").glob("*.so"):
            _remove(made)
        _remove(ROOT / "python" / "simpler" / "lib")
        say("system packages stay; remove them with apt-get if nothing else needs them")
    elif options.verb == "shell":
        return _shell(options)
    return 0


def _test(options: argparse.Namespace) -> int:
    if options.sanitizers:
        with building.exclusive():
            building.prepare(options.python, "test")
            testing.sanitizers(options.only)
        testing.closing_lines()
    else:
        testing.test(options.only, options.all, options.python)
    return 0


def _build(options: argparse.Namespace) -> int:
    with building.exclusive():
        building.prepare(options.python)
        building.build(options.preset, *options.targets)
    return 0


def _demo(wanted_python: str | None, words: list[str]) -> int:
    folder = testing.demo_package()
    if folder is None:
        raise Failure("the demo is not in this checkout (examples/search)", 2)
    if "-h" in words or "--help" in words:
        return run([sys.executable, "-B", folder, "--help"], check=False, echo=False)
    with building.exclusive():
        building.prepare(wanted_python, *testing.demo_groups())
        _package_lists()
        building.build("release", "python_package")
    return run([pythons.python(), folder, *words], cwd=Path.cwd(), env=testing.demo_environment(), check=False, echo=False)


def _package_lists() -> None:
    """Fetch the package lists once on an image that has none; without them the demo reads the dpkg status file."""
    asked = pythons.VENV / "asked-for-package-lists"
    prefix = system.root_prefix()
    if asked.exists() or prefix is None or shutil.which("apt-get") is None or not system.lists_are_empty():
        return
    say("fetching the package lists that the demo reads")
    run([*prefix, "apt-get", "-q", "update"], check=False)
    asked.touch()


def _docs(options: argparse.Namespace) -> None:
    with building.exclusive():
        building.prepare(options.python)
        building.build("release")
    check = ["--check"] if options.check else []
    run([pythons.python(), "-B", ROOT / "tools" / "write_reference.py", *check], env=pythons.environment())
    run([pythons.python(), "-B", ROOT / "tools" / "write_rows.py", *check], env=pythons.environment())
    run([pythons.python(), "-B", ROOT / "tools" / "check_docs.py"], env=pythons.environment())


def _soak(options: argparse.Namespace) -> int:
    """Spend half of the time on seeded worlds of the engine, then repeat the suites that fork and kill."""
    with building.exclusive():
        building.prepare(options.python, "test")
        building.build("release")
    end = time.monotonic() + options.minutes * 60
    testing.worlds(options.seed, seconds=options.minutes * 30 * min(2, building.jobs()))
    rounds = 0
    while time.monotonic() < end:
        rounds += 1
        say(f"soak: round {rounds} of the suites that fork and kill")
        testing.ctest("release", only="fault|kill|integration|process_test|worker_test|chip_test")
    say(f"soak: {rounds} rounds without a failure")
    return 0


def _shell(options: argparse.Namespace) -> int:
    """Become a shell, or the command: it needs what the demo needs, and standard output is for the command alone."""
    with output_to_stderr(), building.exclusive():
        building.prepare(options.python, *testing.demo_groups())
        building.build("release", "python_package", only_if_due=True)
    command = options.command or [os.environ.get("SHELL", "/bin/sh")]
    os.execvpe(command[0], command, {**os.environ, **pythons.environment()})


def _remove(*paths: Path) -> None:
    for path in paths:
        if path.is_dir():
            say(f"removing {path.relative_to(ROOT)}/")
            shutil.rmtree(path)
        elif path.exists():
            say(f"removing {path.relative_to(ROOT)}")
            path.unlink()
