// Entry points of all ready-made kernels of one module; kernel_list.cpp says what each argument means.
#pragma once

#include <cstdint>

namespace simpler::kernels::body {

void matmul(int64_t* args);
void matmul_bias(int64_t* args);
void attention(int64_t* args);
void add(int64_t* args);
void multiply(int64_t* args);
void relu_kernel(int64_t* args);
void gelu_kernel(int64_t* args);
void tanh_kernel(int64_t* args);
void layernorm(int64_t* args);
void add_layernorm(int64_t* args);
void embedding_layernorm(int64_t* args);
void softmax(int64_t* args);
void softmax_masked(int64_t* args);
void gather(int64_t* args);
void mean_pool(int64_t* args);
void l2norm(int64_t* args);
void topk(int64_t* args);

}  // namespace simpler::kernels::body
