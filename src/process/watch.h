// The watch thread: learns from pidfds that a child or the parent of this process is gone.
//
// One thread per process, shared by all workers in it: of_process() gives the running one or starts it, and it ends
// with its last owner. A child's end runs that child's callback once, on the watch thread; the callback leaves a note
// and rings somebody, it neither blocks nor takes long. The parent's end kills every watched child and ends this
// process. Where the kernel refuses pidfds the thread looks every 10 ms instead.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "process/child_process.h"
#include "simpler/status.h"

namespace simpler::process {

class Watch {
 public:
  using OnEnd = std::function<void(const ExitInfo&)>;
  using Token = uint64_t;

  // Exit status of a process that ends because its parent did.
  static constexpr int kOrphanedExitStatus = 86;

  // kSystem when no thread can be started.
  static Result<std::shared_ptr<Watch>> of_process();

  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();  // in a forked copy of the process it touches nothing

  // Runs `on_end` once, also when the child has already ended.
  Token add_child(Child child, OnEnd on_end);
  // After this the callback neither runs nor will; called from the callback itself it returns at once.
  void remove_child(Token token);
  // From now on the end of the parent kills the watched children, and their groups if they have one, and ends this
  // process.
  void guard_parent(ParentLink parent);

 private:
  struct State;
  Watch();
  std::unique_ptr<State> state_;
};

}  // namespace simpler::process
