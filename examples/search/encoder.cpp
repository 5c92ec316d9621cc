// The sentence encoder as a chip graph: one run embeds one batch of texts.
//
// Tensors, in this order: ids (flat, room for B * longest), lengths [B], vectors [B, H] (written), then the weights as
// `model.py` packs them, stacked by layer. Scalars: heads, the epsilon of the layer norms, blocks per task. The number
// of tokens S of a row is the largest of the lengths, read while the graph is built; ids hold B rows of S tokens
// without gaps. The sizes of everything else come from the shapes of the weights, so any model of this kind fits.
//
// Seven tasks a layer, all of them ready-made kernels. The work tensors are allocated once and taken over from layer to
// layer, which keeps the memory of a run small and warm. They are passed as inout: a task that covers what its
// predecessor wrote replaces it in the dependency map, so a task has as few edges in the last layer as in the first.
// Nothing needs a write-after-read edge, because the tasks form one chain.
#include "simpler/orchestration.h"

namespace {

using namespace simpler::orchestration;

// Numbers of the kernels; chip.py lists them in this order.
enum Kernel : int32_t { kEmbedding, kMatmulBias, kAttention, kAddLayernorm, kMeanPool, kL2norm };

enum Argument : uint32_t {
  kIds,
  kLengths,
  kVectors,
  kWords,
  kPositions,
  kTypes,
  kEmbeddingGain,
  kEmbeddingBias,
  kQkv,
  kQkvBias,
  kAttentionOut,
  kAttentionOutBias,
  kAttentionGain,
  kAttentionNormBias,
  kUp,
  kUpBias,
  kDown,
  kDownBias,
  kOutputGain,
  kOutputNormBias,
  kTensorCount
};
enum Scalar : uint32_t { kHeads, kEpsilon, kBlocks, kScalarCount };

constexpr uint64_t kNoActivation = 0, kGelu = 2, kInputsByOutputs = 0;
constexpr int32_t kBadBatch = 1;  // our only fatal code; the text says what is wrong

// Sizes of this run.
struct Batch {
  uint32_t texts, tokens, hidden, wide, heads, blocks;
  float epsilon;
};

// Layer `index` of weights that are stacked by layer.
Tensor layer_of(const Tensor& stacked, uint32_t index) {
  return stacked.slice(0, index, index + 1).reshape(stacked.shapes + 1, stacked.ndims - 1);
}

uint32_t longest(const Tensor& lengths) {
  int32_t most = 0;
  for (uint32_t i = 0; i < lengths.shapes[0]; ++i) {
    const auto length = get_tensor_data<int32_t>(lengths, {i});
    if (length > most) most = length;
  }
  return static_cast<uint32_t>(most);
}

// False after a fatal report.
bool read_batch(const ChipTaskArgs& args, Batch& batch) {
  const Tensor& ids = args.tensor(kIds);
  const Tensor& lengths = args.tensor(kLengths);
  batch.texts = lengths.shapes[0];
  batch.tokens = longest(lengths);
  batch.hidden = args.tensor(kWords).shapes[1];
  batch.wide = args.tensor(kUp).shapes[2];
  batch.heads = static_cast<uint32_t>(args.scalar(kHeads));
  batch.epsilon = args.scalar<float>(kEpsilon);
  batch.blocks = static_cast<uint32_t>(args.scalar(kBlocks));
  const uint64_t needed = uint64_t{batch.texts} * batch.tokens;
  if (needed == 0 || needed > ids.shapes[0]) {
    rt_report_fatal(kBadBatch, "%u texts of up to %u tokens do not fit %u ids", batch.texts, batch.tokens,
                    ids.shapes[0]);
    return false;
  }
  if (batch.heads == 0 || batch.hidden % batch.heads != 0) {
    rt_report_fatal(kBadBatch, "%u heads do not divide the hidden size %u", batch.heads, batch.hidden);
    return false;
  }
  return true;
}

void multiply(const Batch& batch, const Tensor& in, const Tensor& weight, const Tensor& bias, const Tensor& out,
              uint64_t activation) {
  CoreTaskArgs task;
  task.launch_spec.set_block_num(batch.blocks);
  task.add_input(in, weight, bias);
  task.add_inout(out);
  task.add_scalar(activation, kInputsByOutputs);
  rt_submit_aic_task(kMatmulBias, task);
}

void attend(const Batch& batch, const Tensor& qkv, const Tensor& lengths, const Tensor& context) {
  CoreTaskArgs task;
  task.launch_spec.set_block_num(batch.blocks);
  task.add_input(qkv, lengths);
  task.add_inout(context);
  const float head_size = static_cast<float>(batch.hidden / batch.heads);
  task.add_scalar(uint64_t{batch.heads}, 1.0F / __builtin_sqrtf(head_size));
  rt_submit_aic_task(kAttention, task);
}

void add_and_normalise(const Batch& batch, const Tensor& addend, const Tensor& residual, const Tensor& gain,
                       const Tensor& bias, const Tensor& out) {
  CoreTaskArgs task;
  task.launch_spec.set_block_num(batch.blocks);
  task.add_input(addend, residual, gain, bias);
  task.add_inout(out);
  task.add_scalar(batch.epsilon);
  rt_submit_aiv_task(kAddLayernorm, task);
}

void embed(const Batch& batch, const ChipTaskArgs& args, const Tensor& out) {
  const Tensor ids = args.tensor(kIds).slice(0, 0, batch.texts * batch.tokens).reshape({batch.texts, batch.tokens});
  CoreTaskArgs task;
  task.launch_spec.set_block_num(batch.blocks);
  task.add_input(args.tensor(kWords), args.tensor(kPositions), args.tensor(kTypes), ids, args.tensor(kEmbeddingGain),
                 args.tensor(kEmbeddingBias));
  task.add_inout(out);
  task.add_scalar(uint64_t{0}, batch.epsilon);
  rt_submit_aiv_task(kEmbedding, task);
}

// What every layer writes anew; [texts, tokens, columns] each.
struct Work {
  Tensor state, middle, qkv, context, narrow, wide;
};

Work allocate(const Batch& batch) {
  const TensorCreateInfo hidden({batch.texts, batch.tokens, batch.hidden});
  const TensorCreateInfo triple({batch.texts, batch.tokens, 3 * batch.hidden});
  const TensorCreateInfo wide({batch.texts, batch.tokens, batch.wide});
  const TaskOutputTensors made = alloc_tensors(hidden, hidden, triple, hidden, hidden, wide);
  return Work{made.get_ref(0), made.get_ref(1), made.get_ref(2), made.get_ref(3), made.get_ref(4), made.get_ref(5)};
}

void encode_layer(const Batch& batch, const ChipTaskArgs& args, uint32_t index, const Work& work) {
  const auto weight = [&](Argument which) { return layer_of(args.tensor(which), index); };
  multiply(batch, work.state, weight(kQkv), weight(kQkvBias), work.qkv, kNoActivation);
  attend(batch, work.qkv, args.tensor(kLengths), work.context);
  multiply(batch, work.context, weight(kAttentionOut), weight(kAttentionOutBias), work.narrow, kNoActivation);
  add_and_normalise(batch, work.narrow, work.state, weight(kAttentionGain), weight(kAttentionNormBias), work.middle);
  multiply(batch, work.middle, weight(kUp), weight(kUpBias), work.wide, kGelu);
  multiply(batch, work.wide, weight(kDown), weight(kDownBias), work.narrow, kNoActivation);
  add_and_normalise(batch, work.narrow, work.middle, weight(kOutputGain), weight(kOutputNormBias), work.state);
}

void pool(const Batch& batch, const ChipTaskArgs& args, const Tensor& state) {
  const TensorCreateInfo pooled({batch.texts, batch.hidden});
  CoreTaskArgs mean;
  mean.add_input(state, args.tensor(kLengths));
  mean.add_output(pooled);
  const TaskOutputTensors made = rt_submit_aiv_task(kMeanPool, mean);
  CoreTaskArgs norm;
  norm.add_input(made.get_ref(0));
  norm.add_output(args.tensor(kVectors));
  norm.add_scalar(1e-12F);
  rt_submit_aiv_task(kL2norm, norm);
}

}  // namespace

SIMPLER_ORCHESTRATION OrchestrationConfig encode_config(const ChipTaskArgs&) {
  return OrchestrationConfig{uint32_t{kTensorCount} + uint32_t{kScalarCount}};
}

SIMPLER_ORCHESTRATION void encode(const ChipTaskArgs& args) {
  Batch batch{};
  if (!read_batch(args, batch)) return;
  const Work work = allocate(batch);
  embed(batch, args, work.state);
  for (uint32_t layer = 0; layer < args.tensor(kQkv).shapes[0]; ++layer) encode_layer(batch, args, layer, work);
  pool(batch, args, work.state);
}
