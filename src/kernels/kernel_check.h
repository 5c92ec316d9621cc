// Test support: runs a ready-made kernel as a core would and checks it against a reference in double precision.
//
// Every tensor ends at an unreadable page and has poison between its elements, so reading or writing outside a view is
// seen. A case runs contiguous and strided, in one block and in several; all must give the same bytes.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "base/seeded_random.h"
#include "kernels/catalog.h"

namespace simpler::kernels {

using Shape = std::vector<uint32_t>;

inline size_t count_of(const Shape& shape) {
  size_t count = 1;
  for (const uint32_t size : shape) count *= size;
  return count;
}

// A logical tensor: values in row-major order, each four bytes wide.
struct Value {
  Shape shape;
  bool integers = false;
  std::vector<float> floats{};
  std::vector<int32_t> ints{};

  static Value of(Shape shape, std::vector<float> values) { return {std::move(shape), false, std::move(values)}; }
  static Value of_ints(Shape shape, std::vector<int32_t> values) {
    return {std::move(shape), true, {}, std::move(values)};
  }
  static Value blank(Shape shape, bool integers = false) {
    const size_t count = count_of(shape);
    return {std::move(shape), integers, std::vector<float>(integers ? 0 : count, 123.0F),
            std::vector<int32_t>(integers ? count : 0, -77)};
  }
  static Value random(Shape shape, uint64_t seed, float low = -1, float high = 1) {
    Value value = blank(std::move(shape));
    SeededRandom random(seed);
    for (float& x : value.floats) x = low + (high - low) * static_cast<float>(random.below(1U << 24)) / 16777216.0F;
    return value;
  }
  const void* bytes() const { return integers ? static_cast<const void*>(ints.data()) : floats.data(); }
  void* bytes() { return integers ? static_cast<void*>(ints.data()) : floats.data(); }
};

enum class Layout { kContiguous, kGaps, kColumnMajor };

// Memory of one tensor argument in a layout.
class Placed {
 public:
  static constexpr uint32_t kPoison = 0x7FC0DEAD;  // a NaN

  Placed(const Value& value, Layout layout) {
    const auto rank = static_cast<uint32_t>(value.shape.size());
    descriptor_.ndims = rank;
    descriptor_.dtype = value.integers ? kernel::DataType::kInt32 : kernel::DataType::kFloat32;
    uint64_t span = layout == Layout::kGaps ? 3 : 1;
    for (uint32_t i = 0; i < rank; ++i) {
      const uint32_t d = layout == Layout::kColumnMajor ? i : rank - 1 - i;
      descriptor_.shapes[d] = value.shape[d];
      descriptor_.strides[d] = static_cast<uint32_t>(std::max<uint64_t>(1, span));
      span = span * std::max<uint32_t>(1, value.shape[d]) + (layout == Layout::kGaps ? 5 : 0);
    }
    uint64_t extent = count_of(value.shape) == 0 ? 0 : 1;
    for (uint32_t d = 0; extent > 0 && d < rank; ++d) {
      extent += uint64_t{value.shape[d] - 1} * descriptor_.strides[d];
    }
    descriptor_.extent_elem = extent;
    descriptor_.start_offset = layout == Layout::kContiguous ? 0 : 7;
    descriptor_.is_contiguous = layout == Layout::kContiguous ? 1 : 0;
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t elements = descriptor_.start_offset + extent;
    pages_ = (elements * 4 + page - 1) / page * page + page;
    base_ = mmap(nullptr, pages_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(static_cast<char*>(base_) + pages_ - page, page, PROT_NONE);
    words_ = reinterpret_cast<uint32_t*>(static_cast<char*>(base_) + pages_ - page) - elements;
    std::fill_n(words_, elements, kPoison);
    elements_ = elements;
    descriptor_.addr = reinterpret_cast<uintptr_t>(words_);
    descriptor_.size = elements * 4;
    for (size_t i = 0; i < count_of(value.shape); ++i) {
      std::memcpy(words_ + place(value.shape, i), static_cast<const uint32_t*>(value.bytes()) + i, 4);
    }
  }
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;
  ~Placed() { munmap(base_, pages_); }

  kernel::TensorDescriptor& descriptor() { return descriptor_; }
  void read_back(Value& value) const {
    for (size_t i = 0; i < count_of(value.shape); ++i) {
      std::memcpy(static_cast<uint32_t*>(value.bytes()) + i, words_ + place(value.shape, i), 4);
    }
  }
  // Words that belong to no element still hold the poison.
  bool gaps_untouched(const Shape& shape) const {
    std::vector<bool> owned(elements_, false);
    for (size_t i = 0; i < count_of(shape); ++i) owned[place(shape, i)] = true;
    for (size_t i = 0; i < elements_; ++i) {
      if (!owned[i] && words_[i] != kPoison) return false;
    }
    return true;
  }

 private:
  size_t place(const Shape& shape, size_t index) const {
    size_t offset = descriptor_.start_offset;
    for (size_t d = shape.size(); d-- > 0;) {
      offset += index % shape[d] * descriptor_.strides[d];
      index /= shape[d];
    }
    return offset;
  }

  kernel::TensorDescriptor descriptor_{};
  void* base_ = nullptr;
  size_t pages_ = 0, elements_ = 0;
  uint32_t* words_ = nullptr;
};

inline uint64_t word_of(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  return bits;
}

// One call: inputs, then outputs, then scalars.
struct Case {
  std::string kernel;
  std::vector<Value> inputs;
  std::vector<Value> outputs;  // blank, of the right shape
  std::vector<uint64_t> scalars{};
};

// Runs every block in turn; throws what the kernel throws.
inline void run_blocks(kernel::KernelEntry entry, std::vector<kernel::TensorDescriptor*> tensors,
                       const std::vector<uint64_t>& scalars, uint32_t blocks) {
  for (uint32_t block = 0; block < blocks; ++block) {
    int64_t args[kernel::kArgumentSlots];
    std::fill_n(args, kernel::kArgumentSlots, int64_t{0x5A5A5A5A5A5A5A5A});
    size_t slot = 0;
    for (kernel::TensorDescriptor* tensor : tensors)
      args[slot++] = static_cast<int64_t>(reinterpret_cast<uintptr_t>(tensor));
    for (const uint64_t scalar : scalars) args[slot++] = static_cast<int64_t>(scalar);
    kernel::LocalContext local{};
    local.struct_size = sizeof local;
    local.block_idx = block;
    local.block_num = blocks;
    local.tensor_count = static_cast<uint32_t>(tensors.size());
    local.scalar_count = static_cast<uint32_t>(scalars.size());
    kernel::GlobalContext global{sizeof(kernel::GlobalContext), 0};
    args[kernel::kLocalContextSlot] = static_cast<int64_t>(reinterpret_cast<uintptr_t>(&local));
    args[kernel::kGlobalContextSlot] = static_cast<int64_t>(reinterpret_cast<uintptr_t>(&global));
    entry(args);
  }
}

inline std::vector<Value> run_case(kernel::KernelEntry entry, const Case& c, Layout layout, uint32_t blocks) {
  std::vector<std::unique_ptr<Placed>> placed;
  std::vector<kernel::TensorDescriptor*> tensors;
  for (const auto* list : {&c.inputs, &c.outputs}) {
    for (const Value& value : *list) {
      placed.push_back(std::make_unique<Placed>(value, layout));
      tensors.push_back(&placed.back()->descriptor());
    }
  }
  run_blocks(entry, tensors, c.scalars, blocks);
  std::vector<Value> outputs = c.outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Placed& memory = *placed[c.inputs.size() + i];
    memory.read_back(outputs[i]);
    EXPECT_TRUE(memory.gaps_untouched(outputs[i].shape)) << c.kernel << " wrote outside output " << i;
  }
  return outputs;
}

inline bool same_bytes(const Value& a, const Value& b) {
  const size_t count = count_of(a.shape);
  return count == 0 || std::memcmp(a.bytes(), b.bytes(), count * 4) == 0;
}

// The kernels of every instruction set that was built and can run here.
class KernelTest : public testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override {
    if (!is_supported(GetParam())) GTEST_SKIP() << "this machine does not run " << name_of(GetParam());
    if (!find_module(GetParam(), "").ok()) GTEST_SKIP() << "no module for " << name_of(GetParam()) << " was built";
    Result<std::unique_ptr<Catalog>> opened = Catalog::open({GetParam(), ""});
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    catalog_ = std::move(opened).value();
  }

  kernel::KernelEntry entry(const std::string& name) const {
    return catalog_->find(name.data(), name.size(), 0)->entry;
  }

  // Runs contiguous in one block, then every other way, which must give the same bytes. Returns the outputs.
  std::vector<Value> run_every_way(const Case& c) const {
    const std::vector<Value> first = run_case(entry(c.kernel), c, Layout::kContiguous, 1);
    const std::pair<Layout, uint32_t> ways[] = {{Layout::kContiguous, 3},  {Layout::kContiguous, 16},
                                                {Layout::kGaps, 1},        {Layout::kGaps, 5},
                                                {Layout::kColumnMajor, 1}, {Layout::kColumnMajor, 2}};
    for (const auto& [layout, blocks] : ways) {
      const std::vector<Value> again = run_case(entry(c.kernel), c, layout, blocks);
      for (size_t i = 0; i < first.size(); ++i) {
        EXPECT_TRUE(same_bytes(first[i], again[i])) << c.kernel << " output " << i << " differs in layout "
                                                    << static_cast<int>(layout) << " with " << blocks << " blocks";
      }
    }
    return first;
  }

  // `reference` gives element i of output 0. Error allowed: tolerance * (scale_of(i) or max(1, |reference|)).
  void check(const Case& c, const std::function<double(size_t)>& reference, double tolerance,
             const std::function<double(size_t)>& scale_of = {}) const {
    const std::vector<Value> outputs = run_every_way(c);
    double worst = 0;
    size_t where = 0;
    for (size_t i = 0; i < outputs[0].floats.size(); ++i) {
      const double expected = reference(i);
      const double scale = scale_of ? scale_of(i) : std::max(1.0, std::fabs(expected));
      const double error = std::fabs(static_cast<double>(outputs[0].floats[i]) - expected) / scale;
      if (!(error <= worst)) {
        worst = error;
        where = i;
      }
    }
    EXPECT_LE(worst, tolerance) << c.kernel << " element " << where;
  }

  // The text that the kernel refuses a call with; empty when it accepts.
  std::string refusal(const Case& c,
                      const std::function<void(std::vector<kernel::TensorDescriptor*>&)>& spoil = {}) const {
    std::vector<std::unique_ptr<Placed>> placed;
    std::vector<kernel::TensorDescriptor*> tensors;
    for (const auto* list : {&c.inputs, &c.outputs}) {
      for (const Value& value : *list) {
        placed.push_back(std::make_unique<Placed>(value, Layout::kContiguous));
        tensors.push_back(&placed.back()->descriptor());
      }
    }
    if (spoil) spoil(tensors);
    try {
      run_blocks(entry(c.kernel), tensors, c.scalars, 1);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  }

  std::unique_ptr<Catalog> catalog_;
};

inline std::string isa_name(const testing::TestParamInfo<InstructionSet>& info) {
  return std::string(name_of(info.param));
}

}  // namespace simpler::kernels
