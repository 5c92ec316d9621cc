#include "memory/buffer_table.h"

#include <cstring>
#include <dirent.h>
#include <sys/resource.h>

#include "memory/import_registry.h"
#include "memory/memory_testing.h"

namespace simpler::memory {
namespace {

using testing::FixedSpace;
using testing::in_child;

struct World {
  std::unique_ptr<SharedTables> tables = std::move(*SharedTables::create());
  HostStore store;
  BufferTable buffers{*tables};
};

size_t open_descriptors() {
  size_t count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

TEST(BackingName, HasOneSpellingAndReadsBack) {
  for (const BackingName& name : {BackingName{0x1f2e, 5, 0x3c4d, 0x80}, BackingName{1, 0, 0, 0},
                                  BackingName{4194304, 65535, 0xFFFFFFFF, 0x3FFFF80}}) {
    const Result<std::string> text = format(name);
    ASSERT_TRUE(text.ok());
    EXPECT_LE(text->size(), 32u);
    EXPECT_EQ(*parse_backing_name(*text), name);
  }
  EXPECT_EQ(*format({0x1f2e, 5, 0x3c4d, 0x80}), "1f2e.5.3c4d.80");
  EXPECT_EQ(*format({0x1f2e, 5, 0x3c4d, 0}), "1f2e.5.3c4d");
  EXPECT_FALSE(format({INT32_MAX, INT32_MAX, UINT64_MAX, 1}).ok());
  for (const std::string_view bad : {"",
                                     ".",
                                     "1",
                                     "1.2",
                                     "1.2.",
                                     ".2.3",
                                     "1..3",
                                     "1.2.3.",
                                     "1.2.3.4.5",
                                     "1.2.3.0",
                                     "01.2.3",
                                     "1.2.G",
                                     "1.2.A",
                                     "1.2.3 ",
                                     "-1.2.3",
                                     "0.2.3",
                                     "ffffffff.2.3",
                                     "1.ffffffff.3",
                                     "1.2.fffffffffffffffff",
                                     "0x1.2.3",
                                     "simpler-1"}) {
    EXPECT_FALSE(parse_backing_name(bad).ok()) << bad;
  }
}

TEST(BufferTable, ANewBufferIsZeroedPublishedAndDescribed) {
  World world;
  for (const uint64_t nbytes : {uint64_t{1}, uint64_t{4096}, uint64_t{3} << 20}) {
    const Result<OwnedBuffer> buffer = world.buffers.create(world.store, nbytes);
    ASSERT_TRUE(buffer.ok()) << buffer.status().message();
    EXPECT_TRUE(validate(buffer->descriptor).is_ok());
    EXPECT_EQ(buffer->descriptor.backend_kind, BackendKind::kPosixShm);
    EXPECT_EQ(buffer->descriptor.nbytes, nbytes);
    EXPECT_TRUE(world.tables->buffer_live(buffer->ref));
    EXPECT_EQ(*world.buffers.resolve(buffer->descriptor), buffer->ref);
    EXPECT_EQ(buffer->backing->data()[0], std::byte{0});
    EXPECT_EQ(buffer->backing->data()[nbytes - 1], std::byte{0});
    std::memset(buffer->backing->data(), 0xAB, nbytes);
  }
}

TEST(BufferTable, ZeroBytesAreOneClearError) {  // B053
  World world;
  EXPECT_EQ(world.buffers.create(world.store, 0).status().code(), StatusCode::kInvalidArgument);
}

TEST(BufferTable, TwoHundredBuffersFitInSixtyFourDescriptors) {  // B020
  EXPECT_EQ(in_child([] {
              const struct rlimit few { 64, 64 };
              setrlimit(RLIMIT_NOFILE, &few);
              World world;
              std::vector<OwnedBuffer> buffers;
              for (uint64_t i = 0; i < 200; ++i) {
                Result<OwnedBuffer> buffer = world.buffers.create(world.store, 100 + i * 1000);
                if (!buffer.ok()) return false;
                std::memset(buffer->backing->data(), static_cast<int>(i), buffer->descriptor.nbytes);
                buffers.push_back(std::move(*buffer));
              }
              for (uint64_t i = 0; i < 200; ++i) {
                const std::byte* data = buffers[i].backing->data();
                if (data[0] != static_cast<std::byte>(i)) return false;
                if (data[buffers[i].descriptor.nbytes - 1] != static_cast<std::byte>(i)) return false;
              }
              return open_descriptors() < 20;
            }),
            0);
}

TEST(BufferTable, RunningOutOfDescriptorsIsAnErrorThatNamesTheLimit) {  // B020
  EXPECT_EQ(in_child([] {
              World world;
              const struct rlimit few { 32, 32 };
              setrlimit(RLIMIT_NOFILE, &few);
              std::vector<OwnedBuffer> buffers;
              for (int i = 0; i < 40; ++i) {
                Result<OwnedBuffer> buffer = world.buffers.create(world.store, uint64_t{2} << 20);
                if (!buffer.ok()) {
                  return buffer.status().message().find("ulimit -n") != std::string_view::npos &&
                         world.buffers.size() == buffers.size();
                }
                buffers.push_back(std::move(*buffer));
              }
              return false;
            }),
            0);
}

TEST(BufferTable, AShortageLeavesNoBufferBehind) {  // B017
  const FixedSpace space(uint64_t{1} << 20);
  World world;
  HostStore store({.space = &space});
  for (const uint64_t nbytes : {uint64_t{16} << 20, (uint64_t{1} << 20)}) {
    const Status status = world.buffers.create(store, nbytes).status();
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
    EXPECT_NE(status.message().find("the test's limit"), std::string_view::npos);
  }
  EXPECT_EQ(world.buffers.size(), 0u);
  EXPECT_TRUE(world.buffers.create(store, 1000).ok());
}

TEST(BufferTable, ASparseBufferOfFiveGibibytesWorksAtBothEnds) {
  World world;
  const Result<OwnedBuffer> buffer =
      world.buffers.create(world.store, uint64_t{5} << 30, AccessMode::kReadWrite, Commit::kSparse);
  ASSERT_TRUE(buffer.ok()) << buffer.status().message();
  buffer->backing->data()[0] = std::byte{1};
  buffer->backing->data()[(uint64_t{5} << 30) - 1] = std::byte{2};
  ImportRegistry imports;
  const Result<Import> import = imports.materialize(buffer->descriptor);
  ASSERT_TRUE(import.ok());
  EXPECT_EQ(import->base[(uint64_t{5} << 30) - 1], std::byte{2});
}

TEST(BufferTable, ReleaseIsRefusedWhileARunNamesTheBuffer) {  // P38, B104
  World world;
  const OwnedBuffer buffer = *world.buffers.create(world.store, 100);
  world.tables->name_buffer(buffer.ref.index, 12);
  const Status refused = world.buffers.release(buffer.descriptor.identity);
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(refused.message().find("run 12"), std::string_view::npos);
  EXPECT_NE(world.buffers.find(buffer.descriptor.identity), nullptr);
  world.tables->unname_buffer(buffer.ref.index);
  EXPECT_TRUE(world.buffers.release(buffer.descriptor.identity).is_ok());
  EXPECT_EQ(world.buffers.release(buffer.descriptor.identity).code(), StatusCode::kNotFound);
  EXPECT_FALSE(world.buffers.resolve(buffer.descriptor).ok());
}

TEST(BufferTable, BytesLiveUntilTheLastViewLetsGo) {  // B103
  World world;
  for (const uint64_t nbytes : {uint64_t{100}, uint64_t{2} << 20}) {
    OwnedBuffer buffer = *world.buffers.create(world.store, nbytes);
    std::shared_ptr<HostBacking> view = buffer.backing;
    buffer.backing.reset();
    ASSERT_TRUE(world.buffers.release(buffer.descriptor.identity).is_ok());
    std::memset(view->data(), 1, nbytes);
    const OwnedBuffer next = *world.buffers.create(world.store, nbytes);
    EXPECT_NE(next.backing->data(), view->data());
    EXPECT_EQ(next.backing->data()[0], std::byte{0});
  }
}

TEST(BufferTable, AReusedPlaceShowsNothingOfItsFormerBytes) {
  World world;
  std::byte* place = nullptr;
  {
    const OwnedBuffer buffer = *world.buffers.create(world.store, 1000);
    place = buffer.backing->data();
    std::memset(place, 0x5A, 1000);
    ASSERT_TRUE(world.buffers.release(buffer.descriptor.identity).is_ok());
  }
  const OwnedBuffer next = *world.buffers.create(world.store, 900);
  EXPECT_EQ(next.backing->data(), place);
  for (int i = 0; i < 900; ++i) ASSERT_EQ(place[i], std::byte{0});
}

TEST(BufferTable, AForkedCopyLeavesTheParentsBytesAlone) {
  World world;
  OwnedBuffer buffer = *world.buffers.create(world.store, 300 << 10);
  std::memset(buffer.backing->data(), 3, 300 << 10);
  EXPECT_EQ(in_child([&] {
              static_cast<void>(world.buffers.release_all());
              buffer.backing.reset();  // the last reference of this process
              return true;
            }),
            0);
  EXPECT_EQ(buffer.backing->data()[200 << 10], std::byte{3});
  ImportRegistry imports;
  EXPECT_TRUE(imports.materialize(buffer.descriptor).ok());
}

TEST(BufferTable, AdoptedDescriptorsAreKnownByIdentity) {  // P39
  World world;
  BufferDescriptor d;
  d.backend_kind = BackendKind::kDeviceMalloc;
  d.address_space = AddressSpace::kDevice;
  d.identity = world.tables->mint_identity();
  d.nbytes = 64;
  set_body_address(d, 0x1000);
  const OwnedBuffer first = *world.buffers.adopt(d, 3);
  EXPECT_EQ(world.buffers.adopt(d, 3)->ref, first.ref);
  EXPECT_EQ(world.tables->buffer(first.ref.index).owner_worker, 3u);
  EXPECT_FALSE(world.buffers.adopt(d, 4).ok());
  BufferDescriptor changed = d;
  changed.nbytes = 65;
  const Status status = world.buffers.adopt(changed, 3).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("nbytes"), std::string_view::npos);
  EXPECT_FALSE(world.buffers.resolve(changed).ok());
  changed = d;
  changed.magic = 0;
  EXPECT_FALSE(world.buffers.adopt(changed, 3).ok());
}

TEST(BufferTable, OneFailedReleaseDoesNotStopTheOthers) {  // B016
  World world;
  std::vector<OwnedBuffer> buffers;
  for (int i = 0; i < 5; ++i) buffers.push_back(*world.buffers.create(world.store, 100));
  world.tables->name_buffer(buffers[2].ref.index, 9);
  const Status first = world.buffers.release_all();
  EXPECT_EQ(first.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(world.buffers.size(), 1u);
  world.tables->unname_buffer(buffers[2].ref.index);
  EXPECT_TRUE(world.buffers.release_all().is_ok());
  EXPECT_EQ(world.buffers.size(), 0u);
}

TEST(BufferTable, ATableThatForgetsGivesItsMemoryBack) {
  World world;
  const size_t before = open_descriptors();
  for (int i = 0; i < 300; ++i) {
    const OwnedBuffer buffer = *world.buffers.create(world.store, i % 2 == 0 ? uint64_t{2} << 20 : 5000);
    ASSERT_TRUE(world.buffers.release(buffer.descriptor.identity).is_ok());
  }
  EXPECT_LE(open_descriptors(), before + 1);  // one arena
  EXPECT_EQ(world.store.arenas(), 1u);
}

}  // namespace
}  // namespace simpler::memory
