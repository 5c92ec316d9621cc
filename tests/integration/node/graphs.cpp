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

// out = layernorm(gelu(x w) + x) with gamma and beta; kernels: 0 matmul, 1 gelu, 2 add_layernorm. x and w are square.
SIMPLER_ORCHESTRATION void layer(const ChipTaskArgs& args) {
  const Tensor& x = args.tensor(0);
  TensorCreateInfo like(x.shapes, x.ndims);
  CoreTaskArgs product;
  product.add_input(x, args.tensor(1));
  product.add_output(like);
  product.add_scalar(uint64_t{0});  // no activation
  product.add_scalar(uint64_t{0});  // w as it lies
  const TaskOutputTensors multiplied = rt_submit_aic_task(0, product);
  CoreTaskArgs bend;
  bend.add_input(multiplied.get_ref(0));
  bend.add_output(like);
  const TaskOutputTensors bent = rt_submit_aiv_task(1, bend);
  CoreTaskArgs norm;
  norm.add_input(bent.get_ref(0), x, args.tensor(2), args.tensor(3));
  norm.add_output(args.tensor(4));
  norm.add_scalar(1e-6F);
  rt_submit_aiv_task(2, norm);
}

SIMPLER_ORCHESTRATION void refuse(const ChipTaskArgs&) {
  rt_report_fatal(9, "the graph says no");
}
