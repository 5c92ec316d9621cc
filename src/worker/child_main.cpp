#include "worker/child_main.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <unistd.h>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "chip/chip_worker.h"
#include "lane/mailbox_child.h"
#include "memory/args_view.h"
#include "memory/import_registry.h"
#include "process/watch.h"
#include "wire/report.h"
#include "worker/serve_chip.h"
#include "worker/serve_host.h"

namespace simpler::worker {
namespace {

// Exit status of a child whose start failed; the reason is in its start-up record.
constexpr int kStartFailed = 71;
// Exit status of a child that found its mailbox damaged.
constexpr int kServeFailed = 72;

class Startup {
 public:
  Startup(wire::StartupRecord& record, const process::ChildContext& context) : record_(record), context_(context) {
    record_.pid = static_cast<std::uint32_t>(::getpid());
  }

  Status ready(std::uint32_t depth, FaultPlan* faults) {
    record_.granted_depth = depth;
    record_.native_runs = 1;
    publish(MailboxState::kInitReady);
    SIMPLER_RETURN_IF_ERROR(fault_point(faults, "start.child.announced"));
    context_.raise_ready();
    return Status::ok();
  }
  int failed(const Status& why) {
    const std::string_view text = wire::utf8_prefix(why.message(), record_.text.size());
    std::copy(text.begin(), text.end(), record_.text.begin());
    record_.text_len = static_cast<std::uint32_t>(text.size());
    record_.code = static_cast<std::uint32_t>(why.code());
    publish(MailboxState::kInitFailed);
    context_.raise_ready();
    return kStartFailed;
  }

 private:
  // Pairs with the acquire in startup_outcome.
  void publish(MailboxState state) {
    std::atomic_ref(record_.state).store(static_cast<std::uint32_t>(state), std::memory_order_release);
  }

  wire::StartupRecord& record_;
  const process::ChildContext& context_;
};

Result<std::unique_ptr<chip::ChipWorker>> start_chip(const ChildPlan& plan, std::uint32_t index) {
  chip::ChipOptions options = chip_options_of(*plan.options, *plan.settings, plan.options->device_ids[index]);
  options.threads = plan.chip_threads;
  options.kernels = plan.kernels;
  options.logger = plan.logger;
  SIMPLER_RETURN_IF_ERROR(fault_point(plan.faults, "start.child.chip"));
  SIMPLER_ASSIGN_OR_RETURN(std::unique_ptr<chip::ChipWorker> chip, chip::ChipWorker::create(options));
  for (const ChipRegistration& callable : plan.chip_callables) {
    SIMPLER_RETURN_IF_ERROR(fault_point(plan.faults, "start.child.callable"));
    Status status = chip->register_callable(callable.index, callable.bytes);
    if (!status.is_ok()) {
      return std::move(status).context(fmt::format("callable '{}'", callable.name));
    }
  }
  return chip;
}

struct ChildMemory {
  memory::SharedTablesView tables;
  memory::ImportRegistry imports;
  memory::ArgsReader reader;

  ChildMemory(memory::SharedTablesView view, const LevelMemory& level, memory::Endpoint endpoint)
      : tables(view),
        imports({.endpoint = endpoint, .device_owner = level.tables().owner_instance_id()}),
        reader(view, memory::ArgsArenaView(level.arena().mapping().data(), level.arena().mapping().size()), imports) {
    imports.trust(level.heap().base(), level.heap().size());
  }
};

// Until the parent asks this child to leave.
Status serve(const ChildPlan& plan, wire::Mailbox& mailbox, lane::Handler& handler) {
  WakePolicy policy(WakeOptions::of_a_child(plan.runnable_threads));
  SIMPLER_RETURN_IF_ERROR(fault_point(plan.faults, "start.child.language"));
  if (plan.language->enter_serving) {
    plan.language->enter_serving();
  }
  SIMPLER_RETURN_IF_ERROR(fault_point(plan.faults, "start.child.serve"));
  lane::MailboxChild child(mailbox, plan.memory->doorbell(), policy, plan.faults);
  Status status = child.serve(handler);
  if (status.is_ok()) {
    status = fault_point(plan.faults, "close.child.asked");
  }
  if (plan.language->leave_serving) {
    plan.language->leave_serving();
  }
  if (status.is_ok()) {
    status = fault_point(plan.faults, "close.child.flush");
  }
  std::fflush(stdout);  // what native functions printed; the process leaves without the usual clean-up
  return status;
}

int announce_and_serve(const ChildPlan& plan, Startup& startup, wire::Mailbox& mailbox, lane::Handler& handler) {
  const Status announce = fault_point(plan.faults, "start.child.announce");
  if (!announce.is_ok()) {
    return startup.failed(announce);
  }
  if (!startup.ready(mailbox.header.depth, plan.faults).is_ok()) {
    return kStartFailed;
  }
  return serve(plan, mailbox, handler).is_ok() ? 0 : kServeFailed;
}

// What every child does first, whatever it serves. The result keeps the watch running.
struct Entered {
  memory::SharedTablesView tables;
  std::shared_ptr<process::Watch> watch;
};

Result<Entered> enter(const ChildPlan& plan, process::ChildContext& context) {
  SIMPLER_RETURN_IF_ERROR(fault_point(plan.faults, "start.child.memory"));
  SIMPLER_RETURN_IF_ERROR(plan.memory->enter_child());
  SIMPLER_RETURN_IF_ERROR(fault_point(plan.faults, "start.child.tables"));
  const memory::SharedMapping& mapping = plan.memory->tables().mapping();
  SIMPLER_ASSIGN_OR_RETURN(memory::SharedTablesView tables,
                           memory::SharedTablesView::open(mapping.data(), mapping.size()));
  SIMPLER_RETURN_IF_ERROR(fault_point(plan.faults, "start.child.guard"));
  SIMPLER_ASSIGN_OR_RETURN(std::shared_ptr<process::Watch> watch, context.guard_parent());
  if (plan.trace.recorder() != nullptr) {
    SIMPLER_RETURN_IF_ERROR(fault_point(plan.faults, "start.child.trace"));
    plan.trace.recorder()->after_fork_in_child(context.name());
  }
  return Entered{tables, std::move(watch)};
}

int live(const ChildPlan& plan, ChildKind kind, std::uint32_t index, wire::Mailbox& mailbox,
         process::ChildContext& context) {
  Startup startup(mailbox.startup, context);
  const Result<Entered> entered = enter(plan, context);
  if (!entered.ok()) {
    return startup.failed(entered.status());
  }
  const UserTime user_time(mailbox.statistics, plan.options->measure_user_time);
  if (kind == ChildKind::kHost) {
    ChildMemory memory(entered->tables, *plan.memory, memory::Endpoint::kHost);
    HostHandler handler(plan.host_table, *plan.language, memory.reader, memory.imports, user_time, plan.trace);
    return announce_and_serve(plan, startup, mailbox, handler);
  }
  Result<std::unique_ptr<chip::ChipWorker>> chip = start_chip(plan, index);
  if (!chip.ok()) {
    return startup.failed(chip.status());
  }
  ChildMemory memory(entered->tables, *plan.memory, memory::Endpoint::kChip);
  ChipHandler handler(**chip, entered->tables, memory.reader, memory.imports, user_time, plan.trace, plan.faults);
  return announce_and_serve(plan, startup, mailbox, handler);
}

}  // namespace

int child_main(const ChildPlan& plan, ChildKind kind, std::uint32_t index, std::size_t mailbox,
               process::ChildContext& context) {
  const int status = live(plan, kind, index, plan.memory->mailbox(mailbox), context);
  return fault_point(plan.faults, "close.child.exit").is_ok() ? status : kServeFailed;
}

std::optional<Status> startup_outcome(const wire::StartupRecord& record) {
  const auto state = static_cast<MailboxState>(
      std::atomic_ref(const_cast<std::uint32_t&>(record.state)).load(std::memory_order_acquire));
  if (state == MailboxState::kIdle) {
    return std::nullopt;
  }
  if (state == MailboxState::kInitReady) {
    return Status::ok();
  }
  const std::size_t length = std::min<std::size_t>(record.text_len, record.text.size());
  const std::uint32_t code = record.code < kStatusCodeCount && record.code != 0
                                 ? record.code
                                 : static_cast<std::uint32_t>(StatusCode::kInternal);
  return Status(static_cast<StatusCode>(code), std::string(record.text.data(), length));
}

}  // namespace simpler::worker
