// The builder's side of one graph: turns public arguments into the engine's form.
//
// Lives on the stack of the submit that calls the graph function; used by that thread only. Everything that is looked
// up here is looked up again by the engine under its lock, so a stale memo costs a clear error and nothing else.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/task_request.h"
#include "simpler/orchestrator.h"
#include "worker/node_level.h"

namespace simpler {

struct Orchestrator::State {
  worker::NodeLevel& node;
  engine::RunRef run;
  std::thread::id thread = std::this_thread::get_id();
  bool open = true;
  bool submitted = false;

  State(worker::NodeLevel& level, const engine::RunRef& ref) : node(level), run(ref) {}

  // kFailedPrecondition unless called by the graph function on its own thread.
  Status check_usable(const char* call) const;
  Status check_callable(const CallableHandle& callable, WorkerType type, const char* call) const;
  Status check_before_submit(const char* call) const;
  Status check_placement(const TaskArgs& args, WorkerType type, std::uint32_t target, const char* call) const;
  // Refuses a copy after the first submit, and waits for the runs before this one.
  Status before_copy(const char* call) const;

  // The engine's form of `args`, valid until they change.
  Result<engine::MemberArgs> member_of(const TaskArgs& args, std::uint32_t target);
  Status collect_dependencies(const TaskArgs& args);
  Result<std::uint16_t> config_index(const CallConfig& config);
  Result<engine::TaskId> submit(WorkerType type, const CallableHandle& callable, std::span<const TaskArgs* const> args,
                                std::span<const int> workers, const CallConfig* config, const char* call);
  Status check_signature(const CallableHandle::State& callable, const engine::MemberArgs& member,
                         const char* call) const;
  Status check_target_limits(WorkerType type, const engine::MemberArgs& member, const char* call) const;
  Result<memory::BufferRef> reference(const BufferDescriptor& descriptor);
  // Throws.
  void copy(const Buffer& device, const Buffer& host, std::uint64_t device_offset, std::uint64_t host_offset,
            std::optional<std::uint64_t> nbytes, bool to_device);

  // Buffers that tasks of this run named lately, by their number.
  struct Memo {
    std::uint64_t buffer_id = 0;
    memory::BufferRef ref;
  };
  static constexpr std::size_t kMemos = 256;
  std::array<Memo, kMemos> memos{};
  std::unordered_map<std::uint64_t, memory::BufferRef> allocations;  // of this run
  std::vector<engine::MemberArgs> members;
  std::vector<engine::Dependency> dependencies;
  std::vector<std::uint16_t> configs;  // one use of each belongs to this run
  CallConfig last_config{};
  std::uint16_t last_config_index = 0;
};

}  // namespace simpler

namespace simpler::worker {

// Bytes of a dense tensor; kInvalidArgument for a bad rank, type or a size beyond 64 bits.
Result<std::uint64_t> bytes_of_shape(std::span<const std::uint32_t> shape, DataType dtype, const char* call);

}  // namespace simpler::worker
