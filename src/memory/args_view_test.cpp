#include "memory/args_view.h"

#include <cstring>

#include <gtest/gtest.h>

#include "base/seeded_random.h"
#include "memory/buffer_table.h"
#include "memory/heap.h"

namespace simpler::memory {
namespace {

struct World {
  std::unique_ptr<SharedTables> tables = std::move(*SharedTables::create());
  std::unique_ptr<ArgsArena> arena = std::move(*ArgsArena::create({.slots = 8, .large_bytes = 1 << 20}));
  std::unique_ptr<Heap> heap = std::move(*Heap::create({.region_bytes = 1 << 20}));
  HostStore store;
  BufferTable buffers{*tables};
  ImportRegistry imports;
  ArgsReader reader{*SharedTablesView::open(tables->mapping().data(), tables->mapping().size()),
                    ArgsArenaView(arena->mapping().data(), arena->mapping().size()), imports};

  wire::TensorRef ref(const OwnedBuffer& buffer, uint32_t elements, uint64_t offset = 0) {
    const uint32_t shape[] = {elements};
    const Tensor tensor = *make_tensor(buffer.descriptor, shape, DataType::kFloat32, {}, offset);
    return {buffer.ref.index, buffer.ref.generation, tables->intern_layout(tensor), 0, offset};
  }
  // Writes a block for slot 0 and gives the line for it.
  wire::Dispatch line(std::vector<wire::TensorRef> refs, std::vector<uint64_t> scalars, bool first_inline = false) {
    wire::Dispatch d;
    d.state = MailboxState::kTaskReady;
    d.callable = 1;
    d.tensors = static_cast<uint16_t>(refs.size());
    d.scalars = static_cast<uint16_t>(scalars.size());
    if (first_inline) {
      d.flags = wire::kFlagInlineTensor;
      d.inline_tensor = refs.front();
      refs.erase(refs.begin());
    }
    const auto bytes = static_cast<uint32_t>(refs.size() * sizeof(wire::TensorRef) + scalars.size() * 8);
    if (bytes == 0) return d;
    d.args = arena->place_for(0, bytes);
    std::byte* block = arena->at(d.args);
    if (!refs.empty()) std::memcpy(block, refs.data(), refs.size() * sizeof(wire::TensorRef));
    if (!scalars.empty())
      std::memcpy(block + refs.size() * sizeof(wire::TensorRef), scalars.data(), scalars.size() * 8);
    return d;
  }
};

TEST(ArgsView, TensorsAndScalarsComeOutAsTheyWentIn) {
  World world;
  const OwnedBuffer a = *world.buffers.create(world.store, 400);
  const OwnedBuffer b = *world.buffers.create(world.store, 4000);
  for (const bool first_inline : {false, true}) {
    ArgsView view;
    ASSERT_TRUE(
        world.reader.open(world.line({world.ref(a, 10), world.ref(b, 20, 80)}, {5, 6, 7}, first_inline), view).is_ok());
    ASSERT_EQ(view.tensor_count(), 2u);
    ASSERT_EQ(view.scalar_count(), 3u);
    MappedTensor tensor;
    ASSERT_TRUE(view.tensor(0, tensor).is_ok());
    tensor.data[0] = std::byte{42};
    EXPECT_EQ(a.backing->data()[0], std::byte{42});
    EXPECT_EQ(tensor.layout->shapes[0], 10u);
    ASSERT_TRUE(view.tensor(1, tensor).is_ok());
    tensor.data[0] = std::byte{43};
    EXPECT_EQ(b.backing->data()[80], std::byte{43});
    EXPECT_EQ(tensor.byte_offset, 80u);
    for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(*view.scalar(i), 5u + i);
    EXPECT_EQ(view.scalar(3).status().code(), StatusCode::kOutOfRange);
    EXPECT_EQ(view.tensor(2, tensor).code(), StatusCode::kOutOfRange);
  }
}

TEST(ArgsView, ATaskWithoutArgumentsNeedsNoBlock) {
  World world;
  ArgsView view;
  EXPECT_TRUE(world.reader.open(world.line({}, {}), view).is_ok());
  const OwnedBuffer a = *world.buffers.create(world.store, 400);
  EXPECT_TRUE(world.reader.open(world.line({world.ref(a, 1)}, {}, true), view).is_ok());
  MappedTensor tensor;
  EXPECT_TRUE(view.tensor(0, tensor).is_ok());
}

TEST(ArgsView, EveryWrongIndexAndOffsetIsRefused) {
  World world;
  const OwnedBuffer a = *world.buffers.create(world.store, 400);
  const wire::TensorRef good = world.ref(a, 100);
  const auto code_of = [&](auto&& spoil) {
    wire::TensorRef ref = good;
    spoil(ref);
    ArgsView view;
    MappedTensor tensor;
    EXPECT_TRUE(world.reader.open(world.line({ref}, {}), view).is_ok());
    return view.tensor(0, tensor).code();
  };
  EXPECT_EQ(code_of([](auto&) {}), StatusCode::kOk);
  EXPECT_EQ(code_of([](auto& r) { r.buffer = 0; }), StatusCode::kCorrupt);
  EXPECT_EQ(code_of([](auto& r) { r.buffer = 7; }), StatusCode::kCorrupt);
  EXPECT_EQ(code_of([](auto& r) { r.buffer = UINT32_MAX; }), StatusCode::kCorrupt);
  EXPECT_EQ(code_of([](auto& r) { r.generation = 0; }), StatusCode::kNotFound);
  EXPECT_EQ(code_of([](auto& r) { ++r.generation; }), StatusCode::kNotFound);
  EXPECT_EQ(code_of([](auto& r) { r.layout = 0; }), StatusCode::kCorrupt);
  EXPECT_EQ(code_of([](auto& r) { r.layout = 99; }), StatusCode::kCorrupt);
  EXPECT_EQ(code_of([](auto& r) { r.flags = 2; }), StatusCode::kCorrupt);
  EXPECT_EQ(code_of([](auto& r) { r.byte_offset = 4; }), StatusCode::kCorrupt);
  EXPECT_EQ(code_of([](auto& r) { r.byte_offset = UINT64_MAX - 3; }), StatusCode::kCorrupt);
  wire::Dispatch line = world.line({good}, {1});
  ArgsView view;
  line.args = UINT32_MAX;
  EXPECT_EQ(world.reader.open(line, view).code(), StatusCode::kCorrupt);
  line.args = 0;
  EXPECT_EQ(world.reader.open(line, view).code(), StatusCode::kCorrupt);
  line.args = static_cast<uint32_t>(world.arena->mapping().size() / 8 - 1);
  EXPECT_EQ(world.reader.open(line, view).code(), StatusCode::kCorrupt);
}

TEST(ArgsView, ARecycledIndexIsNeverReadThroughTheOldMapping) {
  World world;
  OwnedBuffer a = *world.buffers.create(world.store, uint64_t{2} << 20);
  const wire::TensorRef old = world.ref(a, 1);
  ArgsView view;
  MappedTensor tensor;
  ASSERT_TRUE(world.reader.open(world.line({old}, {}), view).is_ok());
  ASSERT_TRUE(view.tensor(0, tensor).is_ok());
  ASSERT_TRUE(world.buffers.release(a.descriptor.identity).is_ok());
  EXPECT_EQ(view.tensor(0, tensor).code(), StatusCode::kNotFound);
  const OwnedBuffer b = *world.buffers.create(world.store, uint64_t{2} << 20);
  ASSERT_EQ(b.ref.index, a.ref.index);
  EXPECT_EQ(view.tensor(0, tensor).code(), StatusCode::kNotFound);
  b.backing->data()[0] = std::byte{77};
  ASSERT_TRUE(world.reader.open(world.line({world.ref(b, 1)}, {}), view).is_ok());
  ASSERT_TRUE(view.tensor(0, tensor).is_ok());
  EXPECT_EQ(tensor.data[0], std::byte{77});
  EXPECT_EQ(world.imports.size(), 1u);  // the old mapping went with the old index
}

TEST(ArgsView, HeapBuffersLeaveNoEntriesBehind) {
  World world;
  world.imports.trust(world.heap->base(), world.heap->size());
  for (int i = 0; i < 1000; ++i) {
    const HeapSpan span = *world.heap->reserve(0, 4096);
    BufferDescriptor d;
    d.identity = world.tables->mint_identity();
    d.nbytes = 4096;
    set_body_address(d, reinterpret_cast<uint64_t>(world.heap->data(span)));
    const BufferRef ref = *world.tables->put_buffer(d);
    const uint32_t shape[] = {16};
    const uint32_t layout = world.tables->intern_layout(*make_tensor(d, shape, DataType::kFloat32));
    ArgsView view;
    MappedTensor tensor;
    ASSERT_TRUE(world.reader.open(world.line({{ref.index, ref.generation, layout, 0, 64}}, {}), view).is_ok());
    ASSERT_TRUE(view.tensor(0, tensor).is_ok());
    ASSERT_EQ(tensor.data, world.heap->data(span) + 64);
    ASSERT_TRUE(world.tables->retire_buffer(ref).is_ok());
    world.heap->release(span);
  }
  EXPECT_EQ(world.imports.size(), 0u);
}

TEST(ArgsView, ALayoutMayTravelInTheBlock) {
  World world;
  const OwnedBuffer a = *world.buffers.create(world.store, 400);
  const uint32_t shape[] = {3, 5};
  const wire::Layout layout = wire::layout_of(*make_tensor(a.descriptor, shape, DataType::kFloat32));
  const uint32_t bytes = 24 + 8 + sizeof(wire::Layout);
  wire::Dispatch line;
  line.tensors = 1;
  line.scalars = 1;
  line.args = world.arena->place_for(0, bytes);
  std::byte* block = world.arena->at(line.args);
  const wire::TensorRef ref{a.ref.index, a.ref.generation, 4, wire::kTensorRefInlineLayout, 8};
  std::memcpy(block, &ref, sizeof ref);
  std::memcpy(block + 32, &layout, sizeof layout);
  ArgsView view;
  MappedTensor tensor;
  ASSERT_TRUE(world.reader.open(line, view).is_ok());
  ASSERT_TRUE(view.tensor(0, tensor).is_ok()) << view.tensor(0, tensor).message();
  EXPECT_EQ(tensor.layout->shapes[1], 5u);
  reinterpret_cast<wire::Layout*>(block + 32)->extent_bytes = 1;  // sizes that do not follow from the shape
  EXPECT_EQ(view.tensor(0, tensor).code(), StatusCode::kCorrupt);
}

TEST(ArgsView, ZeroSizeViewsResolveAtTheEndOfABuffer) {  // B053
  World world;
  const OwnedBuffer a = *world.buffers.create(world.store, 400);
  ArgsView view;
  MappedTensor tensor;
  ASSERT_TRUE(world.reader.open(world.line({world.ref(a, 0, 400)}, {}), view).is_ok());
  ASSERT_TRUE(view.tensor(0, tensor).is_ok());
  EXPECT_EQ(tensor.layout->logical_bytes, 0u);
}

TEST(ArgsView, RandomLinesAndBlocksAreReadWithoutHarm) {  // B097
  World world;
  const OwnedBuffer a = *world.buffers.create(world.store, 400);
  const std::byte* base = world.imports.materialize(a.descriptor)->base;
  SeededRandom random(17);
  for (int round = 0; round < 20000; ++round) {
    wire::Dispatch line = world.line({world.ref(a, 10), world.ref(a, 5, 40)}, {1, 2}, (round & 1) != 0);
    uint8_t* block = reinterpret_cast<uint8_t*>(world.arena->at(line.args));
    for (int i = 0; i < 3; ++i)
      block[random.below(64)] = static_cast<uint8_t>(random.below(3) == 0 ? random.next() : 1);
    if (random.below(3) == 0) line.args = static_cast<uint32_t>(random.next());
    if (random.below(3) == 0) line.tensors = static_cast<uint16_t>(random.below(5));
    if (random.below(10) == 0) line.scalars = static_cast<uint16_t>(random.next());
    ArgsView view;
    if (!world.reader.open(line, view).is_ok()) continue;
    MappedTensor tensor;
    for (uint32_t i = 0; i < view.tensor_count(); ++i) {
      if (!view.tensor(i, tensor).is_ok()) continue;
      ASSERT_GE(tensor.data, base);
      ASSERT_LE(tensor.data + tensor.layout->extent_bytes, base + 400);
    }
  }
}

}  // namespace
}  // namespace simpler::memory
