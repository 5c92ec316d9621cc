// Rules of the engine that a user meets only indirectly: what a failed build gives back, what an explicit edge does not
// do, how long slots and arguments live, what tells buffers apart, and the queue of each worker.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/hand_world.h"

namespace simpler::engine {
namespace {

using Tag = TensorArgType;

constexpr WorkerType kChip = WorkerType::kNextLevel;
constexpr size_t kMany = 40;  // more tensors than a slot's own block holds

std::vector<Argument> many_inputs(World& world, uint64_t first = 0, uint32_t buffer = 0) {
  std::vector<Argument> arguments;
  for (uint64_t i = 0; i < kMany; ++i) arguments.push_back(world.cell(first + i, Tag::kInput, buffer));
  return arguments;
}

// Whether the block of a dispatched line still holds these tensors.
bool block_holds(World& world, const wire::Dispatch& line, const std::vector<Argument>& arguments) {
  const auto* block = reinterpret_cast<const wire::TensorRef*>(world.level.arena->at(line.args));
  return line.tensors == arguments.size() &&
         std::equal(arguments.begin(), arguments.end(), block,
                    [](const Argument& argument, const wire::TensorRef& tensor) { return argument.tensor == tensor; });
}

// S0-122
TEST(EngineFailedBuild, OfAWaitingRunDispatchesNothingAndGivesEverythingBackAtOnce) {
  World world(2, 1, {.window = 64, .max_runs = 2}, 1);
  const RunRef first = world.begin();
  world.submit(first, {}, 0);
  ASSERT_TRUE(world.engine.close_run(first).is_ok());

  const RunRef failed = world.begin();
  ASSERT_TRUE(world.engine.scope_begin(failed).is_ok());
  const Allocation allocation = world.engine.alloc(failed, 4096).value();
  const TaskId ready =
      world.submit(failed, {world.cell(0, Tag::kInout, 1), {world.level.view(allocation.buffer), Tag::kOutput}}, 1);
  world.submit(failed, {world.cell(0, Tag::kInout, 1)}, 0, kChip, {{ready, true}});
  world.submit(failed, many_inputs(world, 100, 1), 0);
  world.submit_group(failed, {0, 1}, kChip, {world.cell(9, Tag::kInput, 1)});
  world.submit(failed, {}, 0, WorkerType::kSub);
  world.engine.fail_run(failed, task_failed("the graph function failed"));
  world.pump();

  ASSERT_TRUE(failed.record->is_done());
  EXPECT_EQ(failed.record->phase, RunPhase::kFailed);
  EXPECT_EQ(failed.record->errors.size(), 1U);
  EXPECT_FALSE(first.record->is_done());
  EXPECT_EQ(world.engine.slots().live(), 1U);
  EXPECT_EQ(world.engine.live_groups(), 0U);
  EXPECT_EQ(world.engine.live_allocations(), 0U);
  EXPECT_EQ(world.level.arena->live_blocks(), 0U);
  EXPECT_FALSE(world.level.tables->buffer_live(allocation.buffer));
  EXPECT_TRUE(world.level.tables->retire_buffer(world.level.buffers[1]).is_ok());

  // Its place in the queue is free again, and whoever comes next does not wait for it.
  const RunRef next = world.begin();
  world.submit(next, {}, 0);
  ASSERT_TRUE(world.engine.close_run(next).is_ok());
  world.answer(0);
  EXPECT_TRUE(first.record->is_done());
  world.answer(0);
  EXPECT_TRUE(next.record->is_done());
  EXPECT_EQ(world.pushed(0), 2U);
  EXPECT_EQ(world.pushed(1) + world.pushed(2), 0U);
  world.expect_clean();
}

// S0-122
TEST(EngineFailedBuild, OfTheExecutingRunEndsWithItsRunningTaskAndTheNextRunTakesOver) {
  World world(2, 0, {.window = 64}, 1);
  const RunRef failed = world.begin();
  world.submit(failed, {world.cell(0, Tag::kInout)}, 0);  // runs
  world.submit(failed, {}, 0);                            // waits in its worker's queue
  world.submit(failed, {world.cell(0, Tag::kInout)}, 1);  // waits for the first
  world.engine.fail_run(failed, task_failed("the graph function failed"));
  world.pump();
  EXPECT_FALSE(failed.record->is_done());
  const RunRef next = world.begin();
  world.submit(next, {world.cell(0, Tag::kInout)}, 1);
  ASSERT_TRUE(world.engine.close_run(next).is_ok());
  EXPECT_EQ(world.pushed(1), 0U);  // not before the failed run gave its turn back
  world.answer(0);
  EXPECT_TRUE(failed.record->is_done());
  EXPECT_EQ(world.pushed(0), 1U);
  ASSERT_EQ(world.pushed(1), 1U);
  EXPECT_EQ(world.lanes[1]->lines[0].run, static_cast<uint32_t>(next.id));
  world.answer(1);
  EXPECT_TRUE(next.record->is_done());
  world.expect_clean();
}

// S0-202
TEST(EngineExplicitEdge, OrdersTwoTasksAndIsNoAccessToAnyTensor) {
  for (const bool retain : {false, true}) {
    World world(4);
    const RunRef run = world.begin();
    const TaskId producer = world.submit(run, {world.cell(0, Tag::kOutput)}, 0);
    const uint64_t edges = world.engine.counters().edges;
    // Twice by hand, and nothing by its tensors.
    world.submit(run, {world.cell(1, Tag::kInout, 1)}, 1, kChip, {{producer, retain}, {producer, retain}});
    EXPECT_EQ(world.engine.counters().edges, edges + 1);
    EXPECT_EQ(world.pushed(1), 0U);
    // Had the dependent become a reader of the producer's bytes, this writer would wait for it as well.
    world.submit(run, {world.cell(0, Tag::kInout)}, 2);
    // And had it become a writer of them, so would this reader.
    world.submit(run, {world.cell(0, Tag::kInput)}, 3);
    EXPECT_EQ(world.engine.counters().edges, edges + 3);
    world.answer(0);
    ASSERT_EQ(world.pushed(1), 1U);
    EXPECT_EQ(world.pushed(2), 1U);
    EXPECT_EQ(world.pushed(3), 0U);
    world.answer(2);
    EXPECT_EQ(world.pushed(3), 1U);
    // What travels is what the task was given.
    EXPECT_EQ(world.lanes[1]->lines[0].tensors, 1U);
    EXPECT_EQ(world.lanes[1]->lines[0].inline_tensor, world.cell(1, Tag::kInout, 1).tensor);
    world.answer(3);
    world.answer(1);
    EXPECT_TRUE(world.engine.close_run(run).is_ok());
    EXPECT_TRUE(run.record->is_done());
    world.expect_clean();
  }
}

// S0-212
TEST(EngineSlots, ComeBackOneByOneInAnyOrderAndKeepTheirPlaces) {
  World world(2, 0, {.window = 64});
  std::vector<const Slot*> places;
  for (uint32_t i = 0; i < 64; ++i) places.push_back(&world.engine.slots()[i]);
  const RunRef run = world.begin();
  std::vector<TaskId> younger;
  for (uint32_t i = 0; i < 64; ++i) {
    const TaskId task = world.submit(run, {}, i < 32 ? 0 : 1);
    if (i >= 32) younger.push_back(task);
  }
  ASSERT_EQ(world.pushed(1), 32U);
  // The older half stays; each end in the younger half frees that very slot and no other.
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(world.try_submit(run, Request({}, 1)).code(), StatusCode::kWouldBlock);
    world.answer(1);
    EXPECT_EQ(world.engine.slots().live(), 63U);
    EXPECT_EQ(world.submit(run, {}, 1).slot, younger[i].slot);
    EXPECT_EQ(world.engine.slots().live(), 64U);
  }
  EXPECT_EQ(world.lanes[0]->outcomes.size(), 0U);
  EXPECT_TRUE(world.engine.close_run(run).is_ok());
  for (uint32_t i = 0; i < 32; ++i) {
    world.answer(0);
    world.answer(1);
  }
  ASSERT_TRUE(run.record->is_done());
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(&world.engine.slots()[i], places[i]);
  world.expect_clean();
}

// S0-212
TEST(EngineSlots, ATasksNameGrowsWithEachUseOfItsSlotAndIsNeverGivenTwice) {
  World world(1, 0, {.window = 64});
  std::map<uint32_t, uint32_t> newest;
  std::set<std::pair<uint32_t, uint32_t>> names;
  for (int round = 0; round < 20; ++round) {  // the engine is empty between two of them, and counts on
    const RunRef run = world.begin();
    for (int i = 0; i < 70; ++i) {
      const TaskId task = world.submit(run, {world.cell(0, Tag::kInout)});
      EXPECT_TRUE(names.emplace(task.slot, task.generation).second) << task.slot;
      EXPECT_LT(std::exchange(newest[task.slot], task.generation), task.generation) << task.slot;
      if (i >= 30) world.answer(0);
    }
    EXPECT_TRUE(world.engine.close_run(run).is_ok());
    while (!run.record->is_done()) world.answer(0);
    world.engine.release(run);
    world.expect_clean();
  }
  EXPECT_EQ(names.size(), 1400U);
}

// S0-213
TEST(EngineArguments, OfATaskThatEndedStayUntilNobodyKeepsItsSlot) {
  World world(3);
  const RunRef run = world.begin();
  std::vector<Argument> arguments = many_inputs(world);
  const std::vector<Argument> given = arguments;
  const TaskId producer = world.submit(run, arguments, 0);
  arguments.clear();  // the caller's own list is its own again
  world.submit(run, {}, 1, kChip, {{producer, true}});
  world.answer(0);
  EXPECT_EQ(world.engine.state_of(producer), TaskState::kCompleted);
  EXPECT_EQ(world.level.arena->live_blocks(), 1U);
  for (uint64_t i = 0; i < 5; ++i) {  // others come and go meanwhile
    world.submit(run, many_inputs(world, 100 * i), 2);
    EXPECT_NE(world.lanes[2]->lines.back().args, world.lanes[0]->lines[0].args);
    world.answer(2);
    EXPECT_TRUE(block_holds(world, world.lanes[0]->lines[0], given));
  }
  world.answer(1);
  EXPECT_EQ(world.engine.state_of(producer), TaskState::kConsumed);
  EXPECT_EQ(world.level.arena->live_blocks(), 0U);
}

// S0-213
TEST(EngineArguments, OfEachMemberStayUntilTheWholeGroupEnded) {
  World world(3);
  const RunRef run = world.begin();
  const std::vector<Argument> lists[] = {many_inputs(world, 0), many_inputs(world, 1000)};
  const Request parts[] = {Request(lists[0], 0), Request(lists[1], 1)};
  const MemberArgs members[] = {parts[0].member, parts[1].member};
  TaskRequest request;
  request.callable = 1;
  request.members = members;
  TaskId group;
  ASSERT_TRUE(world.engine.submit(run, request, &group).is_ok());
  world.answer(0);
  EXPECT_EQ(world.level.arena->live_blocks(), 2U);
  world.submit(run, many_inputs(world, 5000), 2);
  EXPECT_TRUE(block_holds(world, world.lanes[0]->lines[0], lists[0]));
  EXPECT_TRUE(block_holds(world, world.lanes[1]->lines[0], lists[1]));
  world.answer(1);
  EXPECT_EQ(world.level.arena->live_blocks(), 1U);
  world.answer(2);
  EXPECT_EQ(world.level.arena->live_blocks(), 0U);
}

// S1-014
TEST(EngineKeys, BuffersAreToldApartByIdentityAndNeverByAddress) {
  World world(3);
  BufferDescriptor device = world.level.describe();
  device.backend_kind = BackendKind::kDeviceMalloc;
  device.address_space = AddressSpace::kDevice;
  const memory::BufferRef first = *world.level.tables->put_buffer(device, 0);
  device.identity = world.level.tables->mint_identity();
  const memory::BufferRef second = *world.level.tables->put_buffer(device, 1);
  device.identity = world.level.tables->mint_identity();
  const memory::BufferRef third = *world.level.tables->put_buffer(device, 1);
  const RunRef run = world.begin();
  // Every buffer of this world has the same address: memory of the host, and of two chips.
  world.submit(run, {{world.level.view(first), Tag::kInout}}, 0);
  world.submit(run, {{world.level.view(second), Tag::kInout}}, 1);
  world.submit(run, {{world.level.view(third), Tag::kInput}, {world.level.view(second, 1), Tag::kInput}}, 2);
  world.submit(run, {world.cell(0, Tag::kInout)}, 2);
  EXPECT_EQ(world.engine.counters().edges, 0U);
  EXPECT_EQ(world.pushed(0) + world.pushed(1) + world.pushed(2), 4U);
  // One identity is one memory, whoever names it.
  world.submit(run, {{world.level.view(second), Tag::kInput}}, 0);
  EXPECT_EQ(world.engine.counters().edges, 1U);
  EXPECT_EQ(world.pushed(0), 1U);
}

// S1-014
TEST(EngineKeys, ABufferInThePlaceOfAReleasedOneIsAnotherKey) {
  World world(2);
  const memory::BufferRef old = world.level.add_buffer(AccessMode::kReadWrite);
  const RunRef run = world.begin();
  ASSERT_TRUE(world.level.tables->retire_buffer(old).is_ok());
  const memory::BufferRef fresh = world.level.add_buffer(AccessMode::kReadWrite);
  ASSERT_EQ(fresh.index, old.index);
  world.submit(run, {{world.level.view(fresh), Tag::kInout}}, 0);
  EXPECT_EQ(world.try_submit(run, Request({{world.level.view(old), Tag::kInput}}, 1)).code(), StatusCode::kNotFound);
}

// The map then knows a view of the buffer, and a second submit finds it without a look at the buffer.
TEST(EngineKeys, ABufferOfARefusedSubmitStaysNamedUntilTheRunEnds) {
  World world(2, 0, {.window = 64}, 1);
  memory::SharedTables& tables = *world.level.tables;
  const auto& buffers = world.level.buffers;
  const RunRef run = world.begin();
  Argument beyond = world.cell(0, Tag::kInput, 2);
  beyond.tensor.byte_offset = uint64_t{1} << 40;
  EXPECT_FALSE(world.try_submit(run, Request({world.cell(0, Tag::kInput, 1), beyond}, 0)).is_ok());
  EXPECT_EQ(tables.retire_buffer(buffers[1]).code(), StatusCode::kFailedPrecondition);
  for (int i = 0; i < 64; ++i) world.submit(run, {}, i % 2);
  EXPECT_EQ(world.try_submit(run, Request({world.cell(0, Tag::kInout, 3)}, 0)).code(), StatusCode::kWouldBlock);
  EXPECT_EQ(tables.retire_buffer(buffers[3]).code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(world.engine.close_run(run).is_ok());
  for (int i = 0; i < 64; ++i) world.answer(i % 2);
  ASSERT_TRUE(run.record->is_done());
  for (const uint32_t buffer : {1U, 3U}) EXPECT_TRUE(tables.retire_buffer(buffers[buffer]).is_ok()) << buffer;
}

// S1-017
TEST(EngineQueues, EachWorkerHasOneQueueOfSinglesServedInTheOrderInWhichTheyBecameReady) {
  World world(2, 0, {.window = 64, .early_push = false}, 1);
  const RunRef run = world.begin();
  std::vector<uint32_t> expected;
  const TaskId other = world.submit(run, {world.cell(0, Tag::kOutput)}, 1);
  expected.push_back(world.submit(run, {}, 0).slot);
  const TaskId late = world.submit(run, {world.cell(0, Tag::kInput)}, 0);  // ready after the two behind it
  for (int i = 0; i < 2; ++i) expected.push_back(world.submit(run, {}, 0).slot);
  EXPECT_EQ(world.pushed(0), 1U);
  EXPECT_EQ(world.slot_at(1, 0), other.slot);
  world.answer(1);
  expected.push_back(late.slot);
  for (int i = 0; i < 2; ++i) expected.push_back(world.submit(run, {}, 0).slot);
  // Worker 1 is idle and takes nothing of this; its own single passes them all.
  EXPECT_EQ(world.pushed(1), 1U);
  const TaskId own = world.submit(run, {}, 1);
  ASSERT_EQ(world.pushed(1), 2U);
  EXPECT_EQ(world.slot_at(1, 1), own.slot);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(world.pushed(0), i + 1);
    EXPECT_EQ(world.slot_at(0, i), expected[i]) << i;
    world.answer(0);
  }
  EXPECT_EQ(world.pushed(1), 2U);
  world.answer(1);
  EXPECT_TRUE(world.engine.close_run(run).is_ok());
  world.expect_clean();
}

// B084
TEST(EngineStalls, OfAGroupAreToldApartFromADeadMemberWhichEndsTheRunWithoutAnyTimePassing) {
  World world(3);
  const RunRef run = world.begin();
  world.submit_group(run, {0, 1, 2});
  EXPECT_TRUE(world.engine.close_run(run).is_ok());
  world.answer(0);
  world.answer(2);
  for (Nanos now = kSecond; now <= 3600 * kSecond; now += kSecond) world.engine.tick(now);
  EXPECT_TRUE(world.engine.news().empty());
  EXPECT_FALSE(run.record->is_done());
  world.engine.lane_lost(LaneId{1}, peer_lost("killed").with_pid(17));
  world.pump();
  ASSERT_TRUE(run.record->is_done());
  EXPECT_EQ(run.record->errors.at(0).code(), StatusCode::kPeerLost);
  EXPECT_EQ(run.record->errors.at(0).pid(), 17);
}

}  // namespace
}  // namespace simpler::engine
