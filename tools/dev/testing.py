"""The verb `test`: the release suites, and with --all seeded worlds, the sanitizers and lint.

A part whose folder is not in the checkout has nothing to run; every part that is there must pass. The runners' closing
lines are kept and printed again at the end.
"""

from __future__ import annotations

import platform
import time
from pathlib import Path

import building
import linting
import pythons
from console import REPORTS, ROOT, Failure, output_of, run, say, stray_processes

# Processor time that `test --all` spends on seeded worlds, and seeds that one day has for itself: more than it can run.
WORLD_SECONDS = 90
SEEDS_OF_A_DAY = 10_000_000

# Leaks count as failures; a sanitizer report ends the program, so that a test cannot pass by ignoring it.
SANITIZER_ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


def test(only: str | None, everything: bool, wanted_python: str | None) -> None:
    """Build and run the release suites; with `everything`, worlds, the sanitizers and lint after them."""
    for old in REPORTS.glob("*.txt"):
        old.unlink()
    with building.exclusive():
        building.prepare(wanted_python, "test", *demo_groups())
        building.build("release")
        matched = ctest("release", only=only)
        matched |= _pytest(only)
        if only is not None and not matched:
            raise Failure(f"--only {only}: no test matches")
        if only is None:
            _demo_check()
        _no_strays("test")
        if everything:
            if only is None and worlds_program() is not None:
                worlds(seed_of_today(), WORLD_SECONDS)
            sanitizers(only)
    if everything:
        linting.lint(wanted_python, fix=False)
    closing_lines()


def sanitizers(only: str | None = None) -> None:
    """Run every ctest suite under ASan and UBSan, and the suites on threads under TSan."""
    building.build("asan")
    ctest("asan", only=only)
    building.build("tsan", "thread_suites")
    ctest("tsan", only=only, label="threads")
    _no_strays("sanitizers")


def worlds_program() -> Path | None:
    """Return the program that runs seeded worlds of the engine, or None when the checkout lacks it."""
    program = building.tree("release") / "tests" / "simulation" / "simulation_worlds"
    return program if program.exists() else None


def worlds(first: int, seconds: float) -> None:
    """Spend `seconds` of processor time on worlds from seed `first` on. Raises Failure when one breaks a rule."""
    program = worlds_program()
    if program is None:
        raise Failure("simulation_worlds is not built in this checkout", 2)
    jobs = min(2, building.jobs())
    say(f"{seconds:g} s of worlds from seed {first}; a failing seed is printed with the command that replays it")
    seeds = ["--first", str(first), "--seeds", str(10**12)]
    run([program, *seeds, "--jobs", str(jobs), "--seconds", f"{seconds / jobs:g}"], report="worlds.txt")


def seed_of_today() -> int:
    """Return a first seed that differs from day to day, so that each day's runs see worlds that none has seen."""
    return int(time.time() // 86400) * SEEDS_OF_A_DAY


def demo_groups() -> tuple[str, ...]:
    """Return the requirement groups that the demo needs, when it is in the checkout."""
    return ("demo", "model") if demo_package() is not None else ()


def demo_package() -> Path | None:
    """Return the folder of the demo, or None when the checkout lacks it or the bindings that it needs."""
    folder = ROOT / "examples" / "search"
    return folder if (folder / "__main__.py").exists() and has_bindings() else None


def has_bindings() -> bool:
    """Return whether the checkout has the Python extension."""
    return (ROOT / "python" / "bindings" / "module.cpp").exists()


def closing_lines() -> None:
    """Print again how each runner closed, oldest first."""
    say("the runners closed with:")
    for report in sorted(REPORTS.glob("*.txt"), key=lambda path: path.stat().st_mtime):
        for line in _closing(report.read_text(errors="replace")):
            print(f"{line}", flush=True)


def _closing(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if "tests passed," in line or "tests failed out of" in line]
    if not lines:
        lines = [line for line in text.splitlines() if " worlds from seed " in line and line.endswith(" bad")]
    if not lines:
        lines = [line for line in text.splitlines() if line.startswith("=") and (" passed" in line or " failed" in line)]
    return lines[-1:]


def ctest(preset: str, *, only: str | None, label: str | None = None) -> bool:
    """Run the suites of a tree; returns whether any test matched. Raises Failure when one fails."""
    cmake = Path(pythons.tool("cmake", (3, 25)))
    command: list[str | Path] = [
        cmake.with_name("ctest"),
        "--test-dir",
        building.tree(preset),
        "--output-on-failure",
        "-j",
        str(building.jobs()),
    ]
    if label is not None:
        command += ["-L", label]
    if preset == "tsan":
        command += ["-E", "MailboxInChild"]  # the thread sanitizer ends children of a fork that start threads
    if only is not None:
        command += ["-R", only]
        listed = output_of([*command, "-N"]) or ""
        if "Total Tests: 0" in listed:
            return False
    prefix = _fixed_layout() if preset == "tsan" else []
    say(f"running the suites of build/{preset}")
    environment = {**pythons.environment(), **(SANITIZER_ENVIRONMENT if preset in ("asan", "tsan") else {})}
    run([*prefix, *command, "--no-tests=error"], env=environment, report=f"ctest-{preset}.txt")
    return True


def _fixed_layout() -> list[str]:
    """Return the words that turn address randomisation off where that is allowed: TSan dies under a wide one."""
    words = ["setarch", platform.machine(), "-R"]
    return words if output_of([*words, "true"]) is not None else []


def _pytest(only: str | None) -> bool:
    """Run Python tests, doctests and examples; returns whether any test matched. Raises Failure when one fails."""
    if not has_bindings():
        say("the Python bindings are not in this checkout: no Python suites to run")
        return False
    # Doctests are looked for in the package only: an example that pytest imports would run while it is collected.
    places: list[str | Path] = [ROOT / place for place in ("python/tests", "python/simpler") if (ROOT / place).is_dir()]
    places += sorted((ROOT / "examples").rglob("test_*.py"))
    command: list[str | Path] = [pythons.python(), "-m", "pytest", "--doctest-modules", *places]
    if only is not None:
        command += ["-p", "only_matching", "--only-matching", only]
    environment = {**pythons.environment(), "PYTHONPATH": str(ROOT / "tools" / "dev")}
    status = run(command, env=environment, report="pytest.txt", check=False)
    if only is not None and status == 5:
        return False
    if status != 0:
        raise Failure(f"pytest failed with status {status}")
    return True


def _demo_check() -> None:
    if demo_package() is not None:
        say("the demo's check at 200 items")
        run([pythons.python(), ROOT / "examples" / "search", "--check", "--count", "200"], env=demo_environment())


def demo_environment() -> dict[str, str]:
    """Return the variables that the demo runs with: the model is never looked for in a hub."""
    return {**pythons.environment(), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def _no_strays(what: str) -> None:
    strays = stray_processes()
    if strays:
        raise Failure(f"{what}: left running (ended now): {', '.join(strays)}")
