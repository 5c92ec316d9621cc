// Builds one graph. A graph function receives it, submits tasks, and returns; edges are inferred from the tensors.
//
// Valid only during that function and on its thread: any other use throws Error(kFailedPrecondition). Every submit is
// checked before anything is allocated, so a refused one leaves no trace. A submit blocks while slots or argument space
// are full and running tasks can free them.
#pragma once

#include <cstdint>
#include <exception>
#include <initializer_list>
#include <optional>
#include <span>

#include "simpler/buffer.h"
#include "simpler/call_config.h"
#include "simpler/callable.h"
#include "simpler/status.h"
#include "simpler/task_args.h"

namespace simpler {

class Orchestrator {
 public:
  Orchestrator(const Orchestrator&) = delete;
  Orchestrator& operator=(const Orchestrator&) = delete;

  // One task on exactly the child `worker` (a chip's index at level 3).
  TaskHandle submit_next_level(const CallableHandle& callable, const TaskArgs& args, int worker);
  TaskHandle submit_next_level(const CallableHandle& callable, const TaskArgs& args, int worker,
                               const CallConfig& config);
  // One task with a member on each of `workers`; it starts when all of them are free and ends when all ended.
  TaskHandle submit_next_level_group(const CallableHandle& callable, std::span<const TaskArgs> args,
                                     std::span<const int> workers, const CallConfig& config = {});
  // One task on any free host child.
  void submit_sub(const CallableHandle& callable, const TaskArgs& args = {});
  void submit_sub_group(const CallableHandle& callable, std::span<const TaskArgs> args);

  // Memory shared with the children, from the heap of this scope depth. It is given back when the scope ended and every
  // task that names it (with any tag but NO_DEP) is terminal. Blocks while it can come free; throws
  // Error(kResourceExhausted) when it never can.
  Buffer alloc(std::span<const std::uint32_t> shape, DataType dtype);
  Buffer alloc(std::initializer_list<std::uint32_t> shape, DataType dtype) {
    return alloc(std::span<const std::uint32_t>(shape.begin(), shape.size()), dtype);
  }

  void scope_begin();
  void scope_end();
  // A scope of a C++ block. Ending it twice, or in the wrong order, is an error of the run. Left by an exception it
  // adds none of its own.
  class Scope {
   public:
    explicit Scope(Orchestrator& orchestrator) : orchestrator_(orchestrator) { orchestrator_.scope_begin(); }
    ~Scope() noexcept(false) {
      if (std::uncaught_exceptions() == exceptions_) {
        orchestrator_.scope_end();
        return;
      }
      try {
        orchestrator_.scope_end();
      } catch (const Error&) {
        // The exception that is under way ends the run anyhow.
      }
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Orchestrator& orchestrator_;
    const int exceptions_ = std::uncaught_exceptions();
  };

  // As the worker's calls of these names; refused after the first submit of the run.
  Buffer alloc_child_tensor(int worker, std::span<const std::uint32_t> shape, DataType dtype);
  void free(const Buffer& buffer);
  void copy_to(const Buffer& device, const Buffer& host, std::uint64_t device_offset = 0, std::uint64_t host_offset = 0,
               std::optional<std::uint64_t> nbytes = std::nullopt);
  void copy_from(const Buffer& host, const Buffer& device, std::uint64_t host_offset = 0,
                 std::uint64_t device_offset = 0, std::optional<std::uint64_t> nbytes = std::nullopt);

  struct State;
  explicit Orchestrator(State& state) : state_(&state) {}

 private:
  State* state_;
};

}  // namespace simpler
