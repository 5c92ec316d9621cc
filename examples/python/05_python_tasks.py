"""Python functions as tasks, in processes of their own; and what a failure looks like.

    text 0 ──> count ──> counts[0] ──┐
    text 1 ──> count ──> counts[1] ──┼──> total ──> sum
    text 2 ──> count ──> counts[2] ──┘

`count` and `total` run in two Python workers, without a common interpreter lock. What they exchange is shared memory:
a task gets memory views, nothing is pickled. The four tasks that write or read `counts` are ordered by the parts of it
that they touch. At the end one task raises; the exception arrives here with its type, its text and its traceback.
"""

import simpler

TEXTS = ("to be or not to be", "that is the question", "whether tis nobler in the mind to suffer")


def count(args: simpler.MappedArgs) -> None:
    """(one word of 64 bits, written; number of the text)"""
    args[0].buffer.cast("Q")[0] = len(TEXTS[args.scalar(0)].split())


def total(args: simpler.MappedArgs) -> None:
    """(all counts, read; their sum, written)"""
    args[1].buffer.cast("Q")[0] = sum(args[0].buffer.cast("Q"))


def fail(args: simpler.MappedArgs) -> None:
    """Raise in a process that is not the caller's."""
    raise LookupError("no such play")


worker = simpler.Worker(level=3, num_sub_workers=2)
count_handle, total_handle, fail_handle = (worker.register(each) for each in (count, total, fail))
with worker:
    counts, result = worker.create_buffer(8 * len(TEXTS)), worker.create_buffer(8)

    def graph(orch: simpler.Orchestrator, args: object, config: object) -> None:
        """Submit the four tasks of the picture."""
        for i in range(len(TEXTS)):
            one = simpler.TaskArgs()
            one.add_tensor(counts.tensor((1,), "UINT64", byte_offset=8 * i), "OUTPUT")
            one.add_scalar(i)
            orch.submit_sub(count_handle, one)
        both = simpler.TaskArgs()
        both.add_tensor(counts.tensor((len(TEXTS),), "UINT64"), "INPUT")
        both.add_tensor(result.tensor((1,), "UINT64"), "OUTPUT")
        orch.submit_sub(total_handle, both)

    worker.run(graph)
    words = memoryview(result).cast("Q")[0]
    assert words == sum(len(text.split()) for text in TEXTS), words
    print(words, "words")

    try:
        worker.run(lambda orch, args, config: orch.submit_sub(fail_handle))
    except simpler.TaskFailed as error:
        print(error)
        print(error.remote_traceback.splitlines()[-2].strip())

# Output:
# 18 words
# L3/sub_worker ...: LookupError: no such play (callable fail, task in slot ... of run ...)
# raise LookupError("no such play")
