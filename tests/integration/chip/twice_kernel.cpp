// out = 2 * in, as a user's kernel in a shared object of its own.
#include "simpler/kernel.h"

using namespace simpler::kernel;

SIMPLER_KERNEL void kernel_entry(int64_t* args) {
  const float* in = data<float>(args, 0);
  float* out = data<float>(args, 1);
  const uint64_t count = element_count(tensor(args, 0));
  for (uint64_t i = 0; i < count; ++i) out[i] = 2 * in[i];
  pipe_sync();
}
