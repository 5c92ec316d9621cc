"""Embedding throughput of the runtime beside the numpy encoder, with as many threads; tokenising is done before both.

`main` takes the options of every benchmark program (`--only TEXT --json FILE --check`). The arms alternate
in every round and what is judged is the median of the ratios. Before anything is measured the vectors are compared, so
a fast wrong answer is no result.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

NAME = "demo/embedding"
TARGET = 1.5
SLACK = 1.5  # of --check
COUNT = 160
THREADS = len(os.sched_getaffinity(0))


def main(argv: Sequence[str] | None = None) -> int:
    make = argparse.ArgumentParser(prog="bench_demo", description=__doc__)
    make.add_argument("--only", default="", help="run when the name of the entry contains this text")
    make.add_argument("--json", type=Path, help="write the entry into this file")
    make.add_argument("--check", action="store_true", help="exit with 1 when the target is missed by more than 1.5 times")
    make.add_argument("--rounds", type=int, default=5)
    make.add_argument("--count", type=int, default=COUNT, help="how many descriptions (default: %(default)s)")
    make.add_argument("--chips", type=int, default=2)
    make.add_argument("--platform", default="a2a3sim")
    options = make.parse_args(argv)
    if options.only not in NAME:
        return 0
    # numpy's linear algebra reads these when it is loaded: all CPUs, and its own choice for this processor.
    os.environ["OPENBLAS_NUM_THREADS"] = str(THREADS)
    for forced in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        os.environ.pop(forced, None)
    entry = measure(options)
    print(
        f"{entry['name']}: {entry['value']:.0f} {entry['unit']}, {entry['yardstick']} {entry['yardstick_value']:.0f}, "
        f"ratio {entry['ratio']:.2f} (target at least {TARGET}, {'holds' if entry['holds'] else 'missed'})"
    )
    if options.json:
        options.json.write_text(json.dumps([entry], indent=2) + "\n")
    return 1 if options.check and float(entry["ratio"]) * SLACK < TARGET else 0


def measure(options: argparse.Namespace) -> dict[str, str | float | bool]:
    import numpy as np

    from . import model as model_module
    from .pipeline import Pipeline
    from .plan import LengthEstimator, make_plan
    from .reference import Encoder, compare
    from .tokens import Tokenizer

    model = model_module.load()
    texts = descriptions(options.count)
    estimator = LengthEstimator(model.files.vocabulary, model.config.max_tokens)
    lengths = [estimator.tokens(text) for text in texts]
    plan = make_plan(lengths, chips=options.chips, max_tokens=model.config.max_tokens)
    tokenizer, encoder = Tokenizer(model.files.tokenizer, model.config.max_tokens), Encoder(model)
    batches = [tokenizer.encode([texts[row] for row in batch.rows]) for batch in plan.batches]
    tokens = sum(int(held.sum()) for _, held in batches)

    with Pipeline(model, texts, (plan,), chips=options.chips, platform=options.platform) as pipeline:
        encode = pipeline.encode_only(plan, batches)
        ours = encode().copy()
        theirs = np.concatenate([encoder.encode(*batch) for batch in batches])
        difference = compare(ours, theirs)
        if not difference.holds:
            raise SystemExit(f"{NAME}: wrong vectors, worst cosine {difference.worst_cosine:.6f}; nothing was measured")
        runtime, numpy_times = interleaved(
            options.rounds, lambda: encode(), lambda: [encoder.encode(*batch) for batch in batches]
        )
    ratios = [slow / fast for fast, slow in zip(runtime, numpy_times, strict=True)]
    ratio = statistics.median(ratios)
    return {
        "name": NAME,
        "value": tokens / statistics.median(runtime),
        "unit": "tokens/s",
        "yardstick": f"numpy with {THREADS} threads",
        "yardstick_value": tokens / statistics.median(numpy_times),
        "ratio": ratio,
        "target": TARGET,
        "holds": ratio >= TARGET,
        "rounds": options.rounds,
        "spread": (max(ratios) - min(ratios)) / ratio,
    }


def descriptions(count: int) -> list[str]:
    """Whole descriptions where there are any: of the installed packages, else of the package lists."""
    from . import corpus

    whole = corpus.DPKG_STATUS.is_file()
    found = corpus.from_status(corpus.DPKG_STATUS, count) if whole else corpus.load(count)
    return [item.text for item in found.items]


def interleaved(rounds: int, first: Callable[[], object], second: Callable[[], object]) -> tuple[list[float], list[float]]:
    """Seconds of each arm per round; the arm that starts changes from round to round."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        arms = [(first, times[0]), (second, times[1])]
        for arm, kept in arms if number % 2 == 0 else reversed(arms):
            began = time.perf_counter()
            arm()
            kept.append(time.perf_counter() - began)
    return times
