// What a chip child does: run chip callables on staged arguments and serve the commands for its memory.
#pragma once

#include <vector>

#include "base/fault_point.h"
#include "chip/chip_worker.h"
#include "lane/handler.h"
#include "memory/args_view.h"
#include "memory/import_registry.h"
#include "memory/tables.h"
#include "worker/task_trace.h"
#include "worker/user_time.h"

namespace simpler::worker {

// The chip's form of a mapped tensor. kOutOfRange when the place inside the buffer cannot be said in elements.
Result<ChipTensor> chip_tensor(const memory::MappedTensor& tensor, const BufferDescriptor& descriptor);

class ChipHandler final : public lane::Handler {
 public:
  // Fault points of a task, in their order: "task.chip.decode" with the line taken, "task.chip.import" before its
  // buffers are looked for, "task.chip.run" with the arguments made, "task.chip.ran".
  ChipHandler(chip::ChipWorker& chip, memory::SharedTablesView tables, memory::ArgsReader& reader,
              memory::ImportRegistry& imports, UserTime user_time, TaskTrace trace, FaultPlan* faults = nullptr)
      : chip_(chip),
        tables_(tables),
        reader_(reader),
        imports_(imports),
        user_time_(user_time),
        trace_(std::move(trace)),
        faults_(faults) {}

  Status run(const lane::Task& task) override;
  Result<lane::ControlAnswer> control(const lane::ControlCall& call) override;

 private:
  Status read_arguments(const lane::Task& task);
  Status copy(const lane::ControlCall& call);

  chip::ChipWorker& chip_;
  memory::SharedTablesView tables_;
  memory::ArgsReader& reader_;
  memory::ImportRegistry& imports_;
  UserTime user_time_;
  TaskTrace trace_;
  FaultPlan* faults_;
  std::vector<ChipTensor> tensors_;
  std::vector<std::uint64_t> scalars_;
};

}  // namespace simpler::worker
