"""The verb `bench`: run every benchmark program, one after the other, and merge what they measured.

A program is an executable made by simpler_bench or a script bench/python/*_bench.py. Each takes --only, --json and
--check, runs its own checks first, and measures its subject beside its yardsticks in one run.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import building
import pythons
import system
import testing
from console import REPORTS, ROOT, Failure, run, say


def bench(options: argparse.Namespace) -> int:
    """Build and run the benchmarks; returns 1 when one of them failed or, with --check, missed its target widely."""
    with building.exclusive():
        building.prepare(options.python, "test", *testing.demo_groups())
        system.ensure(system.BENCH_NEEDS, "to measure")
        system.ensure_if_possible(system.PEER_NEEDS, "to measure beside its peers")
        # Peers that come or go are a reason to configure again.
        peers = ",".join(need.package for need in system.PEER_NEEDS if need.is_met()) or "none"
        tree = building.build("release", options=("-DSIMPLER_BENCHMARKS=ON", f"-DSIMPLER_PEERS={peers}"))
    programs = _programs(tree)
    if not programs:
        raise Failure("this checkout has no benchmark programs", 2)
    kept = REPORTS / "bench"
    kept.mkdir(parents=True, exist_ok=True)
    failed = []
    results: list[object] = []
    for program in programs:
        found = kept / f"{program.stem}.json"
        found.unlink(missing_ok=True)
        words: list[str | Path] = [pythons.python(), program] if program.suffix == ".py" else [program]
        words += ["--json", found]
        words += ["--only", options.only] if options.only else []
        words += ["--check"] if options.check else []
        if run(words, env=testing.demo_environment(), check=False) != 0:
            failed.append(program.stem)
        if found.exists():
            results += json.loads(found.read_text())
    if options.json:
        _publish(Path.cwd() / options.json, json.dumps(results, indent=2) + "\n")
    if not results and options.only:
        raise Failure(f"--only {options.only}: no benchmark matches")
    missed = [entry["name"] for entry in results if isinstance(entry, dict) and entry.get("holds") is False]
    say(f"bench: {len(results)} entries, {len(missed)} miss their target" + (f": {', '.join(missed)}" if missed else ""))
    if failed:
        raise Failure(f"bench: failed: {', '.join(failed)}")
    return 0


def _programs(tree: Path) -> list[Path]:
    built = [path for path in (tree / "benchmarks").glob("*") if path.is_file() and os.access(path, os.X_OK)]
    return sorted(built) + sorted((ROOT / "bench" / "python").glob("*_bench.py"))


def _publish(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text)
    os.replace(fresh, path)
