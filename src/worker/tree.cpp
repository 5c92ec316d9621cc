#include "worker/tree.h"

#include <algorithm>
#include <cstdio>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/cpu_count.h"
#include "base/environment.h"
#include "base/status_macros.h"
#include "process/fork_point.h"
#include "trace/chrome_export.h"
#include "worker/options.h"
#include "worker/user_time.h"

namespace simpler::worker {
namespace {

constexpr std::uint32_t kQueueDepth = wire::kMaxLines;
constexpr std::uint32_t kTracedThreads = 128;
constexpr std::uint32_t kTracedEvents = 65536;
constexpr Nanos kAbortBudget = 5 * kSecond;

// Before every lock of ours: an interpreter takes its own locks and may run code of the user's.
constexpr auto kLanguageRank = static_cast<process::ForkRank>(0);

void call(const std::function<void()>& hook) {
  if (hook) {
    hook();
  }
}

std::string name_of_child(ChildKind kind, std::uint32_t index) {
  return fmt::format("{} {}", kind == ChildKind::kHost ? "sub_worker" : "chip", index);
}

std::uint32_t runnable_threads(const WorkerOptions& options) {
  return static_cast<std::uint32_t>(1 + options.num_sub_workers + static_cast<int>(options.device_ids.size()));
}

std::uint32_t threads_of_a_chip(const WorkerOptions& options) {
  if (options.chip_threads > 0) {
    return static_cast<std::uint32_t>(options.chip_threads);
  }
  const auto chips = static_cast<std::uint32_t>(std::max<std::size_t>(options.device_ids.size(), 1));
  return std::max<std::uint32_t>(usable_cpus() / chips, 1);
}

std::uint64_t process_cpu_ns(pid_t pid) {
  clockid_t clock{};
  timespec now{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &now) != 0) {
    return 0;
  }
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

engine::DriverOptions driver_options(const WorkerOptions& options, const HostLanguage& language) {
  engine::DriverOptions out;
  out.before_block = language.before_block;
  out.after_block = language.after_block;
  out.interrupted = language.interrupted;
  out.engine.window = window_of(options);
  out.engine.max_runs = options.max_pending_runs;
  out.engine.inference = options.full_inference ? graph::Inference::kFull : graph::Inference::kWritersOnly;
  if (options.heap_wait_timeout_s) {
    out.heap_wait_timeout = nanos_of(*options.heap_wait_timeout_s);
  }
  return out;
}

}  // namespace

Tree::Tree(const Start& start)
    : options_(start.options),
      language_(start.language),
      faults_(start.faults),
      policy_({.runnable_threads = runnable_threads(start.options)}) {}

Result<std::unique_ptr<Tree>> Tree::start(Start start, Deadline deadline) {
  std::unique_ptr<Tree> tree(new Tree(start));
  const auto hosts = static_cast<std::uint32_t>(start.options.num_sub_workers);
  const auto chips = static_cast<std::uint32_t>(start.options.device_ids.size());
  const Environment environment = Environment::capture();
  SIMPLER_ASSIGN_OR_RETURN(tree->settings_, settings_of(start.options, environment));
  tree->logger_.set_level(tree->settings_.log_level);
  SIMPLER_RETURN_IF_ERROR(fault_point(start.faults, "start.parent.memory"));
  SIMPLER_ASSIGN_OR_RETURN(tree->memory_, LevelMemory::create(start.options, hosts + chips, kQueueDepth));
  if (chips > 0) {
    SIMPLER_RETURN_IF_ERROR(fault_point(start.faults, "start.parent.kernels"));
    SIMPLER_ASSIGN_OR_RETURN(const kernels::CatalogOptions catalog, kernels::catalog_options(environment));
    SIMPLER_ASSIGN_OR_RETURN(tree->kernels_, kernels::Catalog::open(catalog));
  }
  SIMPLER_RETURN_IF_ERROR(tree->start_trace());
  tree->plan_ = {.options = &tree->options_,
                 .settings = &tree->settings_,
                 .logger = &tree->logger_,
                 .language = &tree->language_,
                 .memory = tree->memory_.get(),
                 .host_table = start.host_table,
                 .chip_callables = start.chip_callables,
                 .kernels = tree->kernels_.get(),
                 .trace = TaskTrace(tree->recorder_.get()),
                 .chip_threads = threads_of_a_chip(start.options),
                 .runnable_threads = runnable_threads(start.options),
                 .faults = start.faults};
  for (const auto& [index, name] : start.names) {
    tree->plan_.trace.put(index, tree->trace_name(name));
  }
  Status status = tree->start_children(start, deadline);
  if (status.is_ok()) {
    status = tree->connect();
  }
  if (!status.is_ok()) {
    tree->abort();
    return std::move(status).context("init");
  }
  return tree;
}

Status Tree::start_children(const Start& start, Deadline deadline) {
  const process::ForkPoint::Registration hooks =
      process::ForkPoint::of_process().add(kLanguageRank, {.before = [&] { call(start.language.before_fork); },
                                                           .in_parent = [&] { call(start.language.after_fork_parent); },
                                                           .in_child = [&] { call(start.language.after_fork_child); }});
  const auto hosts = static_cast<std::uint32_t>(start.options.num_sub_workers);
  SIMPLER_RETURN_IF_ERROR(fork_group(ChildKind::kHost, hosts, start, deadline));
  return fork_group(ChildKind::kChip, static_cast<std::uint32_t>(start.options.device_ids.size()), start, deadline);
}

Status Tree::fork_group(ChildKind kind, std::uint32_t count, const Start& start, Deadline deadline) {
  if (count == 0) {
    return Status::ok();
  }
  SIMPLER_ASSIGN_OR_RETURN(const process::ReadySignal ready, process::ReadySignal::create());
  const std::size_t first = children_.size();
  std::vector<process::Child> processes;
  std::fflush(stdout);  // or each child would print what is buffered here once more
  for (std::uint32_t index = 0; index < count; ++index) {
    const std::size_t mailbox = children_.size();
    const std::string name = name_of_child(kind, index);
    process::ForkOptions fork_options{
        .name = name, .own_group = true, .keep_fds = start.keep_fds, .ready = &ready, .faults = faults_};
    SIMPLER_RETURN_IF_ERROR(fault_point(faults_, "start.parent.fork"));
    SIMPLER_ASSIGN_OR_RETURN(process::Child child,
                             process::fork_child(fork_options, [&](process::ChildContext& context) {
                               return child_main(plan_, kind, index, mailbox, context);
                             }));
    children_.push_back({.kind = kind, .index = index, .name = name, .process = child});
    processes.push_back(std::move(child));
    SIMPLER_RETURN_IF_ERROR(fault_point(faults_, "start.parent.forked"));
  }
  chips_ += kind == ChildKind::kChip ? count : 0;
  SIMPLER_RETURN_IF_ERROR(fault_point(faults_, "start.parent.await"));
  return process::wait_ready(processes, &ready, deadline, [&](std::size_t child) -> std::optional<Status> {
    if (start.cancelled && start.cancelled()) {
      return cancelled("the worker was closed while it started");
    }
    std::optional<Status> outcome = startup_outcome(memory_->mailbox(first + child).startup);
    if (outcome && !outcome->is_ok()) {
      const Child& failed = children_[first + child];
      return std::move(*outcome).context(fmt::format("{} (pid {}) could not start", failed.name, failed.process.pid()));
    }
    return outcome;
  });
}

Status Tree::start_trace() {
  trace_path_ = options_.trace_path;
  if (trace_path_.empty() && !settings_.trace_folder.empty()) {
    const auto& id = memory_->tables().owner_instance_id();
    trace_path_ = fmt::format("{}/simpler-{}-{:02x}.json", settings_.trace_folder, ::getpid(),
                              fmt::join(id.begin(), id.begin() + 4, ""));
  }
  if (trace_path_.empty()) {
    return Status::ok();
  }
  const std::size_t slash = trace_path_.find_last_of('/');
  const std::string folder = slash == std::string::npos ? "." : trace_path_.substr(0, slash + 1);
  if (::access(folder.c_str(), W_OK) != 0) {
    return system_error(errno, fmt::format("init: the trace {} cannot be written: folder {}", trace_path_, folder));
  }
  SIMPLER_RETURN_IF_ERROR(fault_point(faults_, "start.parent.trace"));
  SIMPLER_ASSIGN_OR_RETURN(
      recorder_, trace::Recorder::create(
                     {.threads = kTracedThreads, .events_per_thread = kTracedEvents, .process_name = "simpler"}));
  recorder_->start();
  return Status::ok();
}

trace::NameId Tree::trace_name(std::string_view callable) {
  return recorder_ != nullptr ? recorder_->name(callable) : trace::NameId{};
}

Status Tree::connect() {
  SIMPLER_RETURN_IF_ERROR(fault_point(faults_, "start.parent.connect"));
  driver_ = std::make_unique<engine::Driver>(driver_options(options_, language_), memory_->tables(), memory_->arena(),
                                             &memory_->heap(), memory_->doorbell(), policy_, clock_);
  SIMPLER_ASSIGN_OR_RETURN(watch_, process::Watch::of_process());
  for (std::size_t i = 0; i < children_.size(); ++i) {
    Child& child = children_[i];
    wire::Mailbox& mailbox = memory_->mailbox(i);
    const bool host = child.kind == ChildKind::kHost;
    const lane::LaneInfo info{.type = host ? WorkerType::kSub : WorkerType::kNextLevel,
                              .worker_id = child.index,
                              .queue_depth = mailbox.startup.granted_depth,
                              .in_order = true,
                              .incarnation = 1};
    child.lane = std::make_unique<lane::MailboxParent>(info, mailbox);
    child.control = std::make_unique<lane::ControlChannel>(mailbox, policy_, child.name);
    SIMPLER_ASSIGN_OR_RETURN(child.lane_id, driver_->add_lane(*child.lane));
  }
  // A task past its time ends with its child, which the watch reports like any other death.
  driver_->on_overdue([this](LaneId lane, engine::TaskId) { kill_lane(lane); });
  driver_->on_warning([this](const std::string& text) { logger_.log(LogLevel::kWarn, "scheduler", text); });
  driver_->on_condemned([this](LaneId lane, const Status&) { kill_lane(lane); });
  SIMPLER_RETURN_IF_ERROR(fault_point(faults_, "start.parent.scheduler"));
  driver_->start();
  driver_running_ = true;
  SIMPLER_RETURN_IF_ERROR(fault_point(faults_, "start.parent.watch"));
  for (Child& child : children_) {
    child.watched = true;
    child.token = watch_->add_child(child.process, [this, &child](const process::ExitInfo& info) {
      Status why = info.to_status(child.name).with_worker_path(fmt::format("L3/{}", child.name));
      child.control->lose(why);
      driver_->lane_lost(child.lane_id, std::move(why));
    });
  }
  return Status::ok();
}

Status Tree::all_alive() const {
  for (const Child& child : children_) {
    if (const std::optional<process::ExitInfo> info = child.process.exit_info()) {
      return info->to_status(child.name).context("start-up failed");
    }
  }
  return Status::ok();
}

void Tree::abort() {
  std::vector<process::Child> processes;
  for (const Child& child : children_) {
    processes.push_back(child.process);
  }
  // Nothing of theirs is worth waiting for; what cannot be killed is reported by the next close.
  (void)process::reap(processes, Deadline::after(kAbortBudget), {.leave_percent = 0, .terminate_percent = 0});
}

Tree::~Tree() {
  (void)stop(Deadline::after(kAbortBudget), /*kill=*/true);
}

Result<lane::ControlAnswer> Tree::control_chip(std::size_t index, const lane::ControlCall& call, Deadline deadline) {
  return chip(index).control->call(call, deadline);
}

std::vector<Result<lane::ControlAnswer>> Tree::broadcast(ChildKind kind, const lane::ControlCall& call,
                                                         Deadline deadline, const std::vector<bool>& told) {
  std::vector<Result<lane::ControlAnswer>> answers;
  std::size_t place = 0;
  for (Child& child : children_) {
    if (child.kind != kind) {
      continue;
    }
    if (told.empty() || told[place]) {
      answers.push_back(child.control->call(call, deadline));
    }
    ++place;
  }
  return answers;
}

bool Tree::leave_command(std::size_t place, const lane::ControlCall& call, Deadline deadline) {
  lane::ControlChannel& control = *children_[place].control;
  if (control.wedged()) {
    return false;
  }
  // Unanswered is as good as answered: the child does it before the next command. A dead one has nothing to do.
  (void)control.call(call, deadline);
  return true;
}

std::vector<Worker::ChildStatistics> Tree::statistics() const {
  std::vector<Worker::ChildStatistics> all;
  for (std::size_t i = 0; i < children_.size(); ++i) {
    const Child& child = children_[i];
    const lane::LaneStatistics lane = child.lane->statistics();
    const bool alive = child.process.running();
    all.push_back({.name = child.name,
                   .pid = child.process.pid(),
                   .alive = alive,
                   .tasks = lane.tasks,
                   .busy_ns = static_cast<std::uint64_t>(lane.busy_ns),
                   .user_cpu_ns = user_cpu_word(memory_->mailbox(i).statistics).load(std::memory_order_relaxed),
                   .cpu_ns = alive ? process_cpu_ns(child.process.pid()) : 0});
  }
  return all;
}

void Tree::kill_lane(LaneId lane) {
  for (Child& child : children_) {
    if (child.lane_id == lane) {
      (void)child.process.send_signal_to_group(SIGKILL);
    }
  }
}

void Tree::kill_busy() {
  for (Child& child : children_) {
    const std::uint32_t unanswered = driver_->with_engine([&](engine::Engine&) { return child.lane->unanswered(); });
    if (unanswered != 0) {
      (void)child.process.send_signal_to_group(SIGKILL);
    }
  }
}

// No child is left: what a run still waits for fails, so that nobody waits for it any more.
void Tree::end_runs() {
  if (driver_ == nullptr || driver_->unfinished_runs() == 0) {
    return;
  }
  for (const Child& child : children_) {
    driver_->lane_lost(child.lane_id, cancelled(fmt::format("{} was ended when the worker closed", child.name)));
  }
  (void)driver_->wait_idle(Deadline::after(kAbortBudget));
}

Status Tree::stop(Deadline deadline, bool kill) {
  SIMPLER_RETURN_IF_ERROR(fault_point(faults_, "close.parent.scheduler"));
  if (driver_running_) {
    driver_->stop();
    driver_running_ = false;
  }
  for (Child& child : children_) {
    SIMPLER_RETURN_IF_ERROR(fault_point(faults_, "close.parent.ask"));
    if (std::exchange(child.watched, false)) {
      watch_->remove_child(child.token);
    }
    if (child.lane) {
      child.lane->request_shutdown();
    }
  }
  std::vector<process::Child> processes;
  for (const Child& child : children_) {
    if (child.process.running()) {
      processes.push_back(child.process);
    }
  }
  SIMPLER_RETURN_IF_ERROR(fault_point(faults_, "close.parent.reap"));
  const process::ReapOptions options =
      kill ? process::ReapOptions{.leave_percent = 20, .terminate_percent = 10} : process::ReapOptions{};
  SIMPLER_RETURN_IF_ERROR(process::reap(processes, deadline, options).status());
  end_runs();
  if (recorder_ != nullptr) {
    SIMPLER_RETURN_IF_ERROR(fault_point(faults_, "close.parent.trace"));
  }
  if (const std::unique_ptr<trace::Recorder> recorder = std::exchange(recorder_, nullptr)) {
    return trace::write_chrome_json(recorder->snapshot(), trace_path_);
  }
  return Status::ok();
}

}  // namespace simpler::worker
