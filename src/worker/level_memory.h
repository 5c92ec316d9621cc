// The shared memory of one level, made before its first fork: doorbell, tables, argument arena, heap, mailboxes.
//
// Owned by the worker that is the parent of the level. Children inherit every mapping at the same address; what they
// must not write they make read-only for themselves with `enter_child`.
#pragma once

#include <memory>
#include <vector>

#include "base/wake_word.h"
#include "memory/args_arena.h"
#include "memory/heap.h"
#include "memory/shared_mapping.h"
#include "memory/tables.h"
#include "simpler/status.h"
#include "simpler/worker.h"
#include "wire/mailbox.h"

namespace simpler::worker {

class LevelMemory {
 public:
  // One mailbox per child, each with `queue_depth` lines.
  static Result<std::unique_ptr<LevelMemory>> create(const WorkerOptions& options, std::size_t children,
                                                     std::uint32_t queue_depth);

  WakeWord& doorbell() const { return *reinterpret_cast<WakeWord*>(shared_.data()); }
  wire::Mailbox& mailbox(std::size_t child) const;
  memory::SharedTables& tables() const { return *tables_; }
  memory::ArgsArena& arena() const { return *arena_; }
  memory::Heap& heap() const { return *heap_; }

  // In a child: the parent's tables and arguments can be read only from here on.
  Status enter_child();

 private:
  LevelMemory() = default;

  memory::SharedMapping shared_;  // doorbell, then the mailboxes
  std::unique_ptr<memory::SharedTables> tables_;
  std::unique_ptr<memory::ArgsArena> arena_;
  std::unique_ptr<memory::Heap> heap_;
  std::size_t children_ = 0;
};

}  // namespace simpler::worker
