// A chip with the kernels of the tests built in, and short ways to build callables and arguments.
#pragma once

#include <atomic>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "chip/chip_worker.h"
#include "kernel_ids.h"

namespace simpler::chip {

std::vector<std::byte> read_file(const std::string& path);

// A kStuck kernel returns when this grows after it started; grow it at the end of a test that leaves one behind.
extern std::atomic<uint32_t> stuck_kernel_releases;

const kernel::KernelSource& test_kernels();

using Directions = std::vector<ArgDirection>;
inline constexpr ArgDirection kIn = ArgDirection::kIn;
inline constexpr ArgDirection kOut = ArgDirection::kOut;
inline constexpr ArgDirection kInout = ArgDirection::kInout;

// A callable of orchestrations.cpp with all test kernels.
ChipCallable graph(const std::string& entry, const Directions& signature, const std::string& config = {});

template <class T>
ChipTensor host(std::vector<T>& values, std::vector<uint32_t> shape) {
  const DataType type = std::is_same_v<T, float> ? DataType::kFloat32 : DataType::kInt32;
  return ChipTensor::make(reinterpret_cast<uint64_t>(values.data()), shape, type);
}
template <class T>
ChipTensor host(std::vector<T>& values) {
  return host(values, {static_cast<uint32_t>(values.size())});
}
ChipTensor device(uint64_t address, uint32_t elements, DataType type = DataType::kFloat32);

std::unique_ptr<ChipWorker> make_chip(ChipOptions options);
// Registers under index 0, runs, unregisters.
Status run_once(ChipWorker& chip, const ChipCallable& callable, std::vector<ChipTensor> tensors,
                std::vector<uint64_t> scalars = {}, const CallConfig& config = {});

struct Setup {
  const char* platform;
  uint32_t threads;
};
// Every platform on one and on two threads.
class EveryChip : public testing::TestWithParam<Setup> {
 protected:
  ChipOptions options() const {
    ChipOptions out;
    out.platform = GetParam().platform;
    out.threads = GetParam().threads;
    return out;
  }
};
std::vector<Setup> every_setup();
void PrintTo(const Setup& setup, std::ostream* out);
std::string name_of(const testing::TestParamInfo<Setup>& info);

}  // namespace simpler::chip
