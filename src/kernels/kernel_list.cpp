// The table of ready-made kernels and the checks against it.
#include "kernels/kernel_list.h"

#include <algorithm>
#include <array>
#include <string>

#include "simpler/dtype.h"

namespace simpler::kernels {

namespace {

using kernel::CoreType;
constexpr auto kF32 = kernel::DataType::kFloat32;
constexpr auto kI32 = kernel::DataType::kInt32;
constexpr auto kIn = Direction::kIn;
constexpr auto kOut = Direction::kOut;

constexpr TensorSpec kMatmul[] = {{"a", kIn, kF32, 2, 5}, {"b", kIn, kF32, 2, 5}, {"out", kOut, kF32, 2, 5}};
constexpr TensorSpec kMatmulBias[] = {
    {"a", kIn, kF32, 2, 5}, {"b", kIn, kF32, 2, 5}, {"bias", kIn, kF32, 1, 1}, {"out", kOut, kF32, 2, 5}};
constexpr ScalarSpec kMatmulScalars[] = {{"activation", ScalarType::kUint64, 0}, {"b_layout", ScalarType::kUint64, 0}};
constexpr TensorSpec kAttention[] = {{"qkv", kIn, kF32, 3, 3}, {"lengths", kIn, kI32, 1, 1}, {"out", kOut, kF32, 3, 3}};
constexpr ScalarSpec kAttentionScalars[] = {{"heads", ScalarType::kUint64, 1}, {"scale", ScalarType::kFloat32, 1}};
constexpr TensorSpec kBinary[] = {{"a", kIn, kF32, 1, 5}, {"b", kIn, kF32, 1, 5}, {"out", kOut, kF32, 1, 5}};
constexpr TensorSpec kUnary[] = {{"x", kIn, kF32, 1, 5}, {"out", kOut, kF32, 1, 5}};
constexpr TensorSpec kLayernorm[] = {
    {"x", kIn, kF32, 1, 5}, {"gamma", kIn, kF32, 1, 1}, {"beta", kIn, kF32, 1, 1}, {"out", kOut, kF32, 1, 5}};
constexpr TensorSpec kAddLayernorm[] = {{"x", kIn, kF32, 1, 5},
                                        {"residual", kIn, kF32, 1, 5},
                                        {"gamma", kIn, kF32, 1, 1},
                                        {"beta", kIn, kF32, 1, 1},
                                        {"out", kOut, kF32, 1, 5}};
constexpr ScalarSpec kLayernormScalars[] = {{"eps", ScalarType::kFloat32, 1e-12}};
constexpr TensorSpec kEmbedding[] = {
    {"word", kIn, kF32, 2, 2},  {"position", kIn, kF32, 2, 2}, {"type", kIn, kF32, 2, 2}, {"ids", kIn, kI32, 2, 2},
    {"gamma", kIn, kF32, 1, 1}, {"beta", kIn, kF32, 1, 1},     {"out", kOut, kF32, 3, 3}};
constexpr ScalarSpec kEmbeddingScalars[] = {{"type_index", ScalarType::kUint64, 0},
                                            {"eps", ScalarType::kFloat32, 1e-12}};
constexpr TensorSpec kMasked[] = {{"x", kIn, kF32, 2, 5}, {"lengths", kIn, kI32, 1, 1}, {"out", kOut, kF32, 2, 5}};
constexpr ScalarSpec kScale[] = {{"scale", ScalarType::kFloat32, 1}};
constexpr TensorSpec kGather[] = {{"table", kIn, kF32, 2, 2}, {"ids", kIn, kI32, 1, 4}, {"out", kOut, kF32, 2, 5}};
constexpr TensorSpec kMeanPool[] = {{"x", kIn, kF32, 3, 3}, {"lengths", kIn, kI32, 1, 1}, {"out", kOut, kF32, 2, 2}};
constexpr TensorSpec kTopk[] = {{"x", kIn, kF32, 1, 5}, {"values", kOut, kF32, 1, 5}, {"indices", kOut, kI32, 1, 5}};

constexpr KernelSpec kList[] = {
    {"add", 1, CoreType::kAiv, kBinary, {}, "out = a + b; a and b broadcast to the shape of out"},
    {"add_layernorm", 1, CoreType::kAiv, kAddLayernorm, kLayernormScalars,
     "out = layernorm(x + residual) over the last dimension"},
    {"attention", 1, CoreType::kAic, kAttention, kAttentionScalars,
     "out [batch, length, hidden] = softmax(scale * Q K^T) V per head, from the fused projection qkv [batch, length, 3 "
     "* "
     "hidden]; keys from lengths[i] on take no part and rows of out from there on are 0"},
    {"embedding_layernorm", 1, CoreType::kAiv, kEmbedding, kEmbeddingScalars,
     "out[i, s] = layernorm(word[ids[i, s]] + type[type_index] + position[s])"},
    {"gather", 1, CoreType::kAiv, kGather, {}, "out[..., :] = table[ids[...], :]"},
    {"gelu", 1, CoreType::kAiv, kUnary, {}, "out = x * (1 + erf(x / sqrt 2)) / 2"},
    {"l2norm", 1, CoreType::kAiv, kUnary, kLayernormScalars, "out = x / max(length of the row, eps), row by row"},
    {"layernorm", 1, CoreType::kAiv, kLayernorm, kLayernormScalars,
     "out = (x - mean) / sqrt(variance + eps) * gamma + beta over the last dimension"},
    {"matmul", 1, CoreType::kAic, kMatmul, kMatmulScalars,
     "out = activation(a b): a [..., m, k], b [k, n] (b_layout 0) or [n, k] (1), with or without a's batch dimensions; "
     "activation 0 none, 1 relu, 2 gelu, 3 tanh"},
    {"matmul_bias", 1, CoreType::kAic, kMatmulBias, kMatmulScalars, "out = activation(a b + bias); else as matmul"},
    {"mean_pool", 1, CoreType::kAiv, kMeanPool, {}, "out[i] = mean of x[i, 0 : lengths[i]]; 0 for a length of 0"},
    {"multiply", 1, CoreType::kAiv, kBinary, {}, "out = a * b; a and b broadcast to the shape of out"},
    {"relu", 1, CoreType::kAiv, kUnary, {}, "out = max(x, 0)"},
    {"softmax", 1, CoreType::kAiv, kUnary, kScale, "out = softmax(scale * x) over the last dimension"},
    {"softmax_masked", 1, CoreType::kAiv, kMasked, kScale,
     "softmax over the first lengths[i] columns of every row of item i (dimension 0); 0 behind them"},
    {"tanh", 1, CoreType::kAiv, kUnary, {}, "out = tanh(x)"},
    {"topk",
     1,
     CoreType::kAiv,
     kTopk,
     {},
     "the largest of each row of x in falling order with their columns; equal values: the earlier column first; NaN "
     "last"},
};

// How many single-letter edits turn one name into the other, for "did you mean".
size_t edit_distance(std::string_view a, std::string_view b) {
  std::array<size_t, 65> row{};
  if (a.size() > 64 || b.size() > 64) return 64;
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::string unknown_name_text(std::string_view name) {
  std::string text = "no ready-made kernel is called '" + std::string(name) + "'";
  const KernelSpec* nearest = nullptr;
  size_t distance = 3;
  for (const KernelSpec& spec : kList) {
    if (const size_t d = edit_distance(name, spec.name); d < distance) {
      distance = d;
      nearest = &spec;
    }
  }
  if (nearest != nullptr) return text + "; did you mean '" + std::string(nearest->name) + "'?";
  text += "; there are ";
  for (const KernelSpec& spec : kList) text += (&spec == kList ? "" : ", ") + std::string(spec.name);
  return text;
}

std::string describe_call(const KernelSpec& spec) {
  std::string text = std::string(spec.name) + "(";
  for (const TensorSpec& t : spec.tensors) {
    text += (&t == spec.tensors.data() ? "" : ", ") + std::string(t.name) + (t.direction == kOut ? " out" : " in");
  }
  for (const ScalarSpec& s : spec.scalars) text += ", scalar " + std::string(s.name);
  return text + ")";
}

Status check_tensor(const KernelSpec& spec, size_t index, const GivenTensor& given) {
  const TensorSpec& want = spec.tensors[index];
  const std::string who =
      std::string(spec.name) + ": argument " + std::to_string(index) + " (" + std::string(want.name) + ")";
  if (want.direction == kOut ? !given.writes : !given.reads) {
    return invalid_argument(who + " must be passed as an " + std::string(name_of(want.direction)));
  }
  if (given.dtype != static_cast<uint8_t>(want.dtype)) {
    return invalid_argument(who + " is " + std::string(simpler::name_of(static_cast<DataType>(given.dtype))) +
                            ", must be " + std::string(simpler::name_of(static_cast<DataType>(want.dtype))));
  }
  if (given.rank < want.min_rank || given.rank > want.max_rank) {
    return invalid_argument(who + " has rank " + std::to_string(given.rank) + ", must be " +
                            std::to_string(want.min_rank) +
                            (want.min_rank == want.max_rank ? "" : " to " + std::to_string(want.max_rank)));
  }
  return Status::ok();
}

}  // namespace

std::string_view name_of(Direction direction) {
  return direction == Direction::kIn ? "input" : "output";
}

std::span<const KernelSpec> kernel_list() {
  return kList;
}

Result<const KernelSpec*> find_kernel(std::string_view name, uint32_t version) {
  const KernelSpec* found = nullptr;
  std::string versions;
  for (const KernelSpec& spec : kList) {
    if (spec.name != name) continue;
    versions += (versions.empty() ? "" : ", ") + std::to_string(spec.version);
    if (version == 0 || spec.version == version) found = &spec;
  }
  if (found != nullptr) return found;
  if (versions.empty()) return not_found(unknown_name_text(name));
  return not_found("kernel '" + std::string(name) + "' has no version " + std::to_string(version) +
                   "; there are: " + versions);
}

Status check_arguments(const KernelSpec& spec, std::span<const GivenTensor> tensors, uint32_t scalar_count) {
  if (tensors.size() != spec.tensors.size() || scalar_count != spec.scalars.size()) {
    return invalid_argument(std::string(spec.name) + ": got " + std::to_string(tensors.size()) + " tensors and " +
                            std::to_string(scalar_count) + " scalars, the call is " + describe_call(spec));
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (Status status = check_tensor(spec, i, tensors[i]); !status.is_ok()) return status;
  }
  return Status::ok();
}

}  // namespace simpler::kernels
