// Which edges a graph gets, and that a warm build allocates nothing.
#include "chip/host_planner.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <new>
#include <vector>

#include <gtest/gtest.h>

#include "chip/graph_image.h"

namespace {
thread_local uint64_t allocations = 0;
}

// Not inlined: the compiler would take the pairing of malloc and delete for a mistake.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace simpler::chip {
namespace {

using namespace orchestration;

void kernel_body(int64_t*) {}

class OneKernel final : public kernel::KernelSource {
 public:
  const kernel::BuiltinKernel* find(const char*, size_t, uint32_t) const override { return &kernel_; }

 private:
  kernel::BuiltinKernel kernel_{"k", 1, kernel::CoreType::kAiv, kernel_body};
};

using Body = std::function<void(const ChipTaskArgs&)>;
const Body* current_body = nullptr;

class AnyBody final : public OrchestrationSource {
 public:
  const BuiltinOrchestration* find(const char*, size_t, uint32_t) const override { return &body_; }

 private:
  BuiltinOrchestration body_{"body", 1, nullptr, [](const ChipTaskArgs& args) { (*current_body)(args); },
                             framework_bind_runtime};
};

// Plans `body` over two matrices of 8 x 8 and answers who waits for whom.
class Planned {
 public:
  Planned() : planner_(map_, image_) {
    const std::vector<ChipChild> child = {{0, CoreCallable::builtin({}, BuiltinName{"k", 1})}};
    const ChipCallable callable = ChipCallable::builtin({}, BuiltinName{"body", 1}, child);
    callable_ = std::move(LoadedCallable::load(callable.bytes(), &kernels_, &bodies_)).value();
    EXPECT_TRUE(map_.reserve(1024, 64).is_ok());
    const uint32_t shape[2] = {8, 8};
    tensors_.push_back(make_tensor_external(memory_, shape, 2));
    tensors_.push_back(make_tensor_external(memory_ + 64, shape, 2));
  }

  Status plan(const Body& body) {
    current_body = &body;
    EXPECT_TRUE(image_.prepare({64, 128, 1 << 20}).is_ok());
    PlannerSetup setup;
    setup.kernels = callable_->kernels();
    setup.window = 64;
    setup.fanin_per_task = 128;
    EXPECT_TRUE(planner_.reset(setup).is_ok());
    return planner_.build(*callable_, ChipTaskArgs(tensors_.data(), 2, nullptr, 0));
  }

  std::vector<uint32_t> producers(uint32_t task) const {
    const device::TaskSlot& slot = image_.slot(task);
    const uint32_t* first = image_.graph().fanin + slot.fanin_begin;
    std::vector<uint32_t> out(first, first + slot.fanin_left);
    std::sort(out.begin(), out.end());
    return out;
  }
  const GraphImage& image() const { return image_; }

 private:
  OneKernel kernels_;
  AnyBody bodies_;
  float memory_[128] = {};
  GraphImage image_;
  TensorMap map_;
  HostPlanner planner_;
  std::unique_ptr<LoadedCallable> callable_;
  std::vector<Tensor> tensors_;
};

using Edges = std::vector<uint32_t>;

TaskId submit(const Tensor* in, const Tensor* inout, const Tensor* out) {
  CoreTaskArgs task;
  if (in != nullptr) task.add_input(*in);
  if (inout != nullptr) task.add_inout(*inout);
  if (out != nullptr) task.add_output(*out);
  return rt_submit_aiv_task(0, task).task_id();
}

TEST(HostPlanner, AReaderWaitsForEveryWriterOfWhatItReads) {
  Planned planned;
  const Status status = planned.plan([](const ChipTaskArgs& args) {
    const Tensor top = args.tensor(0).slice(0, 0, 4), bottom = args.tensor(0).slice(0, 4, 8);
    submit(nullptr, nullptr, &top);             // 0
    submit(nullptr, nullptr, &bottom);          // 1
    submit(&bottom, nullptr, nullptr);          // 2
    submit(&args.tensor(0), nullptr, nullptr);  // 3
    submit(&args.tensor(1), nullptr, nullptr);  // 4
  });
  ASSERT_TRUE(status.is_ok()) << status.describe();
  EXPECT_EQ(planned.producers(2), Edges{1});
  EXPECT_EQ(planned.producers(3), (Edges{0, 1}));
  EXPECT_EQ(planned.producers(4), Edges{});
}

TEST(HostPlanner, AnInPlaceUpdateThatCoversItsProducerReplacesIt) {
  Planned planned;
  const Status status = planned.plan([](const ChipTaskArgs& args) {
    submit(nullptr, nullptr, &args.tensor(0));  // 0
    submit(nullptr, &args.tensor(0), nullptr);  // 1
    submit(&args.tensor(0), nullptr, nullptr);  // 2
  });
  ASSERT_TRUE(status.is_ok()) << status.describe();
  EXPECT_EQ(planned.producers(1), Edges{0});
  EXPECT_EQ(planned.producers(2), Edges{1});
}

TEST(HostPlanner, PlainOutputsDoNotLookAndReadersAreNotRemembered) {
  Planned planned;
  const Status status = planned.plan([](const ChipTaskArgs& args) {
    submit(&args.tensor(0), nullptr, nullptr);  // 0
    submit(nullptr, nullptr, &args.tensor(0));  // 1: no edge to the reader
    submit(nullptr, nullptr, &args.tensor(0));  // 2: nor to the other writer
    submit(&args.tensor(0), nullptr, nullptr);  // 3
  });
  ASSERT_TRUE(status.is_ok()) << status.describe();
  EXPECT_EQ(planned.producers(1), Edges{});
  EXPECT_EQ(planned.producers(2), Edges{});
  EXPECT_EQ(planned.producers(3), (Edges{1, 2}));
}

TEST(HostPlanner, NoDepAndManualDepKeepTheCreatorEdgeOnly) {
  Planned planned;
  const Status status = planned.plan([](const ChipTaskArgs& args) {
    const TensorCreateInfo info({8, 8}), manual({8, 8}, kernel::DataType::kFloat32, true);
    CoreTaskArgs make;
    make.add_output(info, manual);
    const TaskOutputTensors made = rt_submit_aiv_task(0, make);  // 0
    submit(nullptr, &made.get_ref(0), nullptr);                  // 1
    submit(nullptr, &made.get_ref(1), nullptr);                  // 2
    CoreTaskArgs pass;
    pass.add_no_dep(made.get_ref(0));
    rt_submit_aiv_task(0, pass);                 // 3
    submit(&made.get_ref(0), nullptr, nullptr);  // 4
    submit(&made.get_ref(1), nullptr, nullptr);  // 5
    submit(&args.tensor(0), nullptr, nullptr);   // 6
  });
  ASSERT_TRUE(status.is_ok()) << status.describe();
  EXPECT_EQ(planned.producers(1), Edges{0});
  EXPECT_EQ(planned.producers(3), Edges{0});
  EXPECT_EQ(planned.producers(4), (Edges{0, 1})) << "the pass-through of 3 is no producer";
  EXPECT_EQ(planned.producers(5), Edges{0}) << "the update of 2 is not looked up";
  EXPECT_EQ(planned.producers(6), Edges{});
}

TEST(HostPlanner, OutputsArePackedAndAllocationsNeedNoExecution) {
  Planned planned;
  const Status status = planned.plan([](const ChipTaskArgs&) {
    const TensorCreateInfo small({3}), large({300});
    const TaskOutputTensors made = alloc_tensors(small, large, small);  // 0
    EXPECT_EQ(made.count(), 3u);
    EXPECT_EQ(made.get_ref(0).addr % 1024, 0u);
    EXPECT_EQ(made.get_ref(1).addr - made.get_ref(0).addr, 1024u);
    EXPECT_EQ(made.get_ref(2).addr - made.get_ref(1).addr, 2048u);
    submit(nullptr, nullptr, &made.get_ref(2));  // 1
  });
  ASSERT_TRUE(status.is_ok()) << status.describe();
  EXPECT_EQ(planned.producers(1), Edges{}) << "the allocation is complete already";
  EXPECT_EQ(planned.image().graph().complete, 1u);
  EXPECT_EQ(planned.image().heap_used(), 4096u);
}

TEST(HostPlanner, ManualScopesInferNothingAndExplicitEdgesCountOnce) {
  Planned planned;
  const Status status = planned.plan([](const ChipTaskArgs& args) {
    SIMPLER_SCOPE(ScopeMode::kManual) {
      const TaskId first = submit(nullptr, nullptr, &args.tensor(0));  // 0
      submit(&args.tensor(0), nullptr, nullptr);                       // 1
      const TaskId twice[2] = {first, first};
      CoreTaskArgs task;
      task.set_dependencies(twice, 2);
      rt_submit_dummy_task(task);  // 2
    }
    submit(&args.tensor(0), nullptr, nullptr);  // 3: the manual writer was not registered
  });
  ASSERT_TRUE(status.is_ok()) << status.describe();
  EXPECT_EQ(planned.producers(1), Edges{});
  EXPECT_EQ(planned.producers(2), Edges{0});
  EXPECT_EQ(planned.producers(3), Edges{});
}

TEST(HostPlanner, AfterAFatalEveryCallIsASilentNoOp) {
  Planned planned;
  const Status status = planned.plan([](const ChipTaskArgs& args) {
    submit(nullptr, nullptr, &args.tensor(0));
    rt_report_fatal(1, "stop");
    EXPECT_TRUE(rt_is_fatal());
    submit(nullptr, nullptr, &args.tensor(0));
    const TensorCreateInfo info({8});
    EXPECT_EQ(alloc_tensors(info).count(), 0u);
    EXPECT_EQ(get_tensor_data<float>(args.tensor(0), {0, 0}), 0.0f);
    EXPECT_EQ(rt_available_aiv_count(), 0u);
    SIMPLER_SCOPE() {}
  });
  EXPECT_EQ(status.run_code(), 9);
  EXPECT_EQ(planned.image().node_count(), 1u);
}

TEST(HostPlanner, AWarmBuildAllocatesNothing) {
  Planned planned;
  uint64_t spent = ~uint64_t{0};
  const Body body = [&](const ChipTaskArgs& args) {
    const uint64_t before = allocations;
    const TensorCreateInfo info({16});
    const TaskOutputTensors made = alloc_tensors(info);
    CoreTaskArgs task;
    for (uint32_t i = 0; i < 40; ++i) {
      const Tensor row = args.tensor(0).slice(0, i % 8, i % 8 + 1);
      task.reset();
      task.add_input(made.get_ref(0));
      task.add_inout(row);
      task.add_scalar(i);
      rt_submit_aiv_task(0, task);
    }
    spent = allocations - before;
  };
  for (int round = 0; round < 3; ++round) ASSERT_TRUE(planned.plan(body).is_ok());
  EXPECT_EQ(spent, 0u);
}

}  // namespace
}  // namespace simpler::chip
