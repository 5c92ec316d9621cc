"""The demo as a task graph: tokenise on host workers, encode on chips, gather on host workers.

For every batch the graph function allocates ids, lengths and vectors in a scope of its own and submits three tasks on
them; who waits for whom is inferred from the tensors. The heap is small on purpose: when it is full, building the
graph waits for a batch to finish, so memory does not grow with the number of texts. The weights are staged once per
chip. This is the only module of the demo that talks to the runtime.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

from simpler import Buffer, DataType, MappedArg, MappedArgs, Orchestrator, TaskArgs, Tensor, TensorArgType, Worker

from .chip import build_encoder
from .model import Array, Ints, Model
from .plan import BATCH_TEXTS, Batch, Plan
from .tokens import Tokenizer

HOST_WORKERS = 2
MEBIBYTE = 1 << 20
BATCHES_IN_FLIGHT = 12  # of the largest size; smaller ones leave room for more


@dataclass(frozen=True)
class Usage:
    """What one process did during a run, in seconds."""

    name: str
    pid: int
    tasks: int
    busy: float  # wall time inside callables and chip runs
    user_cpu: float  # CPU time inside kernels and user callables
    cpu: float  # CPU time of the process


@dataclass(frozen=True)
class Embedding:
    """Vectors in the plan's order of places, and what they cost."""

    vectors: Array
    tokens: int
    padded_tokens: int
    seconds: float
    usage: tuple[Usage, ...]

    @property
    def runtime_share(self) -> float:
        """CPU time of the tree outside kernels and user callables, as a part of the whole; 0 where none was used."""
        cpu = sum(each.cpu for each in self.usage)
        return (cpu - sum(each.user_cpu for each in self.usage)) / cpu if cpu else 0.0


def array(arg: MappedArg, dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
    """The argument's memory as a numpy array of its shape; nothing is copied."""
    return np.frombuffer(arg.buffer, dtype, int(np.prod(arg.shapes))).reshape(arg.shapes)


class Ledger:
    """What the host workers note per batch: a record of the tokeniser and one of the gatherer, each a cache line."""

    WORDS = 8
    TOKENS, PADDED, DONE = range(3)
    TOKENISED, GATHERED = range(2)

    def __init__(self, worker: Worker, batches: int) -> None:
        self._batches = batches
        self.buffer = worker.create_buffer(2 * batches * self.WORDS * 8)
        self.records = np.frombuffer(self.buffer, np.int64).reshape(2, batches, self.WORDS)
        self.records[...] = 0

    def record(self, kind: int, batch: int) -> Tensor:
        at = (kind * self._batches + batch) * self.WORDS * 8
        return self.buffer.tensor((self.WORDS,), DataType.INT64, byte_offset=at)

    def gathered(self) -> int:
        return int(self.records[self.GATHERED, :, self.DONE].sum())

    def total(self, word: int) -> int:
        return int(self.records[self.TOKENISED, :, word].sum())

    def release(self, worker: Worker) -> None:
        self.records = np.empty((0, 0, 0), np.int64)
        worker.release_buffer(self.buffer)


class HostTasks:
    """What the Python workers run. Its texts and tokeniser reach them by the fork; the tokeniser loads there."""

    def __init__(self, texts: Sequence[str], tokenizer: Tokenizer, batches: list[Batch]) -> None:
        self._texts = texts
        self._tokenizer = tokenizer
        self._batches = batches

    def tokenise(self, args: MappedArgs) -> None:
        """(ids, lengths, record; index of the batch in the table of all batches)"""
        ids, lengths, record = array(args[0], np.int32), array(args[1], np.int32), array(args[2], np.int64)
        rows = self._batches[args.scalar(0)].rows
        width = self._tokenizer.encode_into([self._texts[row] for row in rows], ids, lengths)
        record[:2] = int(lengths.sum()), width * len(rows)
        record[Ledger.DONE] = 1

    @staticmethod
    def gather(args: MappedArgs) -> None:
        """(vectors, their place in the results, record)"""
        vectors, results, record = array(args[0], np.float32), array(args[1], np.float32), array(args[2], np.int64)
        results[...] = vectors
        record[Ledger.DONE] = 1


class Pipeline:
    """A worker with chips that hold the weights; embeds any plan over the texts it was made with.

    The plans are given beforehand because the Python workers are forked with them.
    """

    def __init__(
        self,
        model: Model,
        texts: Sequence[str],
        plans: Sequence[Plan],
        *,
        chips: int,
        platform: str,
        trace: Path | None = None,
    ) -> None:
        self._model = model
        self._texts = texts
        self._chips = chips
        self._blocks = max(1, (len(os.sched_getaffinity(0)) + chips - 1) // chips)
        self._first_batch = {id(plan): sum(len(p.batches) for p in plans[:i]) for i, plan in enumerate(plans)}
        self._batches = [batch for plan in plans for batch in plan.batches]
        hidden, longest = model.config.hidden, model.config.max_tokens
        batch_bytes = 4 * BATCH_TEXTS * (longest + 1 + hidden)
        self._worker = Worker(
            level=3,
            device_ids=list(range(chips)),
            num_sub_workers=HOST_WORKERS,
            platform=platform,
            runtime="host_build_graph",
            measure_user_time=True,
            heap_ring_size=-(-BATCHES_IN_FLIGHT * batch_bytes // MEBIBYTE) * MEBIBYTE,
            **({"trace_path": str(trace)} if trace else {}),
        )
        self._weights: list[list[Tensor]] = []

    def __enter__(self) -> Pipeline:
        tokenizer = Tokenizer(self._model.files.tokenizer, self._model.config.max_tokens)
        tasks = HostTasks(self._texts, tokenizer, self._batches)
        self._tokenise = self._worker.register(tasks.tokenise)
        self._gather = self._worker.register(tasks.gather)
        self._encode = self._worker.register(build_encoder(len(list(self._model.weights.named()))))
        try:
            self._worker.init()
            self._weights = self._stage_weights()
        except BaseException:
            self._worker.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._worker.close()

    @property
    def peak_heap_bytes(self) -> int:
        return self._worker.peak_heap_bytes()

    def pids(self, kind: str) -> list[int]:
        """Processes of the children whose name begins with `kind`."""
        return [each.pid for each in self._worker.statistics() if each.name.startswith(kind)]

    def embed(self, plan: Plan, progress: Callable[[int, int], None] = lambda done, of: None) -> Embedding:
        """Vectors of all texts of `plan`; `progress(batches done, batches)` is called on this thread now and then."""
        hidden = self._model.config.hidden
        results = self._worker.create_buffer(4 * hidden * plan.count)
        ledger = Ledger(self._worker, len(plan.batches))

        def report() -> None:
            progress(ledger.gathered(), len(plan.batches))

        def graph(orch: Orchestrator, args: TaskArgs | None, config: object) -> None:
            for batch in plan.batches:
                self._submit_batch(orch, plan, batch, results, ledger)
                report()

        before, began = self._usage(), time.perf_counter()
        handle = self._worker.submit(graph)
        try:
            for _ in waits(handle):
                report()
        except BaseException:
            handle.cancel()
            raise
        seconds = time.perf_counter() - began
        usage = tuple(since(old, new) for old, new in zip(before, self._usage(), strict=True))
        report()
        embedding = Embedding(
            vectors=np.frombuffer(results, np.float32, hidden * plan.count).reshape(plan.count, hidden).copy(),
            tokens=ledger.total(Ledger.TOKENS),
            padded_tokens=ledger.total(Ledger.PADDED),
            seconds=seconds,
            usage=usage,
        )
        ledger.release(self._worker)
        self._worker.release_buffer(results)
        return embedding

    def encode_only(self, plan: Plan, tokenised: Sequence[tuple[Ints, Ints]]) -> Callable[[], Array]:
        """A function that encodes batches which are tokenised already: what a benchmark measures."""
        hidden = self._model.config.hidden
        results = self._worker.create_buffer(4 * hidden * plan.count)
        inputs: list[tuple[Tensor, Tensor]] = []
        for ids, lengths in tokenised:
            held = self._worker.create_buffer(ids.nbytes + lengths.nbytes)
            np.frombuffer(held, np.int32)[: ids.size + lengths.size] = np.concatenate([ids.reshape(-1), lengths])
            lengths_tensor = held.tensor((lengths.size,), DataType.INT32, byte_offset=ids.nbytes)
            inputs.append((held.tensor((ids.size,), DataType.INT32), lengths_tensor))

        def graph(orch: Orchestrator, args: TaskArgs | None, config: object) -> None:
            for batch, (ids, lengths) in zip(plan.batches, inputs, strict=True):
                vectors = self._places(results, batch)
                orch.submit_next_level(self._encode, self._encode_args(batch, ids, lengths, vectors), worker=batch.chip)

        def once() -> Array:
            self._worker.run(graph)
            return np.frombuffer(results, np.float32, hidden * plan.count).reshape(plan.count, hidden)

        return once

    def _places(self, results: Buffer, batch: Batch) -> Tensor:
        hidden = self._model.config.hidden
        return results.tensor((len(batch.rows), hidden), DataType.FLOAT32, byte_offset=4 * hidden * batch.first)

    def _submit_batch(self, orch: Orchestrator, plan: Plan, batch: Batch, results: Buffer, ledger: Ledger) -> None:
        rows, hidden = len(batch.rows), self._model.config.hidden
        with orch.scope():
            ids = allocate(orch, (rows * plan.max_tokens,), DataType.INT32)
            lengths = allocate(orch, (rows,), DataType.INT32)
            vectors = allocate(orch, (rows, hidden), DataType.FLOAT32)

            tokenise = TaskArgs()
            tokenise.add_tensor(ids, TensorArgType.OUTPUT)
            tokenise.add_tensor(lengths, TensorArgType.OUTPUT)
            tokenise.add_tensor(ledger.record(Ledger.TOKENISED, batch.index), TensorArgType.OUTPUT)
            tokenise.add_scalar(self._first_batch[id(plan)] + batch.index)
            orch.submit_sub(self._tokenise, tokenise)

            orch.submit_next_level(self._encode, self._encode_args(batch, ids, lengths, vectors), worker=batch.chip)

            gather = TaskArgs()
            gather.add_tensor(vectors, TensorArgType.INPUT)
            gather.add_tensor(self._places(results, batch), TensorArgType.OUTPUT)
            gather.add_tensor(ledger.record(Ledger.GATHERED, batch.index), TensorArgType.OUTPUT)
            orch.submit_sub(self._gather, gather)

    def _encode_args(self, batch: Batch, ids: Tensor, lengths: Tensor, vectors: Tensor) -> TaskArgs:
        args = TaskArgs()
        args.add_tensor(ids, TensorArgType.INPUT)
        args.add_tensor(lengths, TensorArgType.INPUT)
        args.add_tensor(vectors, TensorArgType.OUTPUT)
        for weight in self._weights[batch.chip]:
            args.add_tensor(weight, TensorArgType.INPUT)
        args.add_scalar(self._model.config.heads)
        args.add_scalar(float(self._model.config.epsilon))
        args.add_scalar(self._blocks)
        return args

    def _stage_weights(self) -> list[list[Tensor]]:
        """One copy of every weight in each chip's memory, by way of one shared buffer."""
        largest = max(weight.nbytes for _, weight in self._model.weights.named())
        host = self._worker.create_buffer(largest)
        staged: list[list[Tensor]] = [[] for _ in range(self._chips)]
        for _, weight in self._model.weights.named():
            np.frombuffer(host, np.float32)[: weight.size] = weight.reshape(-1)
            for chip in range(self._chips):
                device = self._worker.alloc_child_tensor(chip, weight.shape, DataType.FLOAT32)
                self._worker.copy_to(device, host, nbytes=weight.nbytes)
                staged[chip].append(device.tensor(weight.shape, DataType.FLOAT32))
        self._worker.release_buffer(host)
        return staged

    def _usage(self) -> list[Usage]:
        # The parent's own time counts as the runtime's in full, although the graph function is the demo's.
        own = Usage("parent", 0, 0, 0.0, 0.0, time.process_time())
        children = [
            Usage(each.name, each.pid, each.tasks, each.busy_ns * 1e-9, each.user_cpu_ns * 1e-9, each.cpu_ns * 1e-9)
            for each in self._worker.statistics()
        ]
        return [own, *children]


def allocate(orch: Orchestrator, shape: tuple[int, ...], dtype: DataType) -> Tensor:
    return orch.alloc(shape, dtype).tensor(shape, dtype)


def since(old: Usage, new: Usage) -> Usage:
    return Usage(new.name, new.pid, new.tasks - old.tasks, new.busy - old.busy, new.user_cpu - old.user_cpu, new.cpu - old.cpu)


def waits(handle: object, step: float = 0.2) -> Iterator[None]:
    """Yields while the run goes on; returns when it ended, raising its error."""
    while True:
        try:
            handle.wait(timeout=step)  # type: ignore[attr-defined]
        except TimeoutError:
            yield
        else:
            return
