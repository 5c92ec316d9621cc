// Graphs of the chip tests of a node: a graph author's source, no library of ours linked.
#include "simpler/orchestration.h"

using namespace simpler::orchestration;

// out = a * b + a; kernels: 0 multiply, 1 add.
SIMPLER_ORCHESTRATION void multiply_add(const ChipTaskArgs& args) {
  const Tensor& a = args.tensor(0);
  const Tensor& b = args.tensor(1);
  const Tensor& out = args.tensor(2);
  TensorCreateInfo like(a.shapes, a.ndims);
  CoreTaskArgs product;
  product.add_input(a, b);
  product.add_output(like);
  const TaskOutputTensors made = rt_submit_aiv_task(0, product);
  CoreTaskArgs sum;
  sum.add_input(made.get_ref(0), a);
  sum.add_output(out);
  rt_submit_aiv_task(1, sum);
}

SIMPLER_ORCHESTRATION void refuse(const ChipTaskArgs&) {
  rt_report_fatal(9, "the graph says no");
}
