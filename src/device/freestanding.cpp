// Instantiates the device code as a chip would: this library is compiled without exceptions and run-time types.
#include "device/core_line.h"
#include "device/scheduler.h"

namespace simpler::device {
namespace {

// Scheduler and cores in one thread, nothing else.
struct BarePlatform {
  Scheduler& scheduler;
  Payload payload{};
  CoreLine line{};

  uint32_t first_shape() { return 0; }
  void offer() {}
  Execution execute(const Ticket& ticket) {
    payload.entry = scheduler.graph().slots[ticket.task].entry;
    payload.local.block_idx = ticket.block;
    line.dispatch();
    const uint32_t command = line.accept();
    payload.entry(payload.args);
    line.finish(command);
    line.idle();
    return Execution::kDone;
  }
  bool reattach() { return true; }
};

}  // namespace

void run_bare(Scheduler& scheduler);
void run_bare(Scheduler& scheduler) {
  BarePlatform platform{scheduler};
  scheduler.drive(platform);
}

}  // namespace simpler::device
