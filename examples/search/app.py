"""The command line of the demo: read, plan, embed, search, report, check.

Every mistake that a person can put right ends as one line on stderr and status 1; Ctrl-C as status 130. The runtime is
imported late, so that such a line comes at once.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from . import corpus as corpus_module
from .corpus import Corpus
from .errors import DemoError
from .plan import LengthEstimator, Plan, make_plan

if TYPE_CHECKING:
    from .model import Array, Model
    from .pipeline import Embedding

QUERIES = (
    "rip music from a compact disc",
    "edit photos and pictures",
    "play chess against the computer",
    "download mail from a server",
    "solve systems of linear equations",
)
TOP = 5
PLATFORMS = ("a2a3sim", "a5sim", "tiny")
MAX_RUNTIME_SHARE = 0.05
MIN_OVERLAP = 0.8


def parser() -> argparse.ArgumentParser:
    make = argparse.ArgumentParser(
        prog="search", description="Semantic search over this machine's package descriptions, on simulated chips."
    )
    make.add_argument("demo", nargs="?", choices=["search"], help="the demo to run; this is the only one")
    make.add_argument(
        "--count",
        default=str(corpus_module.DEFAULT_COUNT),
        metavar="N|all",
        help="how many descriptions (default: %(default)s)",
    )
    make.add_argument("--source", type=Path, metavar="FILE", help="a text file with one item a line, instead of packages")
    make.add_argument("--chips", type=int, default=2, metavar="N", help="simulated chips (default: %(default)s)")
    make.add_argument("--platform", choices=PLATFORMS, default="a2a3sim", help="kind of chip (default: %(default)s)")
    make.add_argument("--query", action="append", metavar="TEXT", help="what to look for; may be given several times")
    make.add_argument("--trace", type=Path, metavar="FILE", help="write a Chrome trace, to be opened in ui.perfetto.dev")
    make.add_argument("--check", action="store_true", help="compare every vector and every result with a numpy encoder")
    return make


def main(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    try:
        return run(options)
    except DemoError as error:
        print(f"search: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("search: stopped", file=sys.stderr)
        return 130


def run(options: argparse.Namespace) -> int:
    count = corpus_module.parse_count(options.count)
    if not 1 <= options.chips <= 64:
        raise DemoError(f"--chips {options.chips}: give a number from 1 to 64")
    if options.trace is not None and not options.trace.absolute().parent.is_dir():
        raise DemoError(f"--trace {options.trace}: the folder {options.trace.absolute().parent} does not exist")
    require_packages("numpy", "safetensors", "tokenizers")
    queries = list(options.query or QUERIES)
    if any(not query.strip() for query in queries):
        raise DemoError("--query '': nothing to look for")
    from . import model as model_module

    found = corpus_module.load(count, options.source)
    print(f"Searching {found.origin}.", flush=True)
    model = model_module.load()
    texts = [item.text for item in found.items] + queries
    estimator = LengthEstimator(model.files.vocabulary, model.config.max_tokens)
    lengths = [estimator.tokens(text) for text in texts]
    split = len(found.items)
    limits = {"chips": options.chips, "max_tokens": model.config.max_tokens}
    plan = make_plan(lengths[:split], **limits)
    query_plan = make_plan(lengths[split:], first_text=split, **limits)

    embedded, query_vectors = embed_all(options, model, texts, plan, query_plan)
    answers = show_answers(found, plan, embedded.vectors, queries, query_vectors)
    if not options.check:
        return 0
    return check(model, texts, plan, query_plan, embedded.vectors, query_vectors, answers)


def require_packages(*names: str) -> None:
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise DemoError(f"missing Python packages; install them with: {sys.executable} -m pip install {' '.join(missing)}")


def embed_all(
    options: argparse.Namespace, model: Model, texts: list[str], plan: Plan, query_plan: Plan
) -> tuple[Embedding, Array]:
    """Descriptions, then queries, on one worker; prints progress and the summary."""
    if importlib.util.find_spec("simpler") is None:
        raise DemoError("the package simpler is not installed here; ./dev demo builds and uses it")
    from simpler import Error

    from .pipeline import Pipeline

    try:
        starting = time.perf_counter()
        pipeline = Pipeline(
            model, texts, (plan, query_plan), chips=options.chips, platform=options.platform, trace=options.trace
        )
        with pipeline:
            ready = time.perf_counter() - starting
            print(
                f"{options.chips} × {options.platform} hold {model.weights.nbytes / 2**20:.0f} MiB of weights each, "
                f"ready after {ready:.1f} s; {len(plan.batches)} batches.",
                flush=True,
            )
            progress = Progress()
            embedded = pipeline.embed(plan, progress)
            progress.end()
            query_vectors = pipeline.embed(query_plan).vectors
            host_pids, chip_pids = pipeline.pids("sub_worker"), pipeline.pids("chip")
            heap = pipeline.peak_heap_bytes
    except Error as error:
        raise DemoError(" ".join(str(error).split())) from error
    show_summary(plan, embedded, heap)
    if options.trace is not None:
        show_overlap(options.trace, host_pids, chip_pids, len(plan.batches))
    back = sorted(range(query_plan.count), key=lambda place: query_plan.order[place])
    return embedded, query_vectors[back]


class Progress:
    """One line that is rewritten on a terminal, a line per quarter elsewhere."""

    def __init__(self) -> None:
        self._terminal = sys.stdout.isatty()
        self._shown = -1
        self._open = False

    def __call__(self, done: int, of: int) -> None:
        step = 100 * done // of if self._terminal else 4 * done // of
        if step <= self._shown:
            return
        self._shown = step
        if self._terminal:
            width = 40 * done // of
            print(f"\r  [{'#' * width}{'.' * (40 - width)}] {done} of {of} batches", end="", flush=True)
            self._open = True
        elif done:
            print(f"  {done} of {of} batches", flush=True)

    def end(self) -> None:
        if self._open:
            print()


def show_summary(plan: Plan, embedded: Embedding, heap: int) -> None:
    rate = 1 / embedded.seconds
    print(
        f"{plan.count} descriptions, {embedded.tokens} tokens ({embedded.padded_tokens} with padding) "
        f"in {embedded.seconds:.2f} s: "
        f"{plan.count * rate:.0f} descriptions/s, {embedded.tokens * rate:.0f} tokens/s."
    )
    shares = [f"{each.name} {100 * each.busy * rate:.0f} %" for each in embedded.usage if each.name != "parent"]
    print(f"Busy: {', '.join(shares)}. Peak heap {heap / 2**20:.1f} MiB.")
    share = embedded.runtime_share
    verdict = "" if share <= MAX_RUNTIME_SHARE else f" (above the goal of {100 * MAX_RUNTIME_SHARE:.0f} %)"
    print(f"The runtime's share of all CPU time: {100 * share:.1f} %{verdict}.")


def show_overlap(trace: Path, host_pids: list[int], chip_pids: list[int], batches: int) -> None:
    from .timeline import overlapped_share, spans_of

    # The queries' batches come last.
    tokenised = spans_of(trace, host_pids, "tokenise")[:batches]
    share = overlapped_share(tokenised, spans_of(trace, chip_pids))
    verdict = "" if share >= MIN_OVERLAP else f" (below the goal of {100 * MIN_OVERLAP:.0f} %)"
    print(
        f"Trace: {trace} (open it in ui.perfetto.dev); "
        f"{100 * share:.0f} % of the middle batches were tokenised while a chip computed{verdict}."
    )


Answer = list[tuple[int, float]]


def show_answers(found: Corpus, plan: Plan, vectors: Array, queries: list[str], query_vectors: Array) -> list[Answer]:
    from .reference import rank

    answers = [rank(vectors, vector, TOP) for vector in query_vectors]
    for query, answer in zip(queries, answers, strict=True):
        print(f"\n{query}")
        for place, score in answer:
            item = found.items[plan.order[place]]
            print(f"  {score:.3f}  {item.name}: {item.summary}" if item.name != item.summary else f"  {score:.3f}  {item.name}")
    return answers


def check(
    model: Model,
    texts: list[str],
    plan: Plan,
    query_plan: Plan,
    vectors: Array,
    query_vectors: Array,
    answers: list[Answer],
) -> int:
    """0 if numpy agrees with every vector and every list of results."""
    from .reference import MIN_COSINE, compare, same_top

    print("\nChecking against numpy …", flush=True)
    want = reference_vectors(model, texts, plan)
    want_queries = reference_vectors(model, texts, query_plan)
    back = sorted(range(query_plan.count), key=lambda place: query_plan.order[place])
    worst = compare(vectors, want)
    worst_query = compare(query_vectors, want_queries[back])
    same = [same_top(answer, want, want_queries[place]) for answer, place in zip(answers, back, strict=True)]
    ok = worst.holds and worst_query.holds and all(same)
    low = min(worst.worst_cosine, worst_query.worst_cosine)
    print(
        f"{'Passed' if ok else 'FAILED'}: worst cosine {low:.7f} over {worst.count + worst_query.count} vectors "
        f"(at least {MIN_COSINE} is needed), {sum(same)} of {len(same)} result lists equal."
    )
    if not worst.holds:
        print(f"  worst description: {texts[plan.order[worst.worst_place]]!r}")
    return 0 if ok else 1


def reference_vectors(model: Model, texts: list[str], plan: Plan) -> Array:
    """The plan's vectors from the numpy encoder, in the same batches."""
    import numpy as np

    from .reference import Encoder
    from .tokens import Tokenizer

    tokenizer, encoder = Tokenizer(model.files.tokenizer, model.config.max_tokens), Encoder(model)
    parts = []
    for batch in plan.batches:
        parts.append(encoder.encode(*tokenizer.encode([texts[row] for row in batch.rows])))
    return np.concatenate(parts)
