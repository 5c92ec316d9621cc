// Rows of docs/scenarios.md that concern C++ programs.
#include <string>
#include <vector>

#include "node_fixture.h"

namespace simpler::testing {
namespace {

constexpr std::uint32_t kTasks = 1000;

class ScenarioTest : public NodeTest {
 protected:
  ScenarioTest() : NodeTest(WorkerOptions{.level = 3, .num_sub_workers = 2, .task_window = 2048}) {
    explode = worker.register_native("explode", [](const MappedArgs& args) {
      await_word(args[0]);
      if (args.scalar(0) == 0) {
        throw std::out_of_range("page 12");
      }
      throw 42;
    });
  }

  CallableHandle explode;
};

// One task of a thousand throws; the others neither stop nor leak their slots.
TEST_F(ScenarioTest, B046_AThrowingTaskAmongAThousandReachesTheWaiterAndEverySlotComesBack) {
  const Buffer counts = worker.create_buffer(8 * 8);
  const Buffer gate = worker.create_buffer(8);
  for (std::uint32_t round = 0; round < 30; ++round) {
    std::memset(counts.data(), 0, counts.nbytes());
    word(gate) = 0;
    const bool standard = round % 2 == 0;
    const RunHandle run = worker.submit([&](Orchestrator& orch) {
      for (std::uint32_t i = 0; i < kTasks; ++i) {
        if (i == kTasks / 2) {
          orch.submit_sub(explode, TaskArgs().no_dep(words(gate)).add_scalar(standard ? 0 : 1));
        }
        orch.submit_sub(mix, TaskArgs().inout(words(counts, i % 8)).add_scalar(1));
      }
    });
    set_word(word(gate));
    const Status outcome = run.outcome();
    ASSERT_EQ(outcome.code(), StatusCode::kTaskFailed);
    EXPECT_EQ(outcome.callable(), "explode");
    EXPECT_EQ(outcome.type_name(), standard ? "std::out_of_range" : "int");
    EXPECT_EQ(run.errors().size(), 1U);
    std::uint64_t expected = 0;
    for (std::uint32_t i = 0; i < kTasks / 8; ++i) {
      expected = 31 * expected + 1;
    }
    for (std::uint32_t i = 0; i < 8; ++i) {
      EXPECT_EQ(word(counts, i), expected) << round;
    }
  }
}

}  // namespace
}  // namespace simpler::testing
