#include "simulation/sim_scene.h"

#include <utility>

#include "base/check.h"

namespace simpler::simulation {

Ground::Ground()
    : tables(std::move(*memory::SharedTables::create())),
      arena(std::move(*memory::ArgsArena::create({.slots = kMaxWindow, .large_bytes = 1 << 20}))),
      heap(std::move(*memory::Heap::create({.region_bytes = 2 << 20}))) {
  for (auto& buffer : buffers) buffer = *tables->put_buffer(describe());
  kinds = {{{kSide, kSide}, {kSide, 1}},
           {{1, kSide}, {kSide, 1}},
           {{kSide, 1}, {kSide, 1}},
           {{2, 2}, {kSide, 1}},
           {{4}, {1}},
           {{kCells}, {1}},
           {{kCells / 2}, {2}},
           {{kSide, kSide}, {1, kSide}},
           {{3}, {1}}};
  for (const ViewKind& kind : kinds) {
    layouts.push_back(tables->intern_layout(*make_tensor(describe(), kind.shape, DataType::kInt64, kind.strides, 0)));
  }
}

BufferDescriptor Ground::describe() {
  BufferDescriptor descriptor;
  descriptor.identity = tables->mint_identity();
  descriptor.nbytes = kCells * 8;
  set_body_address(descriptor, 0x1000);
  return descriptor;
}

Plan draw_plan(SeededRandom& random, uint64_t seed) {
  Plan plan;
  plan.options.window = 64U << random.below(3);
  plan.options.max_runs = static_cast<uint32_t>(1 + random.below(3));
  plan.options.early_push = random.below(5) != 0;
  plan.options.tensor_map_entries = 64;
  if (random.below(2) == 0) plan.options.defer_from = static_cast<uint32_t>(random.below(6));
  plan.next_levels = static_cast<uint32_t>(1 + random.below(4));
  plan.subs = static_cast<uint32_t>(random.below(4));
  plan.may_fail = random.below(3) == 0;
  plan.may_lose = random.below(6) == 0;
  plan.may_cancel = random.below(5) == 0;
  plan.slow_child = random.below(3) == 0;
  plan.big_allocations = random.below(3) == 0;
  plan.runs = static_cast<uint32_t>(1 + random.below(4));
  // A draw of its own: what else a seed means does not depend on the rules.
  const uint64_t rules = SeededRandom(~seed).below(8);
  if (rules < 2) plan.options.inference = graph::Inference::kWritersOnly;
  plan.adds_edges = rules == 1;
  return plan;
}

SimTask& Scene::task_of(const wire::Dispatch& dispatch) {
  const auto found = by_name_.find(uint64_t{dispatch.slot} << 32 | dispatch.slot_generation);
  SIMPLER_CHECK(found != by_name_.end(), dispatch.slot, dispatch.slot_generation);
  return tasks[found->second];
}

void Scene::name_task(const SimTask& task) {
  by_name_[uint64_t{task.id.slot} << 32 | task.id.generation] = task.number;
}

}  // namespace simpler::simulation
