// The simulated chip alone: an empty run, an independent task and one hop of a chain, the writing of the graph
// included.
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "chip/chip_worker.h"
#include "harness/harness.h"
#include "yardsticks/crowd.h"
#include "yardsticks/exchange.h"

namespace simpler::bench {
namespace {

using namespace orchestration;

constexpr uint32_t kTasks = 4000;

void nothing(int64_t*) {}

class Kernels final : public kernel::KernelSource {
 public:
  const kernel::BuiltinKernel* find(const char*, size_t, uint32_t) const override { return &kernel_; }

 private:
  kernel::BuiltinKernel kernel_{"nothing", 1, kernel::CoreType::kAiv, nothing};
};

void independent(const ChipTaskArgs& args) {
  const auto count = args.scalar<uint32_t>(0);
  CoreTaskArgs task;
  for (uint32_t i = 0; i < count; ++i) {
    task.reset();
    task.add_input(args.tensor(0));
    task.add_scalar(i);
    rt_submit_aiv_task(0, task);
  }
}

void chain(const ChipTaskArgs& args) {
  const auto count = args.scalar<uint32_t>(0);
  CoreTaskArgs task;
  for (uint32_t i = 0; i < count; ++i) {
    task.reset();
    task.add_inout(args.tensor(0));
    task.add_scalar(i);
    rt_submit_aiv_task(0, task);
  }
}

class Orchestrations final : public OrchestrationSource {
 public:
  const BuiltinOrchestration* find(const char* name, size_t length, uint32_t) const override {
    return std::string_view(name, length) == "chain" ? &chain_ : &independent_;
  }

 private:
  BuiltinOrchestration independent_{"independent", 1, nullptr, independent, framework_bind_runtime};
  BuiltinOrchestration chain_{"chain", 1, nullptr, chain, framework_bind_runtime};
};

void require(const Status& status) {
  if (status.is_ok()) return;
  std::fprintf(stderr, "%s\n", status.describe().c_str());
  std::abort();
}

// A chip with the two graphs registered, and one tensor to give them.
class ChipRig {
 public:
  explicit ChipRig(uint32_t threads) {
    chip::ChipOptions options;
    options.platform = "a2a3sim";
    options.threads = threads;
    options.kernels = &kernels_;
    options.orchestrations = &orchestrations_;
    auto chip = chip::ChipWorker::create(options);
    require(chip.status());
    chip_ = std::move(chip).value();
    const std::vector<ChipChild> child = {{0, CoreCallable::builtin({}, BuiltinName{"nothing", 1})}};
    const std::vector<ArgDirection> signature = {ArgDirection::kInout};
    require(
        chip_->register_callable(0, ChipCallable::builtin(signature, BuiltinName{"independent", 1}, child).bytes()));
    require(chip_->register_callable(1, ChipCallable::builtin(signature, BuiltinName{"chain", 1}, child).bytes()));
    auto memory = chip_->malloc(4096);
    require(memory.status());
    tensors_ = {ChipTensor::make(*memory, std::vector<uint32_t>{1024}, simpler::DataType::kFloat32, true)};
  }

  // ns for one run of `tasks` tasks.
  double run(uint32_t callable, uint32_t tasks) {
    const std::vector<uint64_t> scalars = {tasks};
    const double begin = now_ns();
    require(chip_->run(callable, chip::ChipArgs{tensors_, scalars}, CallConfig{}));
    return now_ns() - begin;
  }
  // ns for one of `count` runs of one task, one after the other.
  double runs(uint32_t count) {
    double spent = 0;
    for (uint32_t i = 0; i < count; ++i) spent += run(0, 1);
    return spent / count;
  }
  uint64_t blocks() const { return chip_->statistics().blocks; }

 private:
  Kernels kernels_;
  Orchestrations orchestrations_;
  std::unique_ptr<chip::ChipWorker> chip_;
  std::vector<ChipTensor> tensors_;
};

void entries(Harness& harness) {
  for (uint32_t threads : {1u, 2u}) {
    const std::string suffix = threads == 1 ? "" : "/2-threads";
    ChipRig rig(threads);
    harness.check("chip/every-task-runs" + suffix, [&] {
      rig.run(0, 100);
      rig.run(1, 100);
      return rig.blocks() == 200;
    });
    // Both sides on one processor, where every exchange sleeps and is woken. On two it has values from 0.6 us, when
    // both find the other's word before they sleep, to 80 us, by the scheduler's choice.
    CrowdYardstick crowd(1, 0);
    harness.compare({.name = "chip/empty-run" + suffix,
                     .subject = {"run of one task", [&] { return rig.runs(20); }},
                     .yardsticks = {{"FUT",
                                     [&] {
                                       Pinned near(0);
                                       return crowd.fut(20);
                                     }}},
                     .target = 5.0,
                     .batches = 200});
    ExchangeYardstick exchange;
    const auto ppf = [&] { return exchange.ppf(200); };
    harness.compare({.name = "chip/independent-task" + suffix,
                     .subject = {"task", [&] { return rig.run(0, kTasks) / kTasks; }},
                     .yardsticks = {{"PPF", ppf}},
                     .target = 8.0,
                     .batches = 30});
    harness.compare({.name = "chip/chain-hop" + suffix,
                     .subject = {"hop", [&] { return rig.run(1, kTasks) / kTasks; }},
                     .yardsticks = {{"PPF", ppf}},
                     .target = 40.0,
                     .batches = 30});
  }
}

}  // namespace
}  // namespace simpler::bench

int main(int argc, char** argv) {
  simpler::bench::Harness harness(argc, argv);
  simpler::bench::entries(harness);
  return harness.finish();
}
