# Two Python workers fill the halves of a buffer; the square waits for both, because it works on the memory they write.
import simpler


def fill(args: simpler.MappedArgs) -> None:
    args[0].numpy()[:] = range(args.scalar(0), args.scalar(0) + 4)


def square(args: simpler.MappedArgs) -> None:
    args[0].numpy()[:] **= 2


def graph(orch: simpler.Orchestrator, args: object, config: object) -> None:
    for first in (0, 4):
        half = numbers.tensor((4,), "INT64", byte_offset=8 * first)
        orch.submit_sub(fill_it, simpler.TaskArgs().output(half).add_scalar(first))
    orch.submit_sub(square_it, simpler.TaskArgs().inout(numbers.tensor((8,), "INT64")))


worker = simpler.Worker(level=3, num_sub_workers=2)
fill_it, square_it = worker.register(fill), worker.register(square)
with worker:
    numbers = worker.create_buffer(64)
    worker.run(graph)
    print(numbers.numpy(None, "INT64"))

# Output:
# [ 0  1  4  9 16 25 36 49]
