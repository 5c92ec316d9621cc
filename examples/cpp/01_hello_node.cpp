// A node with two host children runs a small graph; edges come from the tensors that tasks share.
//
//     fill a ──► sum of squares ──► total[0] ─┐
//     fill b ──► sum of squares ──► total[1] ─┴─► add
//
// Build it with find_package(simpler) and target_link_libraries(… simpler::simpler).
#include <cstdio>

#include "simpler/simpler.h"

namespace {

constexpr std::uint32_t kCount = 1000;

// args: values (out); scalar: the first value
void fill(const simpler::MappedArgs& args) {
  std::int64_t* values = args[0].as<std::int64_t>();
  for (std::uint32_t i = 0; i < args[0].shape[0]; ++i) {
    values[i] = static_cast<std::int64_t>(args.scalar(0) + i);
  }
}

// args: values (in), one sum (out)
void sum_of_squares(const simpler::MappedArgs& args) {
  std::int64_t total = 0;
  for (std::uint32_t i = 0; i < args[0].shape[0]; ++i) {
    const std::int64_t value = args[0].as<const std::int64_t>()[i];
    total += value * value;
  }
  *args[1].as<std::int64_t>() = total;
}

// args: sums (in), their sum (out)
void add(const simpler::MappedArgs& args) {
  std::int64_t total = 0;
  for (std::uint32_t i = 0; i < args[0].shape[0]; ++i) {
    total += args[0].as<const std::int64_t>()[i];
  }
  *args[1].as<std::int64_t>() = total;
}

}  // namespace

int main() {
  using simpler::DataType;
  using simpler::TaskArgs;
  simpler::Worker worker({.level = 3, .num_sub_workers = 2});
  const auto fill_task = worker.register_native("fill", fill);
  const auto sum_task = worker.register_native("sum_of_squares", sum_of_squares);
  const auto add_task = worker.register_native("add", add);
  worker.init();

  const simpler::Buffer result = worker.create_buffer(8);
  worker.run([&](simpler::Orchestrator& orch) {
    const simpler::Buffer totals = orch.alloc({2}, DataType::kInt64);
    for (std::uint32_t half = 0; half < 2; ++half) {
      const simpler::Buffer values = orch.alloc({kCount}, DataType::kInt64);
      const simpler::Tensor all = values.tensor({kCount}, DataType::kInt64);
      const simpler::Tensor total = totals.tensor({1}, DataType::kInt64, half * sizeof(std::int64_t));
      orch.submit_sub(fill_task, TaskArgs().output(all).add_scalar(half * kCount));
      orch.submit_sub(sum_task, TaskArgs().input(all).output(total));
    }
    orch.submit_sub(
        add_task, TaskArgs().input(totals.tensor({2}, DataType::kInt64)).output(result.tensor({1}, DataType::kInt64)));
  });
  std::printf("sum of squares below %u: %lld\n", 2 * kCount,
              static_cast<long long>(*reinterpret_cast<const std::int64_t*>(result.data())));
  worker.close();
}

// Output:
// sum of squares below 2000: 2664667000
