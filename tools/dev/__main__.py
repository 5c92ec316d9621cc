"""./dev: one script for everything that is done with this checkout. See `./dev --help`."""

from __future__ import annotations

import argparse
import os
import signal
import sys

import verbs
from console import Failure, adopt_orphans


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./dev",
        description="Build, test, try and measure simpler. Each verb sets up what it needs first: system packages, a virtual "
        "environment in .venv, a build tree per preset under build/. A second start does no work twice and needs no network.",
        epilog="exit status: 0 done, 1 something failed, 2 this machine lacks something or the command line is wrong",
    )
    parsers = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    def verb(name: str, text: str, **options: object) -> argparse.ArgumentParser:
        made = parsers.add_parser(name, help=text, description=text, **options)  # type: ignore[arg-type]
        made.add_argument("--python", metavar="PYTHON", help="make the virtual environment from this Python (3.10 or newer)")
        return made

    verb(
        "demo",
        "semantic search over this machine's packages; options after the verb go to the demo (demo --help)",
        add_help=False,
    )
    test = verb("test", "build the release tree and run every suite")
    test.add_argument("--only", metavar="PATTERN", help="run the tests whose name this regular expression matches")
    test.add_argument("--all", action="store_true", help="then seeded worlds, the sanitizers (ASan+UBSan, TSan) and lint")
    test.add_argument("--sanitizers", action="store_true", help="only the sanitizers")
    build = verb("build", "build one tree; without --preset the release tree and the Python extension")
    build.add_argument("--preset", default="release", help="a preset of CMakePresets.json: release, debug, asan, tsan, clang")
    build.add_argument("targets", nargs="*", metavar="TARGET", help="targets of that tree; none means all")
    bench = verb("bench", "run the benchmarks beside their yardsticks")
    bench.add_argument("--only", metavar="PATTERN", help="run the entries whose name matches")
    bench.add_argument("--json", metavar="FILE", help="write the results as a list of objects")
    bench.add_argument("--check", action="store_true", help="exit 1 when a median misses its target by more than 1.5 times")
    lint = verb("lint", "format, layers, sizes, docs, clang analyses, ruff, mypy: zero findings")
    lint.add_argument("--fix", action="store_true", help="let the formatters rewrite files first")
    docs = verb("docs", "write docs/reference from the shipped signatures and check the pages")
    docs.add_argument("--check", action="store_true", help="write nothing; fail when a generated page is out of date")
    soak = verb("soak", "run seeded worlds and fork-and-kill cycles for a long time")
    soak.add_argument("--minutes", type=float, default=10.0, help="how long (default 10)")
    soak.add_argument("--seed", type=int, default=1, help="the first seed (default 1); a failing seed is printed and replays")
    verb("clean", "remove build/ and caches; keeps .venv")
    shell = verb(
        "shell", "start a shell (or a command) in which the package is on the path; what it builds first goes to standard error"
    )
    shell.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="run this instead of $SHELL")
    verb("uninstall", "remove everything ./dev made in this checkout: build/, .venv, caches")
    return parser


def main(words: list[str]) -> int:
    parser = _parser()
    options, rest = parser.parse_known_args(words)
    if rest and options.verb != "demo":
        parser.error(f"{options.verb} does not take {' '.join(rest)}")
    adopt_orphans()
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # Started in the background by a shell: what we start is to be interruptible all the same.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return verbs.run_verb(options, rest)
    except Failure as failure:
        print(f"dev: {failure}", file=sys.stderr, flush=True)
        return failure.code
    except KeyboardInterrupt:
        print("dev: interrupted", file=sys.stderr, flush=True)
        return 130


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(status) if status == 130 else sys.exit(status)
