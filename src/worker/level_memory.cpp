#include "worker/level_memory.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "worker/options.h"

namespace simpler::worker {
namespace {

constexpr std::uint64_t kDoorbellBytes = 4096;

}  // namespace

Result<std::unique_ptr<LevelMemory>> LevelMemory::create(const WorkerOptions& options, std::size_t children,
                                                         std::uint32_t queue_depth) {
  std::unique_ptr<LevelMemory> level(new LevelMemory);
  const std::uint64_t bytes = kDoorbellBytes + children * wire::kMailboxBytes;
  SIMPLER_ASSIGN_OR_RETURN(level->shared_,
                           memory::SharedMapping::create({.name = "simpler-mailboxes", .bytes = bytes}));
  SIMPLER_RETURN_IF_ERROR(level->shared_.secure(0, bytes));
  level->children_ = children;
  for (std::size_t child = 0; child < children; ++child) {
    wire::initialise(level->mailbox(child), queue_depth, 1);
  }
  SIMPLER_ASSIGN_OR_RETURN(level->tables_, memory::SharedTables::create());
  SIMPLER_ASSIGN_OR_RETURN(level->arena_, memory::ArgsArena::create({.slots = window_of(options)}));
  memory::HeapOptions heap;
  if (options.heap_ring_size) {
    heap.region_bytes = *options.heap_ring_size;
  }
  SIMPLER_ASSIGN_OR_RETURN(level->heap_, memory::Heap::create(heap));
  return level;
}

wire::Mailbox& LevelMemory::mailbox(std::size_t child) const {
  SIMPLER_CHECK(child < children_, child, children_);
  return *reinterpret_cast<wire::Mailbox*>(shared_.data() + kDoorbellBytes + child * wire::kMailboxBytes);
}

Status LevelMemory::enter_child() {
  // Both are only read in a child; the writer's objects are never used there.
  SIMPLER_RETURN_IF_ERROR(const_cast<memory::SharedMapping&>(tables_->mapping()).protect_read_only());
  return const_cast<memory::SharedMapping&>(arena_->mapping()).protect_read_only();
}

}  // namespace simpler::worker
