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

  void ready(std::uint32_t depth) {
    record_.granted_depth = depth;
    record_.native_runs = 1;
    publish(MailboxState::kInitReady);
  }
  int failed(const Status& why) {
    const std::string_view text = wire::utf8_prefix(why.message(), record_.text.size());
    std::copy(text.begin(), text.end(), record_.text.begin());
    record_.text_len = static_cast<std::uint32_t>(text.size());
    record_.code = static_cast<std::uint32_t>(why.code());
    publish(MailboxState::kInitFailed);
    return kStartFailed;
  }

 private:
  // Pairs with the acquire in startup_outcome.
  void publish(MailboxState state) {
    std::atomic_ref(record_.state).store(static_cast<std::uint32_t>(state), std::memory_order_release);
    context_.raise_ready();
  }

  wire::StartupRecord& record_;
  const process::ChildContext& context_;
};

Result<std::unique_ptr<chip::ChipWorker>> start_chip(const ChildPlan& plan, std::uint32_t index) {
  chip::ChipOptions options = chip_options_of(*plan.options, *plan.settings, plan.options->device_ids[index]);
  options.threads = plan.chip_threads;
  options.kernels = plan.kernels;
  options.logger = plan.logger;
  SIMPLER_ASSIGN_OR_RETURN(std::unique_ptr<chip::ChipWorker> chip, chip::ChipWorker::create(options));
  for (const ChipRegistration& callable : plan.chip_callables) {
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

int serve(const ChildPlan& plan, wire::Mailbox& mailbox, lane::Handler& handler) {
  WakePolicy policy({.runnable_threads = plan.runnable_threads});
  if (plan.language->enter_serving) {
    plan.language->enter_serving();
  }
  lane::MailboxChild child(mailbox, plan.memory->doorbell(), policy);
  const Status status = child.serve(handler);
  if (plan.language->leave_serving) {
    plan.language->leave_serving();
  }
  std::fflush(stdout);  // what native functions printed; the process leaves without the usual clean-up
  return status.is_ok() ? 0 : kServeFailed;
}

}  // namespace

int child_main(const ChildPlan& plan, ChildKind kind, std::uint32_t index, std::size_t mailbox_index,
               process::ChildContext& context) {
  wire::Mailbox& mailbox = plan.memory->mailbox(mailbox_index);
  Startup startup(mailbox.startup, context);
  Status entered = plan.memory->enter_child();
  if (!entered.is_ok()) {
    return startup.failed(entered);
  }
  const memory::SharedMapping& mapping = plan.memory->tables().mapping();
  Result<memory::SharedTablesView> view = memory::SharedTablesView::open(mapping.data(), mapping.size());
  if (!view.ok()) {
    return startup.failed(view.status());
  }
  Result<std::shared_ptr<process::Watch>> watch = context.guard_parent();
  if (!watch.ok()) {
    return startup.failed(watch.status());
  }
  if (plan.trace.recorder() != nullptr) {
    plan.trace.recorder()->after_fork_in_child(context.name());
  }
  const UserTime user_time(mailbox.statistics, plan.options->measure_user_time);
  if (kind == ChildKind::kHost) {
    ChildMemory memory(*view, *plan.memory, memory::Endpoint::kHost);
    HostHandler handler(plan.host_table, *plan.language, memory.reader, memory.imports, user_time, plan.trace);
    startup.ready(mailbox.header.depth);
    return serve(plan, mailbox, handler);
  }
  Result<std::unique_ptr<chip::ChipWorker>> chip = start_chip(plan, index);
  if (!chip.ok()) {
    return startup.failed(chip.status());
  }
  ChildMemory memory(*view, *plan.memory, memory::Endpoint::kChip);
  ChipHandler handler(**chip, *view, memory.reader, memory.imports, user_time, plan.trace);
  startup.ready(mailbox.header.depth);
  return serve(plan, mailbox, handler);
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
