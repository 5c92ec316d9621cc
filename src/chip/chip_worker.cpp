#include "chip/chip_worker.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/cpu_count.h"
#include "base/status_macros.h"
#include "chip/backends/sim/sim_cores.h"
#include "chip/keep.h"
#include "chip/run_codes.h"
#include "chip/run_context.h"
#include "spec/registry.h"

namespace simpler::chip {
namespace {

// Phases of a run slot; each names what has happened last.
enum class SlotState : uint8_t { kEmpty, kPrepared, kLaunched, kReaped };

struct RunSlot {
  SlotState state = SlotState::kEmpty;
  uint32_t generation = 0;
  uint32_t callable = 0;
  Nanos launched_at = 0;
  std::unique_ptr<RunContext> context;
  sim::SimOutcome outcome;
};

struct Registered {
  std::unique_ptr<LoadedCallable> callable;
  uint32_t runs = 0;       // slots that use it
  bool abandoned = false;  // a thread is inside it for good
};

class SimulatedChip final : public ChipWorker {
 public:
  SimulatedChip(const ChipOptions& options, const spec::Platform& platform, const sim::SimOptions& sim)
      : options_(options),
        spec_(*platform.chip),
        clusters_(sim.clusters),
        memory_(std::make_unique<DeviceMemory>(options.memory_limit)),
        cores_(std::make_unique<sim::SimCores>(sim)) {
    for (RunSlot& slot : slots_) slot.context = std::make_unique<RunContext>(*memory_);
  }
  ~SimulatedChip() override;

  Status register_callable(uint32_t index, std::span<const std::byte> bytes) override;
  Status unregister(uint32_t index) override;
  bool registered(uint32_t index) const override {
    return index < callables_.size() && callables_[index].callable != nullptr;
  }

  Status run(uint32_t index, const ChipArgs& args, const CallConfig& config) override;
  Result<RunTicket> prepare(uint32_t index, const ChipArgs& args, const CallConfig& config) override;
  Status launch(RunTicket ticket) override;
  Result<bool> poll(RunTicket ticket) override;
  Status wait(RunTicket ticket, Deadline deadline) override;
  Status finalize(RunTicket ticket) override;

  Result<uint64_t> malloc(uint64_t bytes) override { return memory_->allocate(bytes); }
  Status free(uint64_t address) override { return memory_->release(address); }
  Status copy_to(uint64_t device, const void* host, uint64_t bytes) override {
    return memory_->copy_in(device, host, bytes);
  }
  Status copy_from(void* host, uint64_t device, uint64_t bytes) override {
    return memory_->copy_out(host, device, bytes);
  }
  uint64_t committed_memory() const override;

  ChipStatistics statistics() const override;
  uint32_t cluster_count() const override { return clusters_; }
  uint32_t core_count() const override { return cores_->aic_cores() + cores_->aiv_cores(); }
  uint32_t thread_count() const override { return cores_->seats(); }

 private:
  Result<RunSlot*> slot_of(RunTicket ticket, const char* call);
  Status check_args(const LoadedCallable& callable, const ChipArgs& args) const;
  Status reap(RunSlot& slot);
  void quarantine(RunSlot& slot);
  void note_retained();
  std::string who() const { return "chip " + std::to_string(options_.device_id) + " (" + options_.platform + ")"; }

  const ChipOptions options_;
  const spec::ChipSpec& spec_;
  const uint32_t clusters_;
  const Logger default_logger_;
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<sim::SimCores> cores_;
  std::vector<Registered> callables_;
  std::array<RunSlot, kRunSlots> slots_;
  std::vector<std::unique_ptr<RunContext>> quarantined_;
  RunSlot* live_ = nullptr;  // the launched run
  ChipStatistics statistics_;
  std::atomic<uint64_t> retained_{0};  // storage of the run slots; a lone number for committed_memory
};

SimulatedChip::~SimulatedChip() {
  if (live_ != nullptr) (void)cores_->wait(Deadline::never());  // the watch ends a run that would not end
  if (cores_->shut_down()) return;
  // Threads are still inside kernels: what they may touch stays until the process ends.
  keep_for_ever(cores_);
  keep_for_ever(memory_);
  for (auto& context : quarantined_) keep_for_ever(context);
  for (Registered& entry : callables_) {
    if (entry.abandoned) keep_for_ever(entry.callable);
  }
}

Status SimulatedChip::register_callable(uint32_t index, std::span<const std::byte> bytes) {
  if (index >= kMaxCallables) {
    return out_of_range(who() + ": callable index " + std::to_string(index) + " is not below " +
                        std::to_string(kMaxCallables));
  }
  if (registered(index)) return already_exists(who() + ": callable index " + std::to_string(index) + " is taken");
  auto loaded = LoadedCallable::load(bytes, options_.kernels, options_.orchestrations);
  if (!loaded.ok()) return std::move(loaded).status().context(who() + ": register callable");
  if (callables_.size() <= index) callables_.resize(index + 1);
  callables_[index].callable = std::move(loaded).value();
  return Status::ok();
}

Status SimulatedChip::unregister(uint32_t index) {
  if (!registered(index)) return not_found(who() + ": no callable has index " + std::to_string(index));
  Registered& entry = callables_[index];
  if (entry.runs != 0) {
    return failed_precondition(who() + ": callable '" + entry.callable->name() + "' is used by " +
                               std::to_string(entry.runs) + " prepared run(s)");
  }
  if (entry.abandoned) keep_for_ever(entry.callable);
  entry = Registered{};
  return Status::ok();
}

Status SimulatedChip::run(uint32_t index, const ChipArgs& args, const CallConfig& config) {
  SIMPLER_ASSIGN_OR_RETURN(const RunTicket ticket, prepare(index, args, config));
  if (Status launched = launch(ticket); !launched.is_ok()) {
    (void)finalize(ticket);
    return launched;
  }
  SIMPLER_RETURN_IF_ERROR(wait(ticket, Deadline::never()));
  return finalize(ticket);
}

Status SimulatedChip::check_args(const LoadedCallable& callable, const ChipArgs& args) const {
  if (args.tensors.size() > kMaxChipSignature || args.scalars.size() > kMaxChipScalars) {
    return run_failure(RunCode::kInvalidArgs, std::to_string(args.tensors.size()) + " tensors and " +
                                                  std::to_string(args.scalars.size()) +
                                                  " scalars; a run takes 256 and 128");
  }
  if (args.scalars.size() < callable.scalars_expected()) {
    return run_failure(RunCode::kInvalidArgs, "the signature names " + std::to_string(callable.scalars_expected()) +
                                                  " scalars, the run has " + std::to_string(args.scalars.size()));
  }
  return Status::ok();
}

Result<RunTicket> SimulatedChip::prepare(uint32_t index, const ChipArgs& args, const CallConfig& config) {
  if (!registered(index)) return not_found(who() + ": no callable has index " + std::to_string(index));
  const auto slot =
      std::find_if(slots_.begin(), slots_.end(), [](const RunSlot& s) { return s.state == SlotState::kEmpty; });
  if (slot == slots_.end()) {
    return failed_precondition(who() + ": both run slots are in use; finalize a run first");
  }
  SIMPLER_RETURN_IF_ERROR(validate(config));
  if (wants_diagnostics(config)) {
    return unsupported(who() +
                       ": the diagnostics of a call config are not offered; the chip records traces and "
                       "statistics only");
  }
  Registered& entry = callables_[index];
  SIMPLER_RETURN_IF_ERROR(check_args(*entry.callable, args));
  SIMPLER_ASSIGN_OR_RETURN(const RunLimits limits, run_limits(spec_, options_, config));
  const RunContext::Chip chip{clusters_, cores_->aiv_cores(),
                              options_.logger != nullptr ? options_.logger : &default_logger_};
  Status built = slot->context->build(*entry.callable, args, limits, chip, *memory_);
  note_retained();
  if (!built.is_ok()) {
    ++statistics_.failed_runs;
    return built;
  }
  memory_->borrow(slot->context->staging().borrows());
  ++entry.runs;
  slot->state = SlotState::kPrepared;
  slot->callable = index;
  slot->outcome = sim::SimOutcome{};
  if (++slot->generation == 0) slot->generation = 1;
  return RunTicket{static_cast<uint32_t>(slot - slots_.begin()), slot->generation};
}

Result<RunSlot*> SimulatedChip::slot_of(RunTicket ticket, const char* call) {
  if (ticket.slot >= slots_.size() || ticket.generation == 0 || slots_[ticket.slot].generation != ticket.generation ||
      slots_[ticket.slot].state == SlotState::kEmpty) {
    return failed_precondition(who() + ": " + call + " of a run that is not prepared here any more");
  }
  return &slots_[ticket.slot];
}

Status SimulatedChip::launch(RunTicket ticket) {
  SIMPLER_ASSIGN_OR_RETURN(RunSlot* const slot, slot_of(ticket, "launch"));
  if (slot->state != SlotState::kPrepared) return failed_precondition(who() + ": the run was launched before");
  if (live_ != nullptr) return failed_precondition(who() + ": another run is live; wait for it first");
  slot->context->boot(cores_->aic_cores(), cores_->aiv_cores());
  slot->state = SlotState::kLaunched;
  slot->launched_at = monotonic_now();
  live_ = slot;
  cores_->launch(
      sim::SimRun{&slot->context->scheduler(), &slot->context->image(), callables_[slot->callable].callable.get()});
  return Status::ok();
}

// Takes the outcome of a run that is over.
Status SimulatedChip::reap(RunSlot& slot) {
  slot.outcome = cores_->take_outcome();
  slot.state = SlotState::kReaped;
  live_ = nullptr;
  const device::Scheduler& scheduler = slot.context->scheduler();
  statistics_.busy_ns += static_cast<uint64_t>(monotonic_now() - slot.launched_at);
  statistics_.tasks += scheduler.completed();
  if (slot.outcome.status.is_ok() && scheduler.stop_reason() == device::Stop::kReadyQueueFull) {
    slot.outcome.status = run_failure(RunCode::kReadyQueueOverflow, "the queue of ready tasks is full")
                              .with_callable(callables_[slot.callable].callable->name());
  } else if (slot.outcome.status.is_ok() && !scheduler.finished()) {
    slot.outcome.status = run_failure(RunCode::kSchedulerTimeout, std::to_string(scheduler.completed()) + " of " +
                                                                      std::to_string(scheduler.graph().tasks) +
                                                                      " tasks are complete and none can run");
  }
  return Status::ok();
}

Result<bool> SimulatedChip::poll(RunTicket ticket) {
  SIMPLER_ASSIGN_OR_RETURN(RunSlot* const slot, slot_of(ticket, "poll"));
  if (slot->state == SlotState::kPrepared) return failed_precondition(who() + ": the run was not launched");
  if (slot->state == SlotState::kReaped) return true;
  if (!cores_->poll()) return false;
  SIMPLER_RETURN_IF_ERROR(reap(*slot));
  return true;
}

Status SimulatedChip::wait(RunTicket ticket, Deadline deadline) {
  SIMPLER_ASSIGN_OR_RETURN(RunSlot* const slot, slot_of(ticket, "wait"));
  if (slot->state == SlotState::kPrepared) return failed_precondition(who() + ": the run was not launched");
  if (slot->state == SlotState::kReaped) return Status::ok();
  if (!cores_->wait(deadline)) return timed_out(who() + ": the run is still going");
  return reap(*slot);
}

// Keeps everything that the run's lost thread may still touch.
void SimulatedChip::quarantine(RunSlot& slot) {
  memory_->quarantine(slot.context->staging().borrows());
  Registered& entry = callables_[slot.callable];
  if (!entry.abandoned) entry.callable->abandon();
  entry.abandoned = true;
  statistics_.quarantined_bytes += slot.context->retained_bytes();
  quarantined_.push_back(std::move(slot.context));
  slot.context = std::make_unique<RunContext>(*memory_);
  note_retained();
}

Status SimulatedChip::finalize(RunTicket ticket) {
  SIMPLER_ASSIGN_OR_RETURN(RunSlot* const slot, slot_of(ticket, "finalize"));
  if (slot->state == SlotState::kLaunched) {
    SIMPLER_ASSIGN_OR_RETURN(const bool over, poll(ticket));
    if (!over) return failed_precondition(who() + ": the run is still going; wait for it first");
  }
  Status outcome = slot->state == SlotState::kPrepared ? cancelled(who() + ": the run was prepared but never launched")
                                                       : std::move(slot->outcome.status);
  const bool lost = slot->outcome.lost_thread;
  if (outcome.is_ok()) {
    slot->context->staging().copy_back();
    ++statistics_.runs;
  } else if (slot->state == SlotState::kReaped) {
    ++statistics_.failed_runs;
  }
  memory_->give_back(slot->context->staging().borrows());
  if (lost) quarantine(*slot);
  --callables_[slot->callable].runs;
  const bool launched = slot->state == SlotState::kReaped;
  slot->state = SlotState::kEmpty;
  return launched ? std::move(outcome) : Status::ok();
}

void SimulatedChip::note_retained() {
  uint64_t bytes = 0;
  for (const RunSlot& slot : slots_) bytes += slot.context->retained_bytes();
  retained_.store(bytes, std::memory_order_relaxed);
}

uint64_t SimulatedChip::committed_memory() const {
  return memory_->committed() + retained_.load(std::memory_order_relaxed);
}

ChipStatistics SimulatedChip::statistics() const {
  ChipStatistics out = statistics_;
  const sim::SimStatistics sim = cores_->statistics();
  out.blocks = sim.blocks;
  out.kernel_cpu_ns = sim.kernel_cpu_ns;
  out.lost_threads = sim.lost_threads;
  out.quarantined_bytes += memory_->quarantined();
  return out;
}

}  // namespace

Result<std::unique_ptr<ChipWorker>> ChipWorker::create(const ChipOptions& options) {
  const spec::Platform* platform = spec::find_platform(options.platform);
  if (platform == nullptr) {
    return invalid_argument("unknown platform '" + options.platform + "'; this installation has " +
                            spec::platform_names());
  }
  if (options.runtime != "host_build_graph") {
    return unsupported("runtime '" + options.runtime + "' is not offered; this installation has host_build_graph");
  }
  const spec::ChipSpec& chip = *platform->chip;
  if (options.clusters > chip.topology.clusters) {
    return invalid_argument("option clusters is " + std::to_string(options.clusters) + "; " + options.platform +
                            " has at most " + std::to_string(chip.topology.clusters));
  }
  if (options.watchdog < kMillisecond) return invalid_argument("option watchdog is below 1 ms");
  sim::SimOptions sim;
  sim.clusters = options.clusters != 0 ? options.clusters : platform->default_clusters;
  sim.aiv_per_cluster = chip.topology.cores_per_cluster - 1;
  const uint32_t cores = sim.clusters * chip.topology.cores_per_cluster;
  sim.threads = std::min(cores, options.threads != 0 ? options.threads : usable_cpus());
  sim.watchdog = options.watchdog;
  SIMPLER_RETURN_IF_ERROR(run_limits(chip, options, CallConfig{}).status());
  return std::unique_ptr<ChipWorker>(new SimulatedChip(options, *platform, sim));
}

}  // namespace simpler::chip
