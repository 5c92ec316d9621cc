// A node of host children with the native functions that these tests run.
#pragma once

#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <signal.h>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "simpler/simpler.h"

namespace simpler::testing {

inline std::uint64_t& word(const Buffer& buffer, std::size_t index = 0) {
  return reinterpret_cast<std::uint64_t*>(buffer.data())[index];
}

inline Tensor words(const Buffer& buffer, std::uint32_t first = 0, std::uint32_t count = 1) {
  return buffer.tensor({count}, DataType::kUint64, std::uint64_t{first} * 8);
}

// Waits inside a child until the word is set, without a limit of its own: the test's time limit ends a hang.
inline void await_word(const MappedArg& arg) {
  const std::uint64_t* flag = arg.as<const std::uint64_t>();
  while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0) {
    sched_yield();
  }
}

inline void set_word(std::uint64_t& flag) {
  __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
}

inline std::vector<std::byte> read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A graph of graphs.cpp.
inline ChipCallable graph(const char* entry, const std::vector<ArgDirection>& signature) {
  const std::vector<ArgDirection> binary = {ArgDirection::kIn, ArgDirection::kIn, ArgDirection::kOut};
  const std::vector<ChipChild> children = {{0, CoreCallable::builtin(binary, {"multiply", 1})},
                                           {1, CoreCallable::builtin(binary, {"add", 1})}};
  return ChipCallable::build(signature, entry, read_file(GRAPHS), children);
}

class NodeTest : public ::testing::Test {
 protected:
  explicit NodeTest(int children = 2) : NodeTest(WorkerOptions{.level = 3, .num_sub_workers = children}) {}
  explicit NodeTest(const WorkerOptions& options) : worker(options) {
    // out[0] = 31 * out[0] + every input
    mix = worker.register_native("mix", [](const MappedArgs& args) {
      std::uint64_t& out = *args[0].as<std::uint64_t>();
      for (std::size_t i = 1; i < args.size(); ++i) {
        out = 31 * out + *args[i].as<const std::uint64_t>();
      }
      for (std::size_t i = 0; i < args.scalar_count(); ++i) {
        out = 31 * out + args.scalar(i);
      }
    });
    fail = worker.register_native("fail", [](const MappedArgs&) { throw std::runtime_error("the disk is on fire"); });
    pid = worker.register_native(
        "pid", [](const MappedArgs& args) { *args[0].as<std::uint64_t>() = static_cast<std::uint64_t>(::getpid()); });
    // Tells that it runs (tensor 0), then waits for tensor 1.
    meet = worker.register_native("meet", [](const MappedArgs& args) {
      set_word(*args[0].as<std::uint64_t>());
      await_word(args[1]);
    });
    die = worker.register_native("die",
                                 [](const MappedArgs& args) { ::kill(::getpid(), static_cast<int>(args.scalar(0))); });
    leave = worker.register_native("leave", [](const MappedArgs& args) { ::_exit(static_cast<int>(args.scalar(0))); });
  }
  void SetUp() override { worker.init(); }

  Worker worker;
  CallableHandle mix, fail, pid, meet, die, leave;
};

// The status that `f` throws, or ok.
template <class F>
Status thrown(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.status();
  }
  return Status::ok();
}

}  // namespace simpler::testing
