"""A graph over two chips: nobody says who waits for whom, the tensors do.

    x ──> square (chip 0) ──> x² ──┐
      └─> double (chip 1) ──> 2x ──┴─> add (chip 0) ──> x² + 2x

The two tasks on the left share only what they read, so they run at the same time; the one on the right reads what both
wrote, so it waits for both. The intermediate tensors live in the scope that allocates them, and their memory is given
back when the scope and the tasks on it have ended. All three kernels are ready-made: nothing is compiled but the
orchestration that hands two inputs and one output to kernel 0.
"""

import simpler

ORCHESTRATION = """
#include "simpler/orchestration.h"
using namespace simpler::orchestration;

SIMPLER_ORCHESTRATION void binary(const ChipTaskArgs& args) {
  CoreTaskArgs task;
  task.add_input(args.tensor(0));
  task.add_input(args.tensor(1));
  task.add_output(args.tensor(2));
  rt_submit_aiv_task(0, task);
}
"""
N = 8


def binary(kernel: simpler.CoreCallable) -> simpler.ChipCallable:
    """Make a chip callable that runs one kernel of two inputs."""
    return simpler.compile(ORCHESTRATION, signature=["IN", "IN", "OUT"], func_name="binary", children=[(0, kernel)])


def task(a: simpler.Buffer, b: simpler.Buffer, out: simpler.Buffer) -> simpler.TaskArgs:
    """Name the tensors of one task, and what it does with each."""
    args = simpler.TaskArgs()
    args.add_tensor(a.tensor((N,), "FLOAT32"), "INPUT")
    args.add_tensor(b.tensor((N,), "FLOAT32"), "INPUT")
    args.add_tensor(out.tensor((N,), "FLOAT32"), "OUTPUT")
    return args


with simpler.Worker(level=3, platform="a2a3sim", device_ids=[0, 1]) as worker:
    add = worker.register(binary(simpler.kernels.add))
    multiply = worker.register(binary(simpler.kernels.multiply))
    x, result = worker.create_buffer(4 * N), worker.create_buffer(4 * N)
    values = memoryview(x).cast("f")
    for i in range(N):
        values[i] = i

    def graph(orch: simpler.Orchestrator, args: object, config: object) -> None:
        """Submit the three tasks of the picture."""
        with orch.scope():
            square, double = orch.alloc((N,), "FLOAT32"), orch.alloc((N,), "FLOAT32")
            orch.submit_next_level(multiply, task(x, x, square), worker=0)
            orch.submit_next_level(add, task(x, x, double), worker=1)
            orch.submit_next_level(add, task(square, double, result), worker=0)

    worker.run(graph)
    found = list(memoryview(result).cast("f"))
    assert found == [i * i + 2 * i for i in range(N)], found
    print("x² + 2x =", *(int(value) for value in found))

# Output:
# x² + 2x = 0 3 8 15 24 35 48 63
