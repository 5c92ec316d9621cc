// A simulated chip in this process runs a user's kernel and a ready-made one.
//
//     x ──► square (ours) ──► add (ready-made) ──► y = x² + x
//
// Both sources are compiled by the system's compiler at the first run and come from the cache afterwards.
#include <cstdio>

#include "simpler/simpler.h"

namespace {

constexpr const char* kKernel = R"(
#include "simpler/kernel.h"
using namespace simpler::kernel;
SIMPLER_KERNEL void kernel_entry(int64_t* args) {
  const float* x = data<float>(args, 0);
  float* y = data<float>(args, 1);
  for (uint64_t i = 0; i < element_count(tensor(args, 0)); ++i) y[i] = x[i] * x[i];
}
)";

constexpr const char* kGraph = R"(
#include "simpler/orchestration.h"
using namespace simpler::orchestration;
SIMPLER_ORCHESTRATION void square_plus(const ChipTaskArgs& args) {
  const Tensor& x = args.tensor(0);
  CoreTaskArgs square;
  square.add_input(x);
  TensorCreateInfo like_x(x.shapes, x.ndims);
  square.add_output(like_x);
  const TaskOutputTensors squared = rt_submit_aiv_task(0, square);
  CoreTaskArgs add;
  add.add_input(squared.get_ref(0), x);
  add.add_output(args.tensor(1));
  rt_submit_aiv_task(1, add);
}
)";

}  // namespace

int main() {
  using simpler::ArgDirection;
  const ArgDirection in_out[] = {ArgDirection::kIn, ArgDirection::kOut};
  const simpler::ChipChild kernels[] = {{0, simpler::compile_kernel({.text = kKernel, .name = "square"}, in_out)},
                                        {1, simpler::builtin_kernel("add")}};
  const simpler::ChipCallable graph =
      simpler::compile_orchestration({.text = kGraph, .name = "square_plus"}, in_out, "square_plus", kernels);

  simpler::Worker worker({.level = 2, .platform = "a2a3sim"});
  const simpler::CallableHandle callable = worker.register_callable(graph);
  worker.init();
  const simpler::Buffer buffer = worker.create_buffer(2 * 4 * sizeof(float));
  float* values = reinterpret_cast<float*>(buffer.data());
  for (int i = 0; i < 4; ++i) {
    values[i] = static_cast<float>(i);
  }
  worker.run(callable, simpler::TaskArgs()
                           .input(buffer.tensor({4}, simpler::DataType::kFloat32))
                           .output(buffer.tensor({4}, simpler::DataType::kFloat32, 4 * sizeof(float))));
  std::printf("%g %g %g %g\n", values[4], values[5], values[6], values[7]);
  worker.close();
}

// Output:
// 0 2 6 12
