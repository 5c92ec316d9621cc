#include "engine/engine.h"

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "engine/hand_world.h"

namespace simpler::engine {
namespace {

using Tag = TensorArgType;
using lane::Outcome;

TEST(Engine, AReaderOnAnotherChildIsPushedWhenItsWriterHasEnded) {
  World world;
  const RunRef run = world.begin();
  world.submit(run, {world.cell(0, Tag::kOutput)}, 0);
  world.submit(run, {world.cell(0, Tag::kInput)}, 1);
  EXPECT_EQ(world.pushed(1), 0U);
  world.answer(0);
  EXPECT_EQ(world.pushed(1), 1U);
  EXPECT_TRUE(world.engine.close_run(run).is_ok());
  world.answer(1);
  EXPECT_TRUE(run.record->is_done());
  world.engine.release(run);
  world.expect_clean();
}

TEST(Engine, ASuccessorOnTheSameInOrderChildIsPushedEarlyWithAnAfterMask) {
  World world(1);
  const RunRef run = world.begin();
  world.submit(run, {world.cell(0, Tag::kInout)});
  world.submit(run, {world.cell(1, Tag::kInout)});
  world.submit(run, {world.cell(0, Tag::kInout), world.cell(1, Tag::kInput)});
  ASSERT_EQ(world.pushed(0), 3U);
  EXPECT_EQ(world.lanes[0]->lines[2].after_mask, 0b11U);
  world.answer(0);
  world.submit(run, {world.cell(0, Tag::kInout)});
  ASSERT_EQ(world.pushed(0), 4U);
  EXPECT_EQ(world.lanes[0]->lines[3].after_mask, 0b1U);
}

TEST(Engine, AChainLongerThanTheQueueKeepsTheLaneFull) {
  World world(1, 0, {.window = 256}, 4);
  const RunRef run = world.begin();
  for (int i = 0; i < 20; ++i) world.submit(run, {world.cell(0, Tag::kInout)});
  EXPECT_EQ(world.pushed(0), 4U);
  for (size_t i = 0; i < 16; ++i) {
    world.answer(0);
    EXPECT_EQ(world.pushed(0), 5U + i);
    EXPECT_EQ(world.lanes[0]->lines.back().after_mask, 1U);
  }
}

TEST(Engine, ATaskWithAProducerElsewhereIsNotPushedEarly) {
  World world;
  const RunRef run = world.begin();
  world.submit(run, {world.cell(0, Tag::kInout)}, 0);
  world.submit(run, {world.cell(1, Tag::kInout)}, 1);
  world.submit(run, {world.cell(0, Tag::kInput), world.cell(1, Tag::kInput)}, 0);
  EXPECT_EQ(world.pushed(0), 1U);
  world.answer(1);  // now every unfinished producer is on lane 0
  ASSERT_EQ(world.pushed(0), 2U);
  EXPECT_EQ(world.lanes[0]->lines[1].after_mask, 1U);
}

TEST(Engine, AConsumerOfAFailedProducerNeverReachesALane) {
  World world;
  const RunRef run = world.begin();
  world.submit(run, {world.cell(0, Tag::kOutput)}, 0);
  world.submit(run, {world.cell(0, Tag::kInput), world.cell(1, Tag::kOutput)}, 1);
  world.submit(run, {world.cell(1, Tag::kInput)}, 1);
  const TaskId independent = world.submit(run, {world.cell(9, Tag::kOutput)}, 1);
  EXPECT_TRUE(world.engine.close_run(run).is_ok());
  world.answer(0, Outcome::kTaskFailure);
  EXPECT_EQ(world.pushed(1), 1U);
  EXPECT_EQ(world.slot_at(1, 0), independent.slot);
  EXPECT_FALSE(run.record->is_done());
  world.answer(1);
  ASSERT_TRUE(run.record->is_done());
  EXPECT_EQ(run.record->phase, RunPhase::kFailed);
  ASSERT_EQ(run.record->errors.size(), 1U);
  EXPECT_EQ(run.record->errors[0].code(), StatusCode::kTaskFailed);
  world.engine.release(run);
  world.expect_clean();
}

TEST(Engine, AFailingHeadOfAMillionTasksIsPropagatedInBoundedSteps) {
  constexpr uint32_t kTasks = 1'000'000;
  World world(2, 0, {.window = 1 << 20});
  const RunRef run = world.begin();
  world.submit(run, {world.cell(0, Tag::kInout)}, 0);
  for (uint32_t i = 1; i < kTasks; ++i) world.submit(run, {world.cell(0, Tag::kInout)}, 1);
  EXPECT_TRUE(world.engine.close_run(run).is_ok());
  world.lanes[0]->answer(Outcome::kTaskFailure);
  uint32_t steps = 0;
  while (!run.record->is_done()) {
    EXPECT_LE(world.engine.pump(64), 64U);
    ++steps;
  }
  EXPECT_GE(steps, kTasks / 64);
  EXPECT_EQ(world.pushed(1), 0U);
  world.engine.release(run);
  world.expect_clean();
}

TEST(Engine, AllErrorsAreKeptAndLaterSubmitsReturnTheFirst) {
  World world;
  const RunRef run = world.begin();
  world.submit(run, {}, 0);
  world.submit(run, {}, 1);
  world.answer(0, Outcome::kTaskFailure);
  world.answer(1, Outcome::kTaskFailure);
  EXPECT_EQ(world.try_submit(run, Request()).code(), StatusCode::kTaskFailed);
  EXPECT_TRUE(world.engine.close_run(run).is_ok());
  EXPECT_EQ(run.record->errors.size(), 2U);
  EXPECT_TRUE(run.record->is_done());
}

TEST(Engine, ARefusedSubmitLeavesNoTrace) {
  World world(1);
  const RunRef run = world.begin();
  const memory::BufferRef read_only = world.level.add_buffer(AccessMode::kRead);
  const Argument whole{world.level.view(read_only), Tag::kInput};
  const std::vector<std::pair<std::vector<Argument>, StatusCode>> cases = {
      {{world.cell(0, Tag::kOutput), world.cell(0, Tag::kInput)}, StatusCode::kInvalidArgument},
      {{world.cell(0, Tag::kInput), world.cell(0, Tag::kOutput)}, StatusCode::kInvalidArgument},
      {{world.cell(0, Tag::kNoDep), world.cell(0, Tag::kOutput)}, StatusCode::kInvalidArgument},
      {{{whole.tensor, Tag::kInout}}, StatusCode::kInvalidArgument},
      {{{whole.tensor, Tag::kOutputExisting}}, StatusCode::kInvalidArgument},
      {{{{0, 0, 1, 0, 0}, Tag::kInput}}, StatusCode::kOutOfRange},
      {{{{whole.tensor.buffer, 77, whole.tensor.layout, 0, 0}, Tag::kInput}}, StatusCode::kNotFound},
  };
  for (const auto& [arguments, code] : cases) {
    EXPECT_EQ(world.try_submit(run, Request(arguments)).code(), code);
    EXPECT_EQ(world.engine.slots().live(), 0U);
  }
  EXPECT_EQ(world.try_submit(run, Request({}, 5)).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(world.try_submit(run, Request({}, 0, WorkerType::kSub)).code(), StatusCode::kFailedPrecondition);
  Request foreign;
  const Dependency other{{run.id + 1, 0, 1}, true};
  foreign.request.dependencies = {&other, 1};
  EXPECT_EQ(world.try_submit(run, foreign).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(world.engine.close_run(run).is_ok());
  EXPECT_TRUE(run.record->is_done());
  EXPECT_EQ(run.record->phase, RunPhase::kCompleted);
}

TEST(Engine, PureReadersRunSideBySideAndTheNextWriterWaitsForAll) {
  World world(3);
  const RunRef run = world.begin();
  world.submit(run, {world.cell(0, Tag::kInput)}, 0);
  world.submit(run, {world.cell(0, Tag::kInput)}, 1);
  world.submit(run, {world.cell(0, Tag::kOutput)}, 2);
  EXPECT_EQ(world.pushed(0) + world.pushed(1), 2U);
  world.answer(0);
  EXPECT_EQ(world.pushed(2), 0U);
  world.answer(1);
  EXPECT_EQ(world.pushed(2), 1U);
}

TEST(Engine, TheWeakerRulesLetAWriterPassReaders) {
  World world(2, 0, {.window = 256, .inference = graph::Inference::kWritersOnly});
  const RunRef run = world.begin();
  const TaskId reader = world.submit(run, {world.cell(0, Tag::kInput)}, 0);
  world.submit(run, {world.cell(0, Tag::kInout)}, 1);
  EXPECT_EQ(world.pushed(1), 1U);
  world.submit(run, {world.cell(1, Tag::kInout)}, 1, WorkerType::kNextLevel, {{reader, false}});
  EXPECT_EQ(world.pushed(1), 1U);
  world.answer(0);
  EXPECT_EQ(world.pushed(1), 2U);
}

TEST(Engine, ARetainedProducerKeepsItsAllocationUntilTheDependentIsTerminal) {
  World world;
  const RunRef run = world.begin();
  ASSERT_TRUE(world.engine.scope_begin(run).is_ok());
  const Allocation kept = world.engine.alloc(run, 4096).value();
  const Allocation waited = world.engine.alloc(run, 4096).value();
  const TaskId a = world.submit(run, {{world.level.view(kept.buffer), Tag::kOutput}}, 0);
  const TaskId b = world.submit(run, {{world.level.view(waited.buffer), Tag::kOutput}}, 0);
  ASSERT_TRUE(world.engine.scope_end(run).is_ok());
  world.submit(run, {}, 1, WorkerType::kNextLevel, {{a, true}, {b, false}});
  world.answer(0);
  world.answer(0);
  EXPECT_TRUE(world.level.tables->buffer_live(kept.buffer));
  EXPECT_FALSE(world.level.tables->buffer_live(waited.buffer));
  world.answer(1);
  EXPECT_FALSE(world.level.tables->buffer_live(kept.buffer));
  EXPECT_TRUE(world.engine.close_run(run).is_ok());
  world.expect_clean();
}

TEST(Engine, AnAllocationLivesUntilItsScopeEndedAndEveryTaskThatNamesItIsTerminal) {
  for (const Tag tag : {Tag::kInput, Tag::kOutput, Tag::kOutputExisting, Tag::kInout, Tag::kNoDep}) {
    World world(1);
    const RunRef run = world.begin();
    ASSERT_TRUE(world.engine.scope_begin(run).is_ok());
    const Allocation allocation = world.engine.alloc(run, 4096).value();
    world.submit(run, {{world.level.view(allocation.buffer), tag}});
    ASSERT_TRUE(world.engine.scope_end(run).is_ok());
    EXPECT_TRUE(world.level.tables->buffer_live(allocation.buffer));
    world.answer(0);
    EXPECT_FALSE(world.level.tables->buffer_live(allocation.buffer));
    EXPECT_EQ(world.engine.live_allocations(), 0U);
  }
}

TEST(Engine, AFullHeapWouldBlockWhileATaskCanFreeItAndIsADeadEndOtherwise) {
  World world(1);
  const RunRef run = world.begin();
  const uint64_t most = world.level.heap->region_bytes();
  EXPECT_EQ(world.engine.alloc(run, most + 1).status().code(), StatusCode::kOutOfRange);
  ASSERT_TRUE(world.engine.scope_begin(run).is_ok());
  const Allocation first = world.engine.alloc(run, most).value();
  const Status dead_end = world.engine.alloc(run, 1024).status();
  EXPECT_EQ(dead_end.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(dead_end.message().find("scope depth 1"), std::string_view::npos) << dead_end.message();
  EXPECT_NE(dead_end.message().find(std::to_string(most)), std::string_view::npos) << dead_end.message();
  world.submit(run, {{world.level.view(first.buffer), Tag::kOutput}});
  ASSERT_TRUE(world.engine.scope_end(run).is_ok());
  ASSERT_TRUE(world.engine.scope_begin(run).is_ok());
  EXPECT_EQ(world.engine.alloc(run, 1024).status().code(), StatusCode::kWouldBlock);
  world.answer(0);
  EXPECT_TRUE(world.engine.alloc(run, most).ok());
}

TEST(Engine, AnUnbalancedScopeIsAnErrorOfTheRunAndLaterRunsWork) {
  World world(1);
  const RunRef run = world.begin();
  ASSERT_TRUE(world.engine.scope_begin(run).is_ok());
  EXPECT_EQ(world.engine.close_run(run).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(run.record->is_done());
  const RunRef next = world.begin();
  EXPECT_EQ(world.engine.scope_end(next).code(), StatusCode::kFailedPrecondition);
  world.submit(next);
  EXPECT_TRUE(world.engine.close_run(next).is_ok());
  world.answer(0);
  EXPECT_EQ(next.record->phase, RunPhase::kCompleted);
}

TEST(Engine, ABlockedGroupReservesItsLanesAgainstLaterSinglesOnly) {
  World world(3);
  const RunRef run = world.begin();
  world.submit(run, {}, 0);
  const TaskId group = world.submit_group(run, {0, 1});
  world.submit(run, {}, 1);
  world.submit(run, {}, 2);
  EXPECT_EQ(world.pushed(0), 1U);
  EXPECT_EQ(world.pushed(1), 0U);
  EXPECT_EQ(world.pushed(2), 1U);
  world.answer(0);
  ASSERT_EQ(world.pushed(0), 2U);
  EXPECT_EQ(world.slot_at(0, 1), group.slot);
  EXPECT_EQ(world.slot_at(1, 0), group.slot);
  EXPECT_EQ(world.pushed(1), 2U);
}

TEST(Engine, AFailedMemberFailsItsGroupOnceAfterTheOthersEnded) {
  World world(3);
  const RunRef run = world.begin();
  world.submit_group(run, {0, 1}, WorkerType::kNextLevel, {world.cell(0, Tag::kOutput)});
  world.submit(run, {world.cell(0, Tag::kInput)}, 2);
  EXPECT_TRUE(world.engine.close_run(run).is_ok());
  world.answer(0, Outcome::kTaskFailure);
  EXPECT_FALSE(run.record->is_done());
  world.answer(1);
  EXPECT_TRUE(run.record->is_done());
  EXPECT_EQ(run.record->errors.size(), 1U);
  EXPECT_EQ(world.pushed(2), 0U);
  world.expect_clean();
}

TEST(Engine, SubTasksGoToAnyIdleChildAndAGroupIsNotPassedBySingles) {
  World world(0, 3);
  const RunRef run = world.begin();
  world.submit(run, {}, 0, WorkerType::kSub);
  world.submit(run, {}, 0, WorkerType::kSub);
  EXPECT_EQ(world.pushed(0) + world.pushed(1), 2U);
  world.submit_group(run, {0, 0}, WorkerType::kSub);
  world.submit(run, {}, 0, WorkerType::kSub);
  EXPECT_EQ(world.pushed(2), 0U);
  world.answer(1);
  EXPECT_EQ(world.pushed(1), 2U);
  EXPECT_EQ(world.pushed(2), 1U);
  world.answer(0);
  EXPECT_EQ(world.pushed(0), 2U);
}

TEST(Engine, WorkOfALostSubChildGoesToTheHealthyOnes) {
  World world(0, 2);
  const RunRef run = world.begin();
  for (int i = 0; i < 5; ++i) world.submit(run, {}, 0, WorkerType::kSub);
  world.engine.lane_lost(LaneId{0}, peer_lost("killed").with_pid(17));
  EXPECT_TRUE(world.engine.close_run(run).is_ok());
  for (int i = 0; i < 4; ++i) world.answer(1);
  EXPECT_EQ(world.pushed(1), 4U);
  ASSERT_TRUE(run.record->is_done());
  ASSERT_EQ(run.record->errors.size(), 1U);
  EXPECT_EQ(run.record->errors[0].code(), StatusCode::kPeerLost);
  EXPECT_EQ(run.record->errors[0].pid(), 17);
}

TEST(Engine, ALaneWhoseChildAnswersNonsenseIsReportedOnceAndItsTasksFailWhenItIsLost) {
  World world;
  const RunRef run = world.begin();
  world.submit(run, {}, 0);
  EXPECT_TRUE(world.engine.close_run(run).is_ok());
  world.lanes[0]->condemn();
  EXPECT_EQ(world.engine.pump(64), 0U);
  EXPECT_EQ(world.engine.pump(64), 0U);
  ASSERT_EQ(world.engine.news().condemned.size(), 1U);
  EXPECT_EQ(world.engine.news().condemned[0].lane.value, 0U);
  EXPECT_EQ(world.engine.news().condemned[0].why.code(), StatusCode::kCorrupt);
  EXPECT_FALSE(run.record->is_done());
  world.engine.lane_lost(LaneId{0}, peer_lost("killed"));
  world.engine.pump(64);
  ASSERT_TRUE(run.record->is_done());
  EXPECT_EQ(run.record->errors[0].code(), StatusCode::kPeerLost);
}

TEST(Engine, ALostChildTakesNoMoreWorkUntilANewIncarnationCame) {
  World world;
  const RunRef run = world.begin();
  world.submit(run, {world.cell(0, Tag::kOutput)}, 1);
  world.submit(run, {world.cell(0, Tag::kInput)}, 0);
  world.engine.lane_lost(LaneId{0}, peer_lost("killed"));
  EXPECT_TRUE(world.engine.close_run(run).is_ok());
  world.answer(1);
  ASSERT_TRUE(run.record->is_done());
  EXPECT_EQ(run.record->errors[0].code(), StatusCode::kPeerLost);
  const RunRef next = world.begin();
  EXPECT_EQ(world.try_submit(next, Request({}, 0)).code(), StatusCode::kPeerLost);
  HandLane fresh(WorkerType::kNextLevel, 0);
  ASSERT_TRUE(world.engine.add_lane(fresh).ok());
  EXPECT_EQ(world.engine.add_lane(fresh).status().code(), StatusCode::kAlreadyExists);
  world.submit(next, {}, 0);
  EXPECT_TRUE(world.engine.close_run(next).is_ok());
  fresh.answer();
  world.pump();
  EXPECT_EQ(next.record->phase, RunPhase::kCompleted);
}

TEST(Engine, ACancelledRunStartsNothingMoreAndLetsRunningTasksEnd) {
  World world(2, 0, {.window = 256}, 1);
  const RunRef run = world.begin();
  world.submit(run, {world.cell(0, Tag::kInout)}, 0);
  world.submit(run, {}, 0);
  world.submit(run, {world.cell(0, Tag::kInout)}, 1);
  world.engine.cancel(run, cancelled("enough"));
  world.pump();
  EXPECT_EQ(world.lanes[0]->cancelled, std::vector<uint32_t>{static_cast<uint32_t>(run.id)});
  EXPECT_TRUE(world.engine.close_run(run).is_ok());
  EXPECT_FALSE(run.record->is_done());
  world.answer(0);
  EXPECT_TRUE(run.record->is_done());
  EXPECT_EQ(world.pushed(0), 1U);
  EXPECT_EQ(world.pushed(1), 0U);
  EXPECT_EQ(run.record->errors[0].code(), StatusCode::kCancelled);
  world.expect_clean();
}

TEST(Engine, RunsExecuteOneAfterTheOtherAndNeverShareEdges) {
  World world(1);
  const RunRef first = world.begin();
  const TaskId task = world.submit(first, {world.cell(0, Tag::kInout)});
  EXPECT_TRUE(world.engine.close_run(first).is_ok());
  const RunRef second = world.begin();
  world.submit(second, {world.cell(0, Tag::kInout)});
  Request foreign;
  const Dependency dependency{task, true};
  foreign.request.dependencies = {&dependency, 1};
  EXPECT_EQ(world.try_submit(second, foreign).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(world.engine.close_run(second).is_ok());
  EXPECT_EQ(world.pushed(0), 1U);
  world.answer(0);
  EXPECT_TRUE(first.record->is_done());
  ASSERT_EQ(world.pushed(0), 2U);
  EXPECT_EQ(world.lanes[0]->lines[1].after_mask, 0U);
  world.answer(0);
  EXPECT_TRUE(second.record->is_done());
}

TEST(Engine, TheSeventeenthUnfinishedRunIsNotAdmitted) {
  World world(1);
  std::vector<RunRef> runs;
  for (int i = 0; i < 16; ++i) {
    runs.push_back(world.begin());
    world.submit(runs.back());
    EXPECT_TRUE(world.engine.close_run(runs.back()).is_ok());
  }
  EXPECT_EQ(world.engine.begin_run().status().code(), StatusCode::kWouldBlock);
  world.answer(0);
  EXPECT_TRUE(world.engine.begin_run().ok());
}

TEST(Engine, AnEmptyRunEndsAtOnceAndManyRunsReuseTheirRecords) {
  World world(1);
  const RunRef first = world.begin();
  EXPECT_TRUE(world.engine.close_run(first).is_ok());
  EXPECT_TRUE(first.record->is_done());
  world.engine.release(first);
  for (int i = 0; i < 1000; ++i) {
    const RunRef run = world.begin();
    EXPECT_EQ(run.record, first.record);
    EXPECT_TRUE(world.engine.close_run(run).is_ok());
    world.engine.release(run);
  }
}

TEST(Engine, AFullWindowWouldBlockUntilATaskIsConsumed) {
  World world(1, 0, {.window = 64});
  const RunRef run = world.begin();
  for (int i = 0; i < 64; ++i) world.submit(run, {world.cell(0, Tag::kInout)});
  EXPECT_EQ(world.try_submit(run, Request()).code(), StatusCode::kWouldBlock);
  world.answer(0);
  EXPECT_TRUE(world.try_submit(run, Request()).is_ok());
}

TEST(Engine, RunAndTaskTimeoutsCancelTheRunAtTheTickThatSeesThem) {
  World world(1);
  const RunRef run = world.engine.begin_run({.timeout = 10 * kMillisecond}).value();
  world.submit(run);
  EXPECT_EQ(world.engine.tick(kMillisecond), 11 * kMillisecond);
  world.engine.tick(11 * kMillisecond);
  EXPECT_EQ(run.record->errors.front().code(), StatusCode::kTimeout);
  EXPECT_TRUE(world.engine.close_run(run).is_ok());
  world.answer(0);
  EXPECT_TRUE(run.record->is_done());

  const RunRef next = world.begin();
  Request slow;
  slow.request.timeout = 5 * kMillisecond;
  TaskId task;
  ASSERT_TRUE(world.engine.submit(next, slow.request, &task).is_ok());
  EXPECT_EQ(world.engine.tick(20 * kMillisecond), 25 * kMillisecond);
  world.engine.tick(25 * kMillisecond);
  ASSERT_EQ(world.engine.news().overdue.size(), 1U);
  EXPECT_EQ(world.engine.news().overdue[0].task, task);
}

TEST(Engine, AGroupThatKeepsIdleWorkersFromTheirWorkIsReportedOnce) {
  World world(2);
  const RunRef run = world.begin();
  world.submit(run, {}, 0);
  world.submit_group(run, {0, 1});
  world.submit(run, {}, 1);
  world.engine.tick(kSecond);
  world.engine.tick(7 * kSecond);
  world.engine.tick(20 * kSecond);
  EXPECT_EQ(world.engine.news().warnings.size(), 1U);
}

TEST(Engine, ANamedBufferCannotBeRetiredBeforeTheRunEnded) {
  World world(1);
  const RunRef run = world.begin();
  world.submit(run, {world.cell(0, Tag::kInput)});
  EXPECT_EQ(world.level.tables->retire_buffer(world.level.buffers[0]).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(world.engine.close_run(run).is_ok());
  world.answer(0);
  EXPECT_TRUE(world.level.tables->retire_buffer(world.level.buffers[0]).is_ok());
}

TEST(Engine, OneProducerOfManyConsumersReleasesEachOnce) {
  World world(2);
  const RunRef run = world.begin();
  world.submit(run, {world.cell(0, Tag::kOutput)}, 0);
  for (int i = 0; i < 100; ++i) world.submit(run, {world.cell(0, Tag::kInput)}, 1);
  world.submit(run, {world.cell(0, Tag::kOutput)}, 0);
  EXPECT_TRUE(world.engine.close_run(run).is_ok());
  world.answer(0);
  for (int i = 0; i < 100; ++i) world.answer(1);
  EXPECT_EQ(world.pushed(0), 2U);
  world.answer(0);
  EXPECT_TRUE(run.record->is_done());
  world.expect_clean();
}

TEST(Engine, ArgumentsBeyondTheSlotsOwnBlockTravelInALargerOne) {
  World world(1);
  const RunRef run = world.begin();
  std::vector<Argument> arguments;
  for (uint64_t i = 0; i < 40; ++i) arguments.push_back(world.cell(i, Tag::kInput));
  world.submit(run, arguments);
  ASSERT_EQ(world.pushed(0), 1U);
  const wire::Dispatch& line = world.lanes[0]->lines[0];
  EXPECT_EQ(line.tensors, 40U);
  const auto* block = reinterpret_cast<const wire::TensorRef*>(world.level.arena->at(line.args));
  for (uint64_t i = 0; i < 40; ++i) EXPECT_EQ(block[i], arguments[i].tensor);
  EXPECT_EQ(world.level.arena->live_blocks(), 1U);
  world.answer(0);
  EXPECT_EQ(world.level.arena->live_blocks(), 0U);
}

}  // namespace
}  // namespace simpler::engine
