// The table of one module: every kernel of this instruction set.
#include "kernels/module.h"

#include "kernels/body/kernels.h"
#include "native.h"

namespace simpler::kernels::body {

namespace {

using kernel::CoreType;

constexpr kernel::BuiltinKernel kEntries[] = {
    {"add", 1, CoreType::kAiv, add},
    {"add_layernorm", 1, CoreType::kAiv, add_layernorm},
    {"attention", 1, CoreType::kAic, attention},
    {"embedding_layernorm", 1, CoreType::kAiv, embedding_layernorm},
    {"gather", 1, CoreType::kAiv, gather},
    {"gelu", 1, CoreType::kAiv, gelu_kernel},
    {"l2norm", 1, CoreType::kAiv, l2norm},
    {"layernorm", 1, CoreType::kAiv, layernorm},
    {"matmul", 1, CoreType::kAic, matmul},
    {"matmul_bias", 1, CoreType::kAic, matmul_bias},
    {"mean_pool", 1, CoreType::kAiv, mean_pool},
    {"multiply", 1, CoreType::kAiv, multiply},
    {"relu", 1, CoreType::kAiv, relu_kernel},
    {"softmax", 1, CoreType::kAiv, softmax},
    {"softmax_masked", 1, CoreType::kAiv, softmax_masked},
    {"tanh", 1, CoreType::kAiv, tanh_kernel},
    {"topk", 1, CoreType::kAiv, topk},
};

constexpr ModuleTable kTable{kModuleAbi, sizeof kEntries / sizeof kEntries[0], kIsaName, kEntries};

}  // namespace

}  // namespace simpler::kernels::body

extern "C" __attribute__((visibility("default"))) const simpler::kernels::ModuleTable* simpler_kernels() {
  return &simpler::kernels::body::kTable;
}
