// What a host child does: run native and Python functions on mapped arguments, and take registrations.
#pragma once

#include <vector>

#include "lane/handler.h"
#include "memory/args_view.h"
#include "memory/import_registry.h"
#include "worker/host_language.h"
#include "worker/host_table.h"
#include "worker/task_trace.h"
#include "worker/user_time.h"

namespace simpler::worker {

class HostHandler final : public lane::Handler {
 public:
  HostHandler(HostTable table, const HostLanguage& language, memory::ArgsReader& reader,
              memory::ImportRegistry& imports, UserTime user_time, TaskTrace trace)
      : table_(std::move(table)),
        language_(language),
        reader_(reader),
        imports_(imports),
        user_time_(user_time),
        trace_(std::move(trace)) {}

  Status run(const lane::Task& task) override;
  Result<lane::ControlAnswer> control(const lane::ControlCall& call) override;
  void idle() override {
    if (language_.idle) {
      language_.idle();
    }
  }

 private:
  Status map_arguments(const lane::Task& task);
  Status register_function(const lane::ControlCall& call);

  HostTable table_;
  const HostLanguage& language_;
  memory::ArgsReader& reader_;
  memory::ImportRegistry& imports_;
  UserTime user_time_;
  TaskTrace trace_;
  std::vector<MappedArg> tensors_;  // reused by every task
  std::vector<std::uint64_t> scalars_;
};

// A function of C++ as a HostFunction: its exceptions become a Status with type name and text.
HostFunction wrap_native(NativeFunction function);

}  // namespace simpler::worker
