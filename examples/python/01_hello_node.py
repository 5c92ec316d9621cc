# Two Python workers run a graph; the square waits for both halves, because it reads the memory that they write.
#
#     fill 0..3 ─┐
#     fill 4..7 ─┴─► square ──► result
import simpler


def fill(args: simpler.MappedArgs) -> None:
    args[0].numpy()[:] = range(args.scalar(0), args.scalar(0) + 4)


def square(args: simpler.MappedArgs) -> None:
    args[1].numpy()[:] = args[0].numpy() ** 2


worker = simpler.Worker(level=3, num_sub_workers=2)
fill_it, square_it = worker.register(fill), worker.register(square)


def graph(orch: simpler.Orchestrator, args: object, config: object) -> None:
    numbers = orch.alloc((8,), "INT64")  # shared memory until the last task that names it has ended
    for first in (0, 4):
        half = simpler.TaskArgs()
        half.add_tensor(numbers.tensor((4,), "INT64", byte_offset=8 * first), "OUTPUT")
        half.add_scalar(first)
        orch.submit_sub(fill_it, half)
    whole = simpler.TaskArgs()
    whole.add_tensor(numbers.tensor((8,), "INT64"), "INPUT")
    whole.add_tensor(result.tensor((8,), "INT64"), "OUTPUT")
    orch.submit_sub(square_it, whole)


with worker:
    result = worker.create_buffer(64)
    worker.run(graph)
    print(result.numpy(None, "INT64"))

# Output:
# [ 0  1  4  9 16 25 36 49]
