// One graph of order-fixed kernels, the same bytes everywhere: on a lane in this process, on mailbox lanes of a node,
// and on every simulated chip.
#include <array>
#include <cstring>
#include <vector>

#include "base/environment.h"
#include "chip/chip_worker.h"
#include "engine/engine.h"
#include "kernels/catalog.h"
#include "lane/inproc_lane.h"
#include "memory/buffer_table.h"
#include "node_fixture.h"
#include "worker/level_memory.h"
#include "worker/serve_chip.h"

namespace simpler::testing {
namespace {

constexpr std::uint32_t kSide = 37;  // no multiple of any vector width
constexpr std::uint32_t kCells = kSide * kSide;
constexpr std::uint32_t kSteps = 6;
constexpr std::uint64_t kNbytes = kCells * 4;

ChipCallable layer() {
  constexpr ArgDirection kIn = ArgDirection::kIn;
  constexpr ArgDirection kOut = ArgDirection::kOut;
  constexpr ArgDirection kScalar = ArgDirection::kScalar;
  const std::vector<ArgDirection> product = {kIn, kIn, kOut, kScalar, kScalar};
  const std::vector<ArgDirection> bend = {kIn, kOut};
  const std::vector<ArgDirection> norm = {kIn, kIn, kIn, kIn, kOut, kScalar};
  const std::vector<ChipChild> children = {{0, CoreCallable::builtin(product, {"matmul", 1})},
                                           {1, CoreCallable::builtin(bend, {"gelu", 1})},
                                           {2, CoreCallable::builtin(norm, {"add_layernorm", 1})}};
  const std::vector<ArgDirection> signature = {kIn, kIn, kIn, kIn, kOut};
  return ChipCallable::build(signature, "layer", read_file(GRAPHS), children);
}

// The buffers of the graph: two states that take turns, two weights, gamma, beta. Every step reads one state and writes
// the other, so that each order which the graph demands decides about the result.
struct Data {
  std::array<float*, 2> state{};
  std::array<float*, 2> weights{};
  float* gamma = nullptr;
  float* beta = nullptr;

  void fill() const {
    for (std::uint32_t i = 0; i < kCells; ++i) {
      state[0][i] = static_cast<float>(static_cast<int>(i * 7919 % 1000) - 500) / 331.0F;
      weights[0][i] = static_cast<float>(static_cast<int>(i * 104729 % 1000) - 500) / 777.0F;
      weights[1][i] = static_cast<float>(static_cast<int>(i * 1299709 % 1000) - 500) / 913.0F;
    }
    for (std::uint32_t i = 0; i < kSide; ++i) {
      gamma[i] = 1 + static_cast<float>(i) / 100.0F;
      beta[i] = static_cast<float>(i % 5) / 7.0F;
    }
  }
  std::vector<float> result() const { return {state[kSteps % 2], state[kSteps % 2] + kCells}; }
};

// Engine, lane and chip in this process and on this thread.
std::vector<float> on_a_lane_in_this_process() {
  const WorkerOptions options{.level = 3, .platform = "a2a3sim", .device_ids = {0}};
  auto memory = std::move(*worker::LevelMemory::create(options, 1, 8));
  memory::HostStore store;
  memory::BufferTable table(memory->tables());
  std::array<memory::OwnedBuffer, 6> owned;
  for (auto& buffer : owned) buffer = std::move(*table.create(store, kNbytes));
  const auto floats = [&](std::size_t i) { return reinterpret_cast<float*>(owned[i].backing->data()); };
  const Data data{{floats(0), floats(1)}, {floats(2), floats(3)}, floats(4), floats(5)};
  data.fill();

  const auto catalog = std::move(*kernels::Catalog::open(*kernels::catalog_options(Environment())));
  auto chip = std::move(*chip::ChipWorker::create({.platform = "a2a3sim", .kernels = catalog.get()}));
  constexpr std::uint16_t kLayer = 3;
  EXPECT_TRUE(chip->register_callable(kLayer, layer().bytes()).is_ok());
  const memory::SharedMapping& tables = memory->tables().mapping();
  const memory::SharedTablesView view = *memory::SharedTablesView::open(tables.data(), tables.size());
  memory::ImportRegistry imports({.endpoint = memory::Endpoint::kChip});
  const memory::SharedMapping& arena = memory->arena().mapping();
  memory::ArgsReader reader(view, memory::ArgsArenaView(arena.data(), arena.size()), imports);
  wire::ChildStatistics statistics{};
  worker::ChipHandler handler(*chip, view, reader, imports, worker::UserTime(statistics, false),
                              worker::TaskTrace(nullptr));
  lane::InprocLane lane({.type = WorkerType::kNextLevel, .queue_depth = 8, .in_order = true}, handler);
  engine::Engine engine({}, memory->tables(), memory->arena(), nullptr);
  EXPECT_TRUE(engine.add_lane(lane).ok());

  const auto ref = [&](std::size_t i, std::vector<std::uint32_t> shape) {
    const Tensor tensor = *make_tensor(owned[i].descriptor, shape, DataType::kFloat32, {}, 0);
    return wire::TensorRef{owned[i].ref.index, owned[i].ref.generation, memory->tables().intern_layout(tensor), 0, 0};
  };
  const engine::RunRef run = *engine.begin_run();
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    const std::array tensors = {ref(step % 2, {kSide, kSide}), ref(2 + step % 2, {kSide, kSide}), ref(4, {kSide}),
                                ref(5, {kSide}), ref((step + 1) % 2, {kSide, kSide})};
    const std::array tags = {TensorArgType::kInput, TensorArgType::kInput, TensorArgType::kInput, TensorArgType::kInput,
                             TensorArgType::kOutputExisting};
    const engine::MemberArgs member{tensors, tags, {}, 0};
    engine::TaskRequest request;
    request.callable = kLayer;
    request.members = {&member, 1};
    engine::TaskId task;
    EXPECT_TRUE(engine.submit(run, request, &task).is_ok());
  }
  EXPECT_TRUE(engine.close_run(run).is_ok());
  while (engine.unfinished_runs() != 0) engine.pump(64);
  EXPECT_TRUE(run.record->errors.empty()) << run.record->errors.front().describe();
  return data.result();
}

std::vector<float> on_a_node(const std::string& platform) {
  Worker worker({.level = 3, .platform = platform, .device_ids = {0, 1}});
  const CallableHandle chip = worker.register_callable(layer());
  worker.init();
  std::array<Buffer, 6> buffers;
  for (Buffer& buffer : buffers) buffer = worker.create_buffer(kNbytes);
  const auto floats = [&](std::size_t i) { return reinterpret_cast<float*>(buffers[i].data()); };
  const Data data{{floats(0), floats(1)}, {floats(2), floats(3)}, floats(4), floats(5)};
  data.fill();
  worker.run([&](Orchestrator& orch) {
    const auto square = [&](std::size_t i) { return buffers[i].tensor({kSide, kSide}, DataType::kFloat32); };
    const auto row = [&](std::size_t i) { return buffers[i].tensor({kSide}, DataType::kFloat32); };
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      orch.submit_next_level(chip,
                             TaskArgs()
                                 .input(square(step % 2))
                                 .input(square(2 + step % 2))
                                 .input(row(4))
                                 .input(row(5))
                                 .output(square((step + 1) % 2)),
                             static_cast<int>(step % 2));
    }
  });
  std::vector<float> result = data.result();
  worker.close();
  return result;
}

TEST(SameBytes, OneGraphOnEveryKindOfLaneAndEveryChip) {
  const std::vector<float> expected = on_a_lane_in_this_process();
  ASSERT_EQ(expected.size(), kCells);
  float least = expected[0];
  float most = expected[0];
  for (const float value : expected) {
    ASSERT_EQ(value, value);
    least = std::min(least, value);
    most = std::max(most, value);
  }
  EXPECT_GT(most - least, 1.0F);
  for (const char* platform : {"a2a3sim", "a5sim", "tiny"}) {
    const std::vector<float> found = on_a_node(platform);
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), kNbytes), 0) << platform;
  }
}

}  // namespace
}  // namespace simpler::testing
