# Two simulated chips run a kernel of ours and a ready-made one; the first needs the system's compiler.
#
#     x ──► chip 0: x² + x ──► y ──► chip 1: y² + y ──► z
import simpler

KERNEL = """
#include "simpler/kernel.h"
using namespace simpler::kernel;
SIMPLER_KERNEL void kernel_entry(int64_t* args) {
  const float* x = data<float>(args, 0);
  float* y = data<float>(args, 1);
  for (uint64_t i = 0; i < element_count(tensor(args, 0)); ++i) y[i] = x[i] * x[i];
}
"""

ORCHESTRATION = """
#include "simpler/orchestration.h"
using namespace simpler::orchestration;
SIMPLER_ORCHESTRATION void square_plus(const ChipTaskArgs& args) {
  const Tensor& x = args.tensor(0);
  const TensorCreateInfo like_x(x.shapes, x.ndims);
  CoreTaskArgs square;
  square.add_input(x);
  square.add_output(like_x);  // a new tensor in the memory of the chip
  const TaskOutputTensors squared = rt_submit_aiv_task(0, square);
  CoreTaskArgs add;
  add.add_input(squared.get_ref(0), x);
  add.add_output(args.tensor(1));
  rt_submit_aiv_task(1, add);
}
"""

square = simpler.compile_kernel(KERNEL, signature=["IN", "OUT"], name="square")
program = simpler.compile(
    ORCHESTRATION, signature=["IN", "OUT"], func_name="square_plus", children=[(0, square), (1, simpler.kernels.add)]
)


def in_out(source: simpler.Buffer, target: simpler.Buffer) -> simpler.TaskArgs:
    return simpler.TaskArgs().input(source.tensor((4,), "FLOAT32")).output(target.tensor((4,), "FLOAT32"))


with simpler.Worker(level=3, platform="a2a3sim", device_ids=[0, 1]) as worker:
    handle = worker.register(program)
    x, z = worker.create_buffer(16), worker.create_buffer(16)
    x.numpy()[:] = range(4)

    def graph(orch: simpler.Orchestrator, args: object, config: object) -> None:
        y = orch.alloc((4,), "FLOAT32")
        orch.submit_next_level(handle, in_out(x, y), worker=0)
        orch.submit_next_level(handle, in_out(y, z), worker=1)

    worker.run(graph)
    print(z.numpy())

# Output:
# [  0.   6.  42. 156.]
