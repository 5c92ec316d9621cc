// Edges against a brute-force record of who wrote and read each byte.
#include "graph/tensor_map.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/seeded_random.h"
#include "simpler/tensor.h"

namespace simpler::graph {
namespace {

struct View {
  uint32_t buffer;  // index into the world's buffers
  std::vector<uint32_t> shape;
  std::vector<uint32_t> strides;
  uint64_t offset;  // bytes
  DataType dtype = DataType::kFloat32;
};

// Tasks are numbered from 1; nothing finishes unless told so.
class World {
 public:
  explicit World(std::vector<uint64_t> sizes, Inference inference = Inference::kFull, uint32_t entries = 64)
      : inference_(inference), tables_(std::move(*memory::SharedTables::create())) {
    for (const uint64_t size : sizes) {
      BufferDescriptor descriptor;
      descriptor.identity = tables_->mint_identity();
      descriptor.nbytes = size;
      set_body_address(descriptor, 0x10000);
      descriptor.body_len = 8;
      auto ref = tables_->put_buffer(descriptor);
      EXPECT_TRUE(ref.ok()) << ref.status().describe();
      refs_.push_back(*ref);
      descriptors_.push_back(descriptor);
      bytes_.emplace_back(size);
    }
    map_ = std::make_unique<TensorMap>(
        *tables_,
        LiveProbe{this, [](const void* self,
                           TaskRef task) { return !static_cast<const World*>(self)->done_.contains(task); }},
        entries);
  }

  wire::TensorRef ref(const View& view) {
    auto tensor = make_tensor(descriptors_[view.buffer], view.shape, view.dtype, view.strides, view.offset);
    EXPECT_TRUE(tensor.ok()) << tensor.status().describe();
    return {refs_[view.buffer].index, refs_[view.buffer].generation, tables_->intern_layout(*tensor), 0, view.offset};
  }

  // Returns the producers that the map names for one access.
  std::set<TaskRef> access(TaskRef task, const View& view, TensorArgType tag) {
    std::set<TaskRef> producers;
    const auto note = [&](TaskRef producer) {
      if (producer != task) producers.insert(producer);
    };
    map_->make_room(1);
    Status why;
    Entry* entry = map_->find(ref(view), &why);
    EXPECT_TRUE(why.is_ok()) << why.describe();
    if (entry == nullptr) return producers;
    const uint8_t rule = kTagRules[static_cast<uint8_t>(tag)];
    const bool waits = (rule & kWaitsForWriter) != 0;
    if (inference_ == Inference::kFull) {
      if ((rule & kWrites) != 0) {
        map_->write<Inference::kFull, true>(*entry, task, waits, note);
      } else if (waits) {
        map_->read<Inference::kFull, true>(*entry, task, note);
      }
    } else if ((rule & kWrites) != 0) {
      map_->write<Inference::kWritersOnly, true>(*entry, task, waits, note);
    } else if (waits) {
      map_->read<Inference::kWritersOnly, true>(*entry, task, note);
    }
    return producers;
  }

  void finish(TaskRef task) { done_.insert(task); }
  // Another buffer takes the place of this one.
  void renew(uint32_t buffer, uint64_t size) {
    EXPECT_TRUE(tables_->retire_buffer(refs_[buffer]).is_ok());
    descriptors_[buffer].identity = tables_->mint_identity();
    descriptors_[buffer].nbytes = size;
    auto ref = tables_->put_buffer(descriptors_[buffer]);
    EXPECT_TRUE(ref.ok()) << ref.status().describe();
    refs_[buffer] = *ref;
  }
  // A new run: nothing that was recorded so far matters.
  void begin_epoch() {
    map_->begin_epoch();
    for (auto& buffer : bytes_) std::fill(buffer.begin(), buffer.end(), Byte{});
  }
  TensorMap& map() { return *map_; }
  memory::SharedTables& tables() { return *tables_; }

  static std::vector<uint64_t> bytes_of(const View& view) {
    std::vector<uint64_t> starts{view.offset};
    const uint32_t size = element_size(view.dtype);
    std::vector<uint32_t> strides = view.strides;
    if (strides.empty()) {
      strides.assign(view.shape.size(), 1);
      for (size_t i = view.shape.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * view.shape[i];
    }
    for (size_t axis = 0; axis < view.shape.size(); ++axis) {
      std::vector<uint64_t> next;
      for (const uint64_t start : starts) {
        for (uint32_t k = 0; k < view.shape[axis]; ++k) next.push_back(start + uint64_t{k} * strides[axis] * size);
      }
      starts = std::move(next);
    }
    std::vector<uint64_t> bytes;
    for (const uint64_t start : starts) {
      for (uint32_t b = 0; b < size; ++b) bytes.push_back(start + b);
    }
    return bytes;
  }

  // What each byte demands: tasks that this access must come after.
  std::set<TaskRef> demanded(TaskRef task, const View& view, TensorArgType tag) {
    std::set<TaskRef> result;
    for (const uint64_t at : bytes_of(view)) {
      Byte& byte = bytes_[view.buffer][at];
      if (!writes(tag) && !reads(tag)) continue;
      if (byte.writer != 0 && byte.writer != task) result.insert(byte.writer);
      if (writes(tag)) {
        for (const TaskRef reader : byte.readers) {
          if (reader != task) result.insert(reader);
        }
        byte.writer = task;
        byte.readers.clear();
      } else {
        byte.readers.insert(task);
      }
    }
    return result;
  }

 private:
  struct Byte {
    TaskRef writer = 0;
    std::set<TaskRef> readers;
  };
  Inference inference_;
  std::unique_ptr<memory::SharedTables> tables_;
  std::vector<memory::BufferRef> refs_;
  std::vector<BufferDescriptor> descriptors_;
  std::vector<std::vector<Byte>> bytes_;
  std::set<TaskRef> done_;
  std::unique_ptr<TensorMap> map_;
};

using Tag = TensorArgType;

TEST(TensorMap, AReaderWaitsForTheLastWriterAndAWriterForTheReadersSince) {
  World world({1024});
  const View view{0, {16}, {}, 0};
  EXPECT_EQ(world.access(1, view, Tag::kOutput), (std::set<TaskRef>{}));
  EXPECT_EQ(world.access(2, view, Tag::kInput), (std::set<TaskRef>{1}));
  EXPECT_EQ(world.access(3, view, Tag::kInput), (std::set<TaskRef>{1}));
  EXPECT_EQ(world.access(4, view, Tag::kInout), (std::set<TaskRef>{2, 3}));
  EXPECT_EQ(world.access(5, view, Tag::kOutputExisting), (std::set<TaskRef>{4}));
  EXPECT_EQ(world.access(6, view, Tag::kNoDep), (std::set<TaskRef>{}));
}

TEST(TensorMap, TheWeakerRulesLeaveReadersAndPureOutputsUnordered) {
  World world({1024}, Inference::kWritersOnly);
  const View view{0, {16}, {}, 0};
  EXPECT_TRUE(world.access(1, view, Tag::kOutput).empty());
  EXPECT_TRUE(world.access(2, view, Tag::kOutput).empty());
  EXPECT_EQ(world.access(3, view, Tag::kInput), (std::set<TaskRef>{2}));
  EXPECT_EQ(world.access(4, view, Tag::kInout), (std::set<TaskRef>{2}));
  EXPECT_EQ(world.access(5, view, Tag::kInput), (std::set<TaskRef>{4}));
}

TEST(TensorMap, DisjointRowsColumnsTilesAndInterleavedColumnsGetNoEdge) {
  World world({16 * 16 * 4, 16 * 16 * 4, 16 * 16 * 4, 16 * 16 * 4});
  TaskRef task = 1;
  for (uint32_t i = 0; i < 16; ++i) EXPECT_TRUE(world.access(task++, {0, {16}, {}, i * 64}, Tag::kInout).empty());
  for (uint32_t i = 0; i < 4; ++i)
    EXPECT_TRUE(world.access(task++, {1, {16, 4}, {16, 1}, i * 16}, Tag::kInout).empty());
  for (uint32_t i = 0; i < 16; ++i) {
    EXPECT_TRUE(world.access(task++, {2, {4, 4}, {16, 1}, (i / 4) * 256 + (i % 4) * 16}, Tag::kInout).empty());
  }
  for (uint32_t i = 0; i < 4; ++i) EXPECT_TRUE(world.access(task++, {3, {16, 4}, {16, 4}, i * 4}, Tag::kInout).empty());
  for (uint32_t buffer = 0; buffer < 4; ++buffer) {
    EXPECT_FALSE(world.map().is_mixed(world.ref({buffer, {1}, {}, 0}))) << buffer;
  }
}

TEST(TensorMap, OverlappingColumnBlocksGetAnEdgeAndDistantOnesDoNot) {
  World world({16 * 16 * 4});
  EXPECT_TRUE(world.access(1, {0, {16, 6}, {16, 1}, 0}, Tag::kInout).empty());
  EXPECT_EQ(world.access(2, {0, {16, 4}, {16, 1}, 16}, Tag::kInout), (std::set<TaskRef>{1}));
  EXPECT_TRUE(world.access(3, {0, {16, 4}, {16, 1}, 48}, Tag::kInout).empty());
}

TEST(TensorMap, AWholeBufferReaderWaitsForEverySliceWriter) {
  World world({4096 * 4});
  std::set<TaskRef> writers;
  for (uint32_t i = 0; i < 1000; ++i) {
    EXPECT_TRUE(world.access(i + 1, {0, {4}, {}, i * 16}, Tag::kOutput).empty());
    writers.insert(i + 1);
  }
  EXPECT_EQ(world.access(2000, {0, {4096}, {}, 0}, Tag::kInput), writers);
  EXPECT_EQ(world.access(2001, {0, {4}, {}, 32}, Tag::kOutput), (std::set<TaskRef>{3, 2000}));
}

TEST(TensorMap, ATransposedViewIsTakenAsOverlapping) {
  World world({16 * 16 * 4});
  EXPECT_TRUE(world.access(1, {0, {4, 4}, {16, 1}, 0}, Tag::kInout).empty());
  EXPECT_EQ(world.access(2, {0, {4, 4}, {1, 16}, 4 * 4}, Tag::kInout), (std::set<TaskRef>{1}));
}

TEST(TensorMap, FinishedReadersDoNotPileUp) {
  World world({64});
  const View view{0, {16}, {}, 0};
  for (TaskRef task = 1; task <= 100000; ++task) {
    EXPECT_TRUE(world.access(task, view, Tag::kInput).empty());
    if (task > 10) world.finish(task - 10);
  }
  EXPECT_LT(world.access(100001, view, Tag::kInout).size(), 100U);
}

TEST(TensorMap, ATableFullOfFinishedKeysStaysSmall) {
  World world({uint64_t{1} << 19});
  for (TaskRef task = 1; task <= 20000; ++task) {
    EXPECT_TRUE(world.access(task, {0, {4}, {}, uint64_t{task} * 16}, Tag::kInout).empty());
    world.finish(task);
  }
  EXPECT_EQ(world.map().capacity(), 64U);
}

TEST(TensorMap, AReleasedBufferAndAViewOutsideItAreRefused) {
  World world({1024});
  wire::TensorRef good = world.ref({0, {16}, {}, 0});
  wire::TensorRef stale = good;
  ++stale.generation;
  wire::TensorRef outside = good;
  outside.byte_offset = 1024;
  for (const auto& [ref, code] : {std::pair{stale, StatusCode::kNotFound}, {outside, StatusCode::kInvalidArgument}}) {
    Status why;
    world.map().make_room(1);
    EXPECT_EQ(world.map().find(ref, &why), nullptr);
    EXPECT_EQ(why.code(), code) << why.describe();
  }
}

TEST(TensorMap, AViewWithoutElementsHasNoEntry) {
  World world({1024});
  EXPECT_TRUE(world.access(1, {0, {4, 0}, {1, 1}, 0}, Tag::kInout).empty());
  EXPECT_TRUE(world.access(2, {0, {4, 0}, {1, 1}, 0}, Tag::kInout).empty());
  EXPECT_EQ(world.map().used(), 0U);
}

TEST(TensorMap, ANewEpochKnowsNothing) {
  World world({1024});
  const View view{0, {16}, {}, 0};
  world.access(1, view, Tag::kOutput);
  world.map().begin_epoch();
  EXPECT_TRUE(world.access(2, view, Tag::kInput).empty());
}

TEST(TensorMap, SlicesThatAnEarlierEpochKnewStillMeetOtherViews) {
  World world({1024});
  const View first{0, {16}, {}, 0};
  const View second{0, {16}, {}, 64};
  const View both{0, {32}, {}, 0};
  const View across{0, {16}, {}, 32};
  world.access(1, first, Tag::kOutput);
  world.map().begin_epoch();
  EXPECT_TRUE(world.access(2, first, Tag::kOutput).empty());
  EXPECT_TRUE(world.access(3, second, Tag::kOutput).empty());
  EXPECT_FALSE(world.map().is_mixed(world.ref(first)));
  EXPECT_EQ(world.access(4, both, Tag::kInput), (std::set<TaskRef>{2, 3}));
  EXPECT_EQ(world.access(5, across, Tag::kInput), (std::set<TaskRef>{2, 3}));
  EXPECT_EQ(world.access(6, first, Tag::kOutput), (std::set<TaskRef>{2, 4, 5}));
  ASSERT_EQ(world.map().buffers_named().size(), 1U);
}

TEST(TensorMap, AnEarlierEpochsSlicesDoNotVouchForWhatIsReleasedOrOutside) {
  World world({1024, 1024});
  const wire::TensorRef slice = world.ref({0, {16}, {}, 0});
  wire::TensorRef outside = world.ref({1, {16}, {}, 0});
  world.access(1, {0, {16}, {}, 0}, Tag::kOutput);
  world.access(2, {1, {16}, {}, 0}, Tag::kOutput);
  world.map().begin_epoch();
  outside.byte_offset = 1024;
  ASSERT_TRUE(world.tables().retire_buffer({slice.buffer, slice.generation}).is_ok());
  for (const auto& [ref, code] : {std::pair{slice, StatusCode::kNotFound}, {outside, StatusCode::kInvalidArgument}}) {
    Status why;
    world.map().make_room(1);
    EXPECT_EQ(world.map().find(ref, &why), nullptr);
    EXPECT_EQ(why.code(), code) << why.describe();
  }
  EXPECT_TRUE(world.map().buffers_named().empty());
}

TEST(TensorMap, ABufferInThePlaceOfAnEarlierOneIsLookedAtAnew) {
  World world({1024});
  const wire::TensorRef earlier = world.ref({0, {16}, {}, 0});
  world.access(1, {0, {16}, {}, 0}, Tag::kOutput);
  world.map().begin_epoch();
  world.renew(0, 32);  // smaller than the slice of before
  wire::TensorRef now = world.ref({0, {8}, {}, 0});
  ASSERT_EQ(now.buffer, earlier.buffer);
  ASSERT_NE(now.generation, earlier.generation);
  now.layout = earlier.layout;
  Status why;
  world.map().make_room(1);
  EXPECT_EQ(world.map().find(now, &why), nullptr);
  EXPECT_EQ(why.code(), StatusCode::kInvalidArgument) << why.describe();
}

View random_view(SeededRandom& random, uint32_t buffer, uint32_t rows, uint32_t columns) {
  View view{buffer, {}, {}, 0};
  const uint32_t kind = static_cast<uint32_t>(random.next() % 8);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random.next() % n); };
  switch (kind) {
    case 0:  // a row
      view.shape = {columns};
      view.offset = below(rows) * columns * 4;
      break;
    case 1: {  // a column block
      const uint32_t width = 1 + below(columns / 2);
      view.shape = {rows, width};
      view.strides = {columns, 1};
      view.offset = below(columns - width + 1) * 4;
      break;
    }
    case 2: {  // an aligned tile
      view.shape = {2, 2};
      view.strides = {columns, 1};
      view.offset = (below(rows / 2) * 2 * columns + below(columns / 2) * 2) * 4;
      break;
    }
    case 3:  // everything
      view.shape = {rows, columns};
      break;
    case 4: {  // any one-dimensional range
      const uint32_t length = 1 + below(rows * columns / 2);
      view.shape = {length};
      view.offset = below(rows * columns - length + 1) * 4;
      break;
    }
    case 5:  // every other element
      view.shape = {rows * columns / 2};
      view.strides = {2};
      view.offset = below(2) * 4;
      break;
    case 6:  // transposed
      view.shape = {columns, rows};
      view.strides = {1, columns};
      break;
    default: {  // bytes
      view.dtype = DataType::kUint8;
      const uint32_t length = 1 + below(rows * columns);
      view.shape = {length};
      view.offset = below(rows * columns * 4 - length + 1);
    }
  }
  return view;
}

// Every order that a byte demands follows from the edges of the map, directly or through other tasks.
TEST(TensorMap, EveryOrderThatAByteDemandsFollowsFromTheEdges) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SeededRandom random(seed);
    const uint32_t rows = 4 + 2 * static_cast<uint32_t>(random.next() % 3);
    const uint32_t columns = 4 + 2 * static_cast<uint32_t>(random.next() % 3);
    World world({rows * columns * 4, rows * columns * 4});
    const uint32_t tasks = 60;
    std::vector<std::vector<bool>> after(tasks + 1, std::vector<bool>(tasks + 1));
    const uint32_t kinds = static_cast<uint32_t>(random.next() % 2);
    for (TaskRef task = 1; task <= tasks; ++task) {
      if (task % 20 == 0) {
        world.begin_epoch();
        for (auto& row : after) row.assign(tasks + 1, false);
      }
      const uint32_t arguments = 1 + static_cast<uint32_t>(random.next() % 3);
      std::set<TaskRef> demanded;
      std::set<TaskRef> found;
      for (uint32_t i = 0; i < arguments; ++i) {
        View view = random_view(random, static_cast<uint32_t>(random.next() % 2), rows, columns);
        if (kinds == 0) view = {view.buffer, {2, 2}, {columns, 1}, 0};
        if (kinds == 0) {
          view.offset = (random.next() % (rows / 2) * 2 * columns + random.next() % (columns / 2) * 2) * 4;
        }
        const Tag tag = static_cast<Tag>(random.next() % 4);
        demanded.merge(world.demanded(task, view, tag));
        found.merge(world.access(task, view, tag));
      }
      for (const TaskRef producer : found) {
        ASSERT_LT(producer, task);
        after[task][producer] = true;
        for (TaskRef earlier = 1; earlier <= tasks; ++earlier) {
          if (after[producer][earlier]) after[task][earlier] = true;
        }
      }
      for (const TaskRef producer : demanded) {
        ASSERT_TRUE(after[task][producer]) << "seed " << seed << ": " << task << " must come after " << producer;
      }
      if (kinds == 0) {
        for (const TaskRef producer : found) {
          EXPECT_TRUE(demanded.contains(producer)) << "seed " << seed << ": tiles on one grid got a false edge";
        }
      }
    }
  }
}

TEST(Footprint, OverlapNeverMissesACommonByteAndIsExactOnOneLattice) {
  SeededRandom random(7);
  World world({8 * 8 * 4});
  for (int round = 0; round < 4000; ++round) {
    const View a = random_view(random, 0, 8, 8);
    const View b = random_view(random, 0, 8, 8);
    std::vector<uint64_t> x = World::bytes_of(a);
    std::vector<uint64_t> y = World::bytes_of(b);
    std::sort(x.begin(), x.end());
    std::sort(y.begin(), y.end());
    std::vector<uint64_t> common;
    std::set_intersection(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(common));
    const Lattice first = lattice_of(world.tables().layout(world.ref(a).layout));
    const Lattice second = lattice_of(world.tables().layout(world.ref(b).layout));
    const Overlap how = overlap({&first, a.offset}, {&second, b.offset});
    if (how == Overlap::kNone) {
      EXPECT_TRUE(common.empty()) << round;
    }
    if (how == Overlap::kCovered) {
      EXPECT_EQ(common.size(), y.size()) << round;
    }
    if (first.regular && a.strides == b.strides && a.shape.size() == b.shape.size() && a.dtype == b.dtype &&
        !a.strides.empty() && common.empty()) {
      EXPECT_EQ(how, Overlap::kNone) << round;
    }
  }
}

}  // namespace
}  // namespace simpler::graph
