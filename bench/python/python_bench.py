"""What Python adds: a submit, a run of one task, and a hop to a Python child, each beside its yardstick in one run.

The arms alternate, a round is the median of its batches, and what is judged is the median of the rounds' ratios. The
exchange between two processors (PPF) is measured by a small program that is compiled from bench/yardsticks.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import simpler
from simpler import MappedArgs, Orchestrator, TaskArgs

BENCH = Path(__file__).resolve().parents[1]
SLACK = 1.5  # of --check
BATCHES = 9  # of one arm in one round
TASKS = 512  # of one graph

EXCHANGE = r"""
#include <cstdio>
#include "yardsticks/exchange.h"
int main() {
  simpler::bench::ExchangeYardstick exchange;
  char line[8];
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    std::printf("%f\n", exchange.ppf(1000));
    std::fflush(stdout);
  }
}
"""

Arm = Callable[[], float]  # ns for one unit


@dataclass(frozen=True)
class Entry:
    """One subject with its yardstick; `allowed` says how much the subject may cost, from the yardstick's arms."""

    name: str
    yardstick: str
    target: float
    subject: Arm
    arms: tuple[Arm, ...]
    combine: Callable[[Sequence[float]], float]


class Exchange:
    """The program that measures PPF; one line in, one figure out."""

    def __init__(self, folder: Path) -> None:
        source, program = folder / "exchange.cpp", folder / "exchange"
        source.write_text(EXCHANGE)
        compiler = os.environ.get("CXX", "c++").split()
        subprocess.run([*compiler, "-O2", "-std=c++20", f"-I{BENCH}", source, "-o", program, "-pthread"], check=True)
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.communicate()

    def ppf(self) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


def nothing(args: MappedArgs | None) -> None:
    """Do nothing: the body of every task that is measured."""


def add_one(args: MappedArgs) -> None:
    """Count the calls in the first argument."""
    args[0].buffer.cast("Q")[0] += 1


class Subject:
    """A worker with one Python child, and the arms that are measured on it."""

    def __init__(self) -> None:
        self.worker = simpler.Worker(level=3, num_sub_workers=1)
        self.nothing = self.worker.register(nothing)
        self.counting = self.worker.register(add_one)
        self.opening, closed = socket.socketpair()

        def gate(args: MappedArgs) -> None:
            closed.recv(1)

        self.gate = self.worker.register(gate)
        self.worker.init()
        buffers = [self.worker.create_buffer(4096) for _ in range(2)]
        self.counter = buffers[0]
        self.two = TaskArgs()
        self.two.add_tensor(buffers[0].tensor((64,), "FLOAT32"), "INOUT")
        self.two.add_tensor(buffers[1].tensor((64,), "FLOAT32"), "INPUT")
        self.none = TaskArgs()

    def check(self) -> None:
        """Raise unless every submitted task runs once."""
        args = TaskArgs()
        args.add_tensor(self.counter.tensor((1,), "UINT64"), "INOUT")
        before = int.from_bytes(bytes(self.counter)[:8], "little")

        def graph(orch: Orchestrator, given: TaskArgs | None, config: object) -> None:
            for _ in range(TASKS):
                orch.submit_sub(self.counting, args)

        self.worker.run(graph)
        after = int.from_bytes(bytes(self.counter)[:8], "little")
        if after - before != TASKS:
            raise SystemExit(f"{TASKS} tasks were submitted, {after - before} ran; nothing was measured")

    def submit(self) -> float:
        spent = 0

        def graph(orch: Orchestrator, given: TaskArgs | None, config: object) -> None:
            nonlocal spent
            submit, handle, args, repeat = orch.submit_sub, self.nothing, self.two, range(TASKS)
            submit(self.gate)  # the child sleeps in it, so that nothing but the submits is measured
            begin = time.perf_counter_ns()
            for _ in repeat:
                submit(handle, args)
            spent = time.perf_counter_ns() - begin
            self.opening.send(b"x")

        self.worker.run(graph)
        return spent / TASKS

    def hop(self) -> float:
        def graph(orch: Orchestrator, given: TaskArgs | None, config: object) -> None:
            submit, handle, args = orch.submit_sub, self.nothing, self.none
            for _ in range(TASKS):
                submit(handle, args)

        begin = time.perf_counter_ns()
        self.worker.run(graph)
        return (time.perf_counter_ns() - begin) / TASKS

    def run_of_one(self) -> float:
        def graph(orch: Orchestrator, given: TaskArgs | None, config: object) -> None:
            orch.submit_sub(self.nothing, self.none)

        begin = time.perf_counter_ns()
        for _ in range(64):
            self.worker.run(graph)
        return (time.perf_counter_ns() - begin) / 64

    def binding_call(self) -> float:
        call, repeat = self.two.tensor_count, range(TASKS)
        begin = time.perf_counter_ns()
        for _ in repeat:
            call()
        return (time.perf_counter_ns() - begin) / TASKS

    @staticmethod
    def python_call() -> float:
        call, repeat = nothing, range(TASKS)
        begin = time.perf_counter_ns()
        for _ in repeat:
            call(None)
        return (time.perf_counter_ns() - begin) / TASKS


class Pipes:
    """A forked process that answers one byte with one byte: the cheapest way to ask a Python child for something."""

    def __init__(self) -> None:
        near_read, far_write = os.pipe()
        far_read, near_write = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(near_read)
            os.close(near_write)
            while byte := os.read(far_read, 1):
                os.write(far_write, byte)
            os._exit(0)
        os.close(far_read)
        os.close(far_write)
        self._read, self._write = near_read, near_write

    def round_trip(self) -> float:
        begin = time.perf_counter_ns()
        for _ in range(64):
            os.write(self._write, b"x")
            os.read(self._read, 1)
        return (time.perf_counter_ns() - begin) / 64

    def close(self) -> None:
        os.close(self._write)
        os.close(self._read)
        os.waitpid(self._pid, 0)


def measure(entry: Entry, rounds: int) -> dict[str, str | float | bool]:
    """Alternate the arms, and return the record of the entry."""
    subjects, yardsticks, ratios = [], [], []
    for _ in range(rounds):
        batches = [[entry.subject(), *(arm() for arm in entry.arms)] for _ in range(BATCHES)]
        subject, *arms = (statistics.median(column) for column in zip(*batches, strict=True))
        subjects.append(subject)
        yardsticks.append(entry.combine(arms))
        ratios.append(subjects[-1] / yardsticks[-1])
    ratio = statistics.median(ratios)
    return {
        "name": entry.name,
        "value": statistics.median(subjects),
        "unit": "ns",
        "yardstick": entry.yardstick,
        "yardstick_value": statistics.median(yardsticks),
        "ratio": ratio,
        "target": entry.target,
        "holds": ratio <= entry.target,
        "rounds": rounds,
        "spread": (max(ratios) - min(ratios)) / ratio,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what was asked for, and return the exit status."""
    make = argparse.ArgumentParser(prog="python_bench", description=__doc__)
    make.add_argument("--only", default="", help="run the entries whose name contains this text")
    make.add_argument("--json", type=Path, help="write the entries into this file")
    make.add_argument("--check", action="store_true", help="exit with 1 when a target is missed by more than 1.5 times")
    make.add_argument("--rounds", type=int, default=5)
    options = make.parse_args(argv)
    names = ("python/submit", "python/run", "python/sub_hop")
    if not any(options.only in name for name in names):
        return 0
    pipes = Pipes()
    with tempfile.TemporaryDirectory() as folder, Exchange(Path(folder)) as exchange:
        subject = Subject()
        subject.check()
        entries = [
            Entry("python/submit", "empty binding call", 12, subject.submit, (subject.binding_call,), lambda arms: arms[0]),
            Entry("python/run", "round trip over pipes", 2, subject.run_of_one, (pipes.round_trip,), lambda arms: arms[0]),
            Entry(
                "python/sub_hop",
                "PPF + 20 empty Python calls",
                1,
                subject.hop,
                (exchange.ppf, subject.python_call),
                lambda arms: arms[0] + 20 * arms[1],
            ),
        ]
        results = [measure(entry, options.rounds) for entry in entries if options.only in entry.name]
        subject.worker.close()
    pipes.close()
    for result in results:
        print(
            f"{result['name']}: {result['value']:.0f} ns, {result['yardstick']} {result['yardstick_value']:.0f} ns, "
            f"ratio {result['ratio']:.2f} (target at most {result['target']}, {'holds' if result['holds'] else 'missed'})"
        )
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    return int(options.check and any(float(each["ratio"]) > SLACK * float(each["target"]) for each in results))


if __name__ == "__main__":
    sys.exit(main())
