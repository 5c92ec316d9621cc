# What a failing graph looks like: a task raises, what depends on it never runs, and the worker goes on.
#
#     parse "12" ──► double ──► 24          parse "x" ──✗  double
import simpler


def parse(args: simpler.MappedArgs) -> None:
    args[1].buffer[0] = int(bytes(args[0].buffer))


def double(args: simpler.MappedArgs) -> None:
    args[0].buffer[0] *= 2


worker = simpler.Worker(level=3, num_sub_workers=2)
parse_it, double_it = worker.register(parse), worker.register(double)

with worker:
    text, number = worker.create_buffer(2), worker.create_buffer(1)

    def graph(orch: simpler.Orchestrator, args: object, config: object) -> None:
        first = simpler.TaskArgs()
        first.add_tensor(text.tensor((2,), "UINT8"), "INPUT")
        first.add_tensor(number.tensor((1,), "UINT8"), "OUTPUT")
        second = simpler.TaskArgs()
        second.add_tensor(number.tensor((1,), "UINT8"), "INOUT")
        orch.submit_sub(parse_it, first)
        orch.submit_sub(double_it, second)

    for given in (b"12", b"x ", b"21"):
        text.numpy(None, "UINT8")[:] = list(given)
        number.numpy(None, "UINT8")[:] = 0
        try:
            worker.run(graph)
            print(given, "gives", bytes(number)[0])
        except simpler.TaskFailed as error:
            print(given, "gives", bytes(number)[0], "because", error.callable, "raised", error.type_name)

# Output:
# b'12' gives 24
# b'x ' gives 0 because parse raised ValueError
# b'21' gives 42
