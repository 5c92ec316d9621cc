#include "test_chip.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>

namespace simpler::chip {

std::atomic<uint32_t> stuck_kernel_releases{0};

namespace {

using namespace kernel;

uint64_t count_of(int64_t* args, uint32_t index) {
  return element_count(tensor(args, index));
}

void add(int64_t* args) {
  for (uint64_t i = 0; i < count_of(args, 0); ++i) {
    data<float>(args, 2)[i] = data<float>(args, 0)[i] + data<float>(args, 1)[i];
  }
}
void add_scalar(int64_t* args) {
  for (uint64_t i = 0; i < count_of(args, 0); ++i) {
    data<float>(args, 1)[i] = data<float>(args, 0)[i] + scalar<float>(args, 0);
  }
}
void multiply(int64_t* args) {
  for (uint64_t i = 0; i < count_of(args, 0); ++i) {
    data<float>(args, 2)[i] = data<float>(args, 0)[i] * data<float>(args, 1)[i];
  }
}
void affine(int64_t* args) {
  float* x = data<float>(args, 0);
  for (uint64_t i = 0; i < count_of(args, 0); ++i) x[i] = x[i] * 3 + static_cast<float>(scalar<int32_t>(args, 0));
}

// Elements of the first tensor in row-major order of its view, to the view of the second one.
void copy(int64_t* args) {
  const auto offset = [](const TensorDescriptor& t, uint64_t n) {
    uint64_t at = 0;
    for (uint32_t d = t.ndims; d-- > 0; n /= t.shapes[d]) at += n % t.shapes[d] * t.strides[d];
    return at;
  };
  for (uint64_t i = 0; i < count_of(args, 0); ++i) {
    data<float>(args, 1)[offset(tensor(args, 1), i)] = data<float>(args, 0)[offset(tensor(args, 0), i)];
  }
}
void fill(int64_t* args) {
  for (uint64_t i = 0; i < count_of(args, 0); ++i) data<float>(args, 0)[i] = scalar<float>(args, 0);
}
void block_index(int64_t* args) {
  data<int32_t>(args, 0)[get_block_idx(args)] += static_cast<int32_t>(get_block_idx(args)) + 1;
}
void double_ints(int64_t* args) {
  for (uint64_t i = 0; i < count_of(args, 0); ++i) data<int32_t>(args, 0)[i] *= 2;
}

// Two rounds: nobody starts the second before all have arrived in the first.
void barrier(int64_t* args) {
  const bool spins = scalar<uint32_t>(args, 0) != 0;
  const auto blocks = static_cast<int32_t>(get_block_num(args));
  for (int round = 0; round < 2; ++round) {
    std::atomic_ref<int32_t> arrived(data<int32_t>(args, 0)[round]);
    ++arrived;
    while (arrived.load() < blocks) {
      if (!spins && !pause(args)) return;
    }
  }
  std::atomic_ref<int32_t>(data<int32_t>(args, 0)[2])++;
}
void nothing(int64_t*) {}
void throws(int64_t* args) {
  if (scalar<uint32_t>(args, 0) == 2) throw std::runtime_error("the third task is no good");
}
void stuck(int64_t*) {
  const uint32_t before = stuck_kernel_releases.load(std::memory_order_relaxed);
  while (stuck_kernel_releases.load(std::memory_order_relaxed) == before) {
  }
}
void wait_forever(int64_t* args) {
  while (pause(args)) {
  }
}
void count(int64_t* args) {
  std::atomic_ref<int32_t>(data<int32_t>(args, 0)[0])++;
}

struct Named {
  const char* name;
  KernelEntry entry;
  CoreType core_type = CoreType::kAiv;
};
constexpr Named kNamed[kKernels] = {
    {"add", add},
    {"add_scalar", add_scalar},
    {"multiply", multiply, CoreType::kAic},
    {"affine", affine},
    {"copy", copy},
    {"fill", fill},
    {"block_index", block_index},
    {"double_ints", double_ints},
    {"barrier", barrier},
    {"nothing", nothing},
    {"throws", throws},
    {"stuck", stuck},
    {"wait_forever", wait_forever},
    {"count", count},
    {"affine_aic", affine, CoreType::kAic},
};

class TestKernels final : public KernelSource {
 public:
  TestKernels() {
    for (const Named& named : kNamed) kernels_.push_back(BuiltinKernel{named.name, 1, named.core_type, named.entry});
  }
  const BuiltinKernel* find(const char* name, size_t length, uint32_t version) const override {
    for (const BuiltinKernel& kernel : kernels_) {
      if (kernel.name == std::string_view(name, length) && kernel.version == version) return &kernel;
    }
    return nullptr;
  }

 private:
  std::vector<BuiltinKernel> kernels_;
};

}  // namespace

const kernel::KernelSource& test_kernels() {
  static const TestKernels kernels;
  return kernels;
}

std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::vector<std::byte> out(bytes.size());
  std::transform(bytes.begin(), bytes.end(), out.begin(), [](char c) { return static_cast<std::byte>(c); });
  return out;
}

ChipCallable graph(const std::string& entry, const Directions& signature, const std::string& config) {
  std::vector<ChipChild> children;
  for (uint32_t id = 0; id < kKernels; ++id) {
    children.push_back(ChipChild{id, CoreCallable::builtin({}, BuiltinName{kNamed[id].name, 1})});
  }
  return ChipCallable::build(signature, entry, read_file(ORCHESTRATIONS), children, config);
}

ChipTensor device(uint64_t address, uint32_t elements, simpler::DataType type) {
  return ChipTensor::make(address, std::vector<uint32_t>{elements}, type, true);
}

std::unique_ptr<ChipWorker> make_chip(ChipOptions options) {
  options.kernels = &test_kernels();
  auto chip = ChipWorker::create(options);
  EXPECT_TRUE(chip.ok()) << chip.status().describe();
  return std::move(chip).value();
}

Status run_once(ChipWorker& chip, const ChipCallable& callable, std::vector<ChipTensor> tensors,
                std::vector<uint64_t> scalars, const CallConfig& config) {
  if (Status registered = chip.register_callable(0, callable.bytes()); !registered.is_ok()) return registered;
  Status outcome = chip.run(0, ChipArgs{tensors, scalars}, config);
  const Status removed = chip.unregister(0);
  EXPECT_TRUE(removed.is_ok()) << removed.describe();
  return outcome;
}

std::vector<Setup> every_setup() {
  return {{"a2a3sim", 1}, {"a2a3sim", 2}, {"a5sim", 1}, {"a5sim", 2}, {"tiny", 1}, {"tiny", 2}};
}

void PrintTo(const Setup& setup, std::ostream* out) {
  *out << setup.platform << " on " << setup.threads << " threads";
}

std::string name_of(const testing::TestParamInfo<Setup>& info) {
  return std::string(info.param.platform) + (info.param.threads == 1 ? "OneThread" : "TwoThreads");
}

}  // namespace simpler::chip
