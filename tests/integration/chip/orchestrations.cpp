// Graphs of the chip tests, each an entry function of one shared object. Kernels are numbered as in test_chip.h.
#include <cstdint>
#include <stdexcept>

#include "kernel_ids.h"
#include "simpler/orchestration.h"

using namespace simpler::orchestration;

SIMPLER_ORCHESTRATION OrchestrationConfig three_arguments(const ChipTaskArgs&) {
  return {3};
}

// out = (a + b + 1) * (a + b + 2) + (a + b)
SIMPLER_ORCHESTRATION void vector_example(const ChipTaskArgs& args) {
  const auto& a = args.tensor(0).ref();
  const auto& b = args.tensor(1).ref();
  const auto& out = args.tensor(2).ref();
  TensorCreateInfo like(a.shapes, a.ndims);
  SIMPLER_SCOPE() {
    CoreTaskArgs task;
    task.add_input(a, b);
    task.add_output(like);
    const TaskOutputTensors sum = rt_submit_aiv_task(kAdd, task);
    CoreTaskArgs first;
    first.add_input(sum.get_ref(0));
    first.add_output(like);
    first.add_scalar(1.0f);
    const TaskOutputTensors plus_one = rt_submit_aiv_task(kAddScalar, first);
    CoreTaskArgs second;
    second.add_input(sum.get_ref(0));
    second.add_output(like);
    second.add_scalar(2.0f);
    const TaskOutputTensors plus_two = rt_submit_aiv_task(kAddScalar, second);
    CoreTaskArgs product;
    product.add_input(plus_one.get_ref(0), plus_two.get_ref(0));
    product.add_output(like);
    const TaskOutputTensors times = rt_submit_aic_task(kMultiply, product);
    CoreTaskArgs last;
    last.add_input(times.get_ref(0), sum.get_ref(0));
    last.add_output(out);
    rt_submit_aiv_task(kAdd, last);
  }
}

// x = x * 3 + k for k = 0 … n-1, in place and in order.
SIMPLER_ORCHESTRATION void chain(const ChipTaskArgs& args) {
  const auto n = args.scalar<int32_t>(0);
  const Tensor& x = args.tensor(0);
  CoreTaskArgs task;
  for (int32_t k = 0; k < n; ++k) {
    task.reset();
    task.add_inout(x);
    task.add_scalar(k);
    if (k % 2 == 0) {
      rt_submit_aic_task(kAffineAic, task);
    } else {
      rt_submit_aiv_task(kAffine, task);
    }
  }
}

// Rows of `scratch` are written one by one, then its transpose is read into `out`.
SIMPLER_ORCHESTRATION void transpose(const ChipTaskArgs& args) {
  const Tensor& in = args.tensor(0);
  const Tensor& out = args.tensor(1);
  TensorCreateInfo like(in.shapes, in.ndims);
  const TaskOutputTensors made = alloc_tensors(like);
  const Tensor& scratch = made.get_ref(0);
  CoreTaskArgs task;
  for (uint32_t row = 0; row < in.shapes[0]; ++row) {
    const Tensor from = in.view({1, in.shapes[1]}, {row, 0});
    const Tensor to = scratch.slice(0, row, row + 1);
    task.reset();
    task.add_input(from);
    task.add_output(to);
    rt_submit_aiv_task(kCopy, task);
  }
  const Tensor turned = scratch.transpose(0, 1);
  task.reset();
  task.add_input(turned);
  task.add_output(out);
  rt_submit_aiv_task(kCopy, task);
}

// permute, reshape and a stepped slice: out[i] = in seen as [2][3][4], permuted to [4][2][3], flat, every second.
SIMPLER_ORCHESTRATION void reshapes(const ChipTaskArgs& args) {
  const Tensor cube = args.tensor(0).reshape({2, 3, 4});
  const Tensor turned = cube.permute({2, 0, 1});
  TensorCreateInfo info({4, 2, 3});
  CoreTaskArgs task;
  task.add_input(turned);
  task.add_output(info);
  const TaskOutputTensors dense = rt_submit_aiv_task(kCopy, task);
  const Tensor odd = dense.get_ref(0).reshape({24}).slice(0, 1, 24, 2);
  CoreTaskArgs pick;
  pick.add_input(odd);
  pick.add_output(args.tensor(1));
  rt_submit_aiv_task(kCopy, pick);
}

// Only explicit dependencies: fill with 1, then times 3 plus 5, although nothing is inferred.
SIMPLER_ORCHESTRATION void manual_order(const ChipTaskArgs& args) {
  SIMPLER_SCOPE(ScopeMode::kManual) {
    CoreTaskArgs task;
    task.add_output(args.tensor(0));
    task.add_scalar(1.0f);
    const TaskId first = rt_submit_aiv_task(kFill, task).task_id();
    CoreTaskArgsWithDeps<2> next;
    next.add_inout(args.tensor(0));
    next.add_scalar(int32_t{5});
    next.add_dependency(first);
    next.add_dependency(first);
    const TaskId second = rt_submit_aiv_task(kAffine, next).task_id();
    CoreTaskArgsWithDeps<1> barrier;
    barrier.add_dependency(second);
    const TaskId third = rt_submit_dummy_task(barrier).task_id();
    SIMPLER_SCOPE(ScopeMode::kManual) {
      CoreTaskArgsWithDeps<1> last;
      last.add_inout(args.tensor(0));
      last.add_scalar(int32_t{7});
      last.add_dependency(third);
      rt_submit_aic_task(kAffineAic, last);
    }
  }
}

// Every block adds its number + 1 at its index; then all are doubled.
SIMPLER_ORCHESTRATION void blocks(const ChipTaskArgs& args) {
  CoreTaskArgs task;
  task.add_inout(args.tensor(0));
  task.launch_spec.set_block_num(args.scalar<uint32_t>(0));
  rt_submit_aiv_task(kBlockIndex, task);
  CoreTaskArgs last;
  last.add_inout(args.tensor(0));
  rt_submit_aiv_task(kDoubleInts, last);
}

// All blocks meet twice; with `spin` they wait without pause().
SIMPLER_ORCHESTRATION void barrier(const ChipTaskArgs& args) {
  CoreTaskArgs task;
  task.add_inout(args.tensor(0));
  task.add_scalar(args.scalar<uint32_t>(1));
  task.launch_spec.set_block_num(args.scalar<uint32_t>(0));
  rt_submit_aiv_task(kBarrier, task);
}

// Reads its loop count and a row number from the first argument.
SIMPLER_ORCHESTRATION void data_driven(const ChipTaskArgs& args) {
  const auto count = get_tensor_data<int32_t>(args.tensor(0), {0});
  set_tensor_data<float>(args.tensor(1), {1}, 100.0f);
  CoreTaskArgs task;
  for (int32_t k = 0; k < count; ++k) {
    task.reset();
    task.add_inout(args.tensor(1));
    task.add_scalar(k);
    rt_submit_aiv_task(kAffine, task);
  }
}

// Halves of one buffer: the upper half is written by a task, the lower one may still be read here.
SIMPLER_ORCHESTRATION void disjoint_read(const ChipTaskArgs& args) {
  const Tensor low = args.tensor(0).slice(0, 0, 4);
  const Tensor high = args.tensor(0).slice(0, 4, 8);
  CoreTaskArgs task;
  task.add_output(high);
  task.add_scalar(9.0f);
  rt_submit_aiv_task(kFill, task);
  const auto value = get_tensor_data<float>(low, {3});
  CoreTaskArgs second;
  second.add_output(low);
  second.add_scalar(value * 2);
  rt_submit_aiv_task(kFill, second);
}

// One kernel of the caller's choice on everything: scalar 0 is its number, scalar 1 the number of independent tasks.
SIMPLER_ORCHESTRATION void independent(const ChipTaskArgs& args) {
  CoreTaskArgs task;
  for (uint32_t i = 0; i < args.scalar<uint32_t>(1); ++i) {
    task.reset();
    task.add_no_dep(args.tensor(0));
    task.add_scalar(i);
    rt_submit_aiv_task(args.scalar<int32_t>(0), task);
  }
}

SIMPLER_ORCHESTRATION void empty(const ChipTaskArgs&) {}

// out = 2 * in, with the kernel of a shared object.
SIMPLER_ORCHESTRATION void twice(const ChipTaskArgs& args) {
  CoreTaskArgs task;
  task.add_input(args.tensor(0));
  task.add_output(args.tensor(1));
  rt_submit_aiv_task(0, task);
}

namespace {

void out_of_heap(const ChipTaskArgs&) {
  TensorCreateInfo big({1024});
  alloc_tensors(big, big);
}

void many_producers(const ChipTaskArgs& args, uint32_t count) {
  static thread_local TaskId ids[256];
  for (uint32_t i = 0; i < count; ++i) {
    CoreTaskArgs task;
    task.add_no_dep(args.tensor(0));
    ids[i] = rt_submit_aiv_task(kNothing, task).task_id();
  }
  CoreTaskArgs last;
  last.set_dependencies(ids, count);
  rt_submit_dummy_task(last);
}

void submit_fill(const Tensor& tensor) {
  CoreTaskArgs task;
  task.add_output(tensor);
  task.add_scalar(1.0f);
  rt_submit_aiv_task(kFill, task);
}

}  // namespace

// Scalar 0 picks one mistake or one exhausted resource.
SIMPLER_ORCHESTRATION void mistakes(const ChipTaskArgs& args) {
  const Tensor& x = args.tensor(0);
  CoreTaskArgs task;
  switch (static_cast<Mistake>(args.scalar<int32_t>(0))) {
    case Mistake::kScalarBeforeTensor:
      task.add_scalar(1);
      task.add_input(x);
      rt_submit_aiv_task(kNothing, task);
      break;
    case Mistake::kTooManyTensors:
      for (int i = 0; i < 33; ++i) task.add_input(x);
      rt_submit_aiv_task(kNothing, task);
      break;
    case Mistake::kTooManyScalars:
      for (int i = 0; i < 17; ++i) task.add_scalar(i);
      rt_submit_aiv_task(kNothing, task);
      break;
    case Mistake::kUnknownKernel:
      rt_submit_aiv_task(999, task);
      break;
    case Mistake::kNoKernel:
      rt_submit_task(MixedKernels{}, task);
      break;
    case Mistake::kAutoInManual:
      SIMPLER_SCOPE(ScopeMode::kManual) {
        SIMPLER_SCOPE() {
          submit_fill(x);
        }
      }
      break;
    case Mistake::kDeepScopes: {
      struct Nest {
        static void go(int depth) {
          SIMPLER_SCOPE_GUARD();
          if (depth > 0) go(depth - 1);
        }
      };
      Nest::go(80);
      break;
    }
    case Mistake::kFutureDependency: {
      const TaskId future{17};
      task.set_dependencies(&future, 1);
      rt_submit_dummy_task(task);
      break;
    }
    case Mistake::kViewOutside: {
      const Tensor bad = x.view({100}, {0});
      task.add_input(bad);
      rt_submit_aiv_task(kNothing, task);
      break;
    }
    case Mistake::kZeroBlocks:
      task.launch_spec.set_block_num(0);
      rt_submit_aiv_task(kNothing, task);
      break;
    case Mistake::kReadOwnOutput: {
      TensorCreateInfo info({4});
      task.add_output(info);
      task.add_scalar(1.0f);
      const TaskOutputTensors made = rt_submit_aiv_task(kFill, task);
      (void)get_tensor_data<float>(made.get_ref(0), {0});
      break;
    }
    case Mistake::kReadWritten:
      submit_fill(x);
      (void)get_tensor_data<float>(x, {0});
      break;
    case Mistake::kReadWrittenInManualScope:
      SIMPLER_SCOPE(ScopeMode::kManual) {
        submit_fill(x);
      }
      (void)get_tensor_data<float>(x, {0});
      break;
    case Mistake::kWriteWhatIsRead:
      task.add_input(x);
      rt_submit_aiv_task(kNothing, task);
      set_tensor_data<float>(x, {0}, 1.0f);
      break;
    case Mistake::kReadPureOutput:
      (void)get_tensor_data<float>(args.tensor(1), {0});
      break;
    case Mistake::kIndexOutside:
      (void)get_tensor_data<float>(x, {1000});
      break;
    case Mistake::kWrongElementSize:
      (void)get_tensor_data<double>(x, {0});
      break;
    case Mistake::kForeignMemory: {
      static float local = 3;
      const uint32_t shape = 1;
      (void)get_tensor_data<float>(make_tensor_external(&local, &shape, 1), {0});
      break;
    }
    case Mistake::kArgumentIndex:
      (void)args.tensor(40);
      break;
    case Mistake::kThrow:
      throw std::runtime_error("no graph today");
    case Mistake::kFatal:
      submit_fill(x);
      rt_report_fatal(77, "value %d is not right", 5);
      submit_fill(x);
      rt_report_fatal(78, "never seen");
      break;
    case Mistake::kHeap:
      out_of_heap(args);
      break;
    case Mistake::kWindow:
      for (int i = 0; i < 5; ++i) submit_fill(x);
      break;
    case Mistake::kProducers128:
      many_producers(args, 128);
      break;
    case Mistake::kProducers129:
      many_producers(args, 129);
      break;
    case Mistake::kTensorMap:
      for (uint32_t i = 0; i < 3; ++i) submit_fill(x.slice(0, i, i + 1));
      break;
    case Mistake::kMix:
      rt_submit_task(MixedKernels{kNothing, kNothing, kNoKernel}, task);
      break;
    case Mistake::kSyncStart:
      task.launch_spec.set_block_num(2);
      task.launch_spec.set_require_sync_start(true);
      rt_submit_aiv_task(kNothing, task);
      break;
    case Mistake::kPredicate:
      task.set_predicate(PredicateSource{&x, 1, {0}}, PredicateOp::kEq, 1);
      rt_submit_aiv_task(kNothing, task);
      break;
    case Mistake::kGraph:
      rt_submit_graph(1, 2);
      break;
  }
}
