#include "memory/tables.h"

#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "base/seeded_random.h"
#include "memory/memory_testing.h"

namespace simpler::memory {
namespace {

using testing::in_child;

std::unique_ptr<SharedTables> make_tables() {
  return std::move(*SharedTables::create());
}
SharedTablesView view_of(const SharedTables& tables) {
  return *SharedTablesView::open(tables.mapping().data(), tables.mapping().size());
}

BufferDescriptor descriptor(SharedTables& tables, uint64_t nbytes = 4096) {
  BufferDescriptor d;
  d.identity = tables.mint_identity();
  d.nbytes = nbytes;
  set_body_address(d, 0x10000);
  return d;
}

Tensor tensor(uint32_t rows, uint32_t columns, DataType dtype = DataType::kFloat32) {
  BufferDescriptor d;
  d.identity = {{1}, 1, 1, {}};
  d.nbytes = uint64_t{1} << 40;
  set_body_address(d, 0x10000);
  const uint32_t shape[] = {rows, columns};
  return *make_tensor(d, shape, dtype);
}

TEST(Tables, EqualLayoutsHaveOneIndexAndDistinctOnesTheirOwn) {
  const auto tables = make_tables();
  std::set<uint32_t> indices;
  for (uint32_t rows = 1; rows <= 100; ++rows) {
    for (uint32_t columns = 1; columns <= 30; ++columns) {
      const uint32_t index = tables->intern_layout(tensor(rows, columns));
      EXPECT_TRUE(indices.insert(index).second);
      EXPECT_EQ(tables->intern_layout(tensor(rows, columns)), index);
      EXPECT_EQ(tables->intern_layout(wire::layout_of(tensor(rows, columns))), index);
      EXPECT_EQ(tables->layout(index).logical_bytes, 4u * rows * columns);
    }
  }
  EXPECT_FALSE(indices.contains(0));
  EXPECT_NE(tables->intern_layout(tensor(1, 1, DataType::kInt32)), tables->intern_layout(tensor(1, 1)));
}

TEST(Tables, AFullLayoutTableSaysSoAndKeepsWhatItHas) {
  const auto tables = make_tables();
  for (uint32_t i = 1; i < wire::kMaxLayouts; ++i) ASSERT_EQ(tables->intern_layout(tensor(1, i)), i);
  EXPECT_EQ(tables->intern_layout(tensor(2, 1)), 0u);
  EXPECT_EQ(tables->intern_layout(tensor(1, 77)), 77u);
}

TEST(Tables, AChildReadsWhatWasPublishedAfterItsFork) {
  const auto tables = make_tables();
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    char byte = 0;
    if (read(go[0], &byte, 1) != 1) _exit(2);
    SharedMapping& mapping = const_cast<SharedMapping&>(tables->mapping());
    if (!mapping.protect_read_only().is_ok()) _exit(3);
    const SharedTablesView view = view_of(*tables);
    const wire::Layout* layout = view.layout(1);
    const Result<wire::BufferEntry> entry = view.buffer(1, 1);
    const bool good = layout != nullptr && layout->shapes[1] == 9 && entry.ok() && entry->descriptor.nbytes == 777 &&
                      view.config(2) != nullptr && view.config(2)->config.aicpu_thread_num == 3;
    _exit(good ? 0 : 1);
  }
  EXPECT_EQ(tables->intern_layout(tensor(2, 9)), 1u);
  EXPECT_TRUE(tables->put_buffer(descriptor(*tables, 777)).ok());
  CallConfig config;
  config.aicpu_thread_num = 3;
  EXPECT_EQ(*tables->acquire_config(config), 2u);
  ASSERT_EQ(write(go[1], "x", 1), 1);
  int status = -1;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  close(go[0]);
  close(go[1]);
}

TEST(Tables, ARecycledBufferIndexIsNoticedByItsGeneration) {
  const auto tables = make_tables();
  const SharedTablesView view = view_of(*tables);
  const BufferRef first = *tables->put_buffer(descriptor(*tables));
  EXPECT_TRUE(tables->buffer_live(first));
  EXPECT_TRUE(view.buffer(first.index, first.generation).ok());
  ASSERT_TRUE(tables->retire_buffer(first).is_ok());
  EXPECT_FALSE(tables->buffer_live(first));
  EXPECT_EQ(view.buffer(first.index, first.generation).status().code(), StatusCode::kNotFound);
  const BufferRef second = *tables->put_buffer(descriptor(*tables));
  EXPECT_EQ(second.index, first.index);
  EXPECT_NE(second.generation, first.generation);
  EXPECT_EQ(view.buffer(first.index, first.generation).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(view.buffer(second.index, second.generation).ok());
  EXPECT_EQ(tables->retire_buffer(first).code(), StatusCode::kNotFound);
}

TEST(Tables, ReadersRefuseEveryIndexThatWasNotPublished) {
  const auto tables = make_tables();
  const SharedTablesView view = view_of(*tables);
  ASSERT_TRUE(tables->put_buffer(descriptor(*tables)).ok());
  tables->intern_layout(tensor(1, 1));
  for (const uint32_t index : {0u, 2u, 65535u, 65536u, UINT32_MAX}) {
    EXPECT_EQ(view.layout(index), nullptr) << index;
    EXPECT_EQ(view.buffer(index, 1).status().code(), StatusCode::kCorrupt) << index;
  }
  EXPECT_EQ(view.buffer(1, 0).status().code(), StatusCode::kNotFound);
  for (uint32_t index = 0; index <= 0xFFFF; ++index) {
    EXPECT_EQ(view.config(static_cast<uint16_t>(index)) != nullptr, index == wire::kDefaultConfig);
    EXPECT_EQ(view.callable(static_cast<uint16_t>(index)), nullptr);
  }
}

TEST(Tables, ABufferThatRunsNameCannotBeRetired) {  // P38, B104
  const auto tables = make_tables();
  const BufferRef ref = *tables->put_buffer(descriptor(*tables));
  EXPECT_TRUE(tables->name_buffer(ref.index, 7));
  EXPECT_FALSE(tables->name_buffer(ref.index, 7));
  EXPECT_TRUE(tables->name_buffer(ref.index, 8));
  EXPECT_EQ(tables->runs_naming(ref.index), 2u);
  const Status refused = tables->retire_buffer(ref);
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(refused.message().find("run 8"), std::string_view::npos);
  tables->unname_buffer(ref.index);
  EXPECT_FALSE(tables->retire_buffer(ref).is_ok());
  tables->unname_buffer(ref.index);
  EXPECT_TRUE(tables->name_buffer(ref.index, 8));  // a run that was counted off is counted anew
  tables->unname_buffer(ref.index);
  EXPECT_TRUE(tables->retire_buffer(ref).is_ok());
}

TEST(Tables, TheBufferTableIsBoundedAndItsPlacesComeBack) {
  const auto tables = make_tables();
  std::vector<BufferRef> refs;
  for (uint32_t i = 1; i < wire::kMaxBuffers; ++i) refs.push_back(*tables->put_buffer(descriptor(*tables)));
  EXPECT_EQ(tables->put_buffer(descriptor(*tables)).status().code(), StatusCode::kResourceExhausted);
  ASSERT_TRUE(tables->retire_buffer(refs[500]).is_ok());
  EXPECT_EQ(tables->put_buffer(descriptor(*tables))->index, refs[500].index);
}

TEST(Tables, ConfigsAreSharedAndTheirPlacesRecycled) {
  const auto tables = make_tables();
  const SharedTablesView view = view_of(*tables);
  EXPECT_EQ(*tables->acquire_config(CallConfig{}), wire::kDefaultConfig);
  CallConfig one;
  one.aicpu_thread_num = 2;
  const uint16_t first = *tables->acquire_config(one);
  EXPECT_EQ(*tables->acquire_config(one), first);
  CallConfig two;
  two.aicpu_thread_num = 3;
  const uint16_t second = *tables->acquire_config(two);
  EXPECT_NE(second, first);
  EXPECT_EQ(*tables->acquire_config(one), first);
  const uint32_t generation = view.config(first)->generation;
  for (int i = 0; i < 3; ++i) tables->release_config(first);
  CallConfig three;
  three.aicpu_thread_num = 4;
  EXPECT_EQ(*tables->acquire_config(three), first);
  EXPECT_NE(view.config(first)->generation, generation);
  EXPECT_EQ(view.config(first)->config, three);
}

TEST(Tables, TheConfigTableIsBounded) {
  const auto tables = make_tables();
  CallConfig config;
  for (int i = 2; i < static_cast<int>(wire::kMaxConfigs); ++i) {
    config.aicpu_thread_num = i;
    ASSERT_TRUE(tables->acquire_config(config).ok());
  }
  config.aicpu_thread_num = 5000;
  EXPECT_EQ(tables->acquire_config(config).status().code(), StatusCode::kResourceExhausted);
}

TEST(Tables, CallablesAreNamedByIndex) {
  const auto tables = make_tables();
  const SharedTablesView view = view_of(*tables);
  SharedTables::CallableRecord record;
  record.digest.fill(7);
  record.kind = CallableKind::kNativeFunction;
  record.target_namespace = TargetNamespace::kLocalPython;
  const std::string long_name(200, 'n');
  record.name = long_name;
  ASSERT_TRUE(tables->put_callable(5, record).is_ok());
  EXPECT_EQ(view.callable(5)->digest, record.digest);
  EXPECT_EQ(view.callable(5)->kind, CallableKind::kNativeFunction);
  EXPECT_EQ(std::string_view(view.callable(5)->name.data()).size(), wire::kCallableNameBytes - 1);
  EXPECT_EQ(view.callable(4)->generation, 0u);  // published, but empty
  EXPECT_EQ(view.callable(6), nullptr);
  tables->clear_callable(5);
  EXPECT_EQ(view.callable(5)->generation, 0u);
  EXPECT_FALSE(tables->put_callable(0, record).is_ok());
  EXPECT_FALSE(tables->put_callable(4096, record).is_ok());
}

TEST(Tables, IdentitiesAreNeverRepeatedAndOwnersDiffer) {
  const auto a = make_tables();
  const auto b = make_tables();
  EXPECT_NE(a->owner_instance_id(), b->owner_instance_id());
  EXPECT_NE(a->table_id(), b->table_id());
  EXPECT_EQ(a->mint_identity().buffer_id, 1u);
  EXPECT_EQ(a->mint_identity().buffer_id, 2u);
  EXPECT_EQ(a->mint_identity().generation, 1u);
}

TEST(Tables, OnlyTheRightMappingIsOpened) {
  const auto tables = make_tables();
  EXPECT_FALSE(SharedTablesView::open(nullptr, wire::kTablesBytes).ok());
  EXPECT_FALSE(SharedTablesView::open(tables->mapping().data(), wire::kTablesBytes - 1).ok());
  EXPECT_FALSE(SharedTablesView::open(tables->mapping().data() + wire::kConfigsOffset, wire::kTablesBytes).ok());
}

TEST(Tables, AReaderNeverSeesAMixOfTwoBuffers) {
  const auto tables = make_tables();
  const SharedTablesView view = view_of(*tables);
  std::atomic<bool> stop{false};
  std::atomic<uint32_t> generation{1};
  BufferRef ref = *tables->put_buffer(descriptor(*tables, 1));
  std::thread reader([&] {
    while (!stop.load()) {
      const Result<wire::BufferEntry> entry = view.buffer(1, generation.load());
      ASSERT_TRUE(!entry.ok() || entry->descriptor.nbytes == entry->descriptor.identity.buffer_id);
    }
  });
  for (uint64_t i = 2; i < 20000; ++i) {
    ASSERT_TRUE(tables->retire_buffer(ref).is_ok());
    BufferDescriptor d = descriptor(*tables);
    d.nbytes = d.identity.buffer_id;
    ref = *tables->put_buffer(d);
    generation.store(ref.generation);
  }
  stop.store(true);
  reader.join();
}

}  // namespace
}  // namespace simpler::memory
