#include "worker/node_level.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "memory/buffer_table.h"
#include "worker/control_records.h"
#include "worker/node_run.h"
#include "worker/orchestrator_state.h"

namespace simpler::worker {
namespace {

bool is_host_kind(CallableKind kind) {
  return kind != CallableKind::kChipCallable;
}

// Runs `block` with the language's lock given up.
template <class F>
auto unlocked(const HostLanguage& language, F&& block) {
  if (language.before_block) {
    language.before_block();
  }
  struct Back {
    const HostLanguage& language;
    ~Back() {
      if (language.after_block) {
        language.after_block();
      }
    }
  } back{language};
  return block();
}

Status first_failure(std::vector<Result<lane::ControlAnswer>> answers) {
  for (Result<lane::ControlAnswer>& answer : answers) {
    if (!answer.ok()) {
      return std::move(answer).status();
    }
  }
  return Status::ok();
}

}  // namespace

NodeLevel::NodeLevel(const WorkerOptions& options, const HostLanguage& language, const callable::Registry& registry)
    : options_(options), language_(language), registry_(registry) {}

NodeLevel::~NodeLevel() = default;

Deadline NodeLevel::control_deadline() const {
  return Deadline::after(static_cast<Nanos>(options_.control_timeout_s * 1e9));
}

Status NodeLevel::check_eligible(CallableKind kind) const {
  if (is_host_kind(kind) && options_.num_sub_workers == 0) {
    return failed_precondition("a host callable needs a child to run it: num_sub_workers is 0");
  }
  if (!is_host_kind(kind) && options_.device_ids.empty()) {
    return failed_precondition("a chip callable needs a chip to run it: device_ids is empty");
  }
  return Status::ok();
}

Status NodeLevel::start(const std::vector<Registered>& callables, std::function<bool()> cancelled, Deadline deadline) {
  Tree::Start start{.options = options_, .language = language_, .cancelled = std::move(cancelled)};
  for (const Registered& callable : callables) {
    start.names.emplace_back(callable.handle->index, callable.handle->name);
    if (is_host_kind(callable.handle->kind)) {
      start.host_table.put(callable.handle->index, callable.handle->name, callable.host.function);
      start.keep_fds.insert(start.keep_fds.end(), callable.host.keep_fds.begin(), callable.host.keep_fds.end());
    } else {
      start.chip_callables.push_back({callable.handle->index, callable.handle->name, callable.chip_bytes});
    }
  }
  SIMPLER_ASSIGN_OR_RETURN(std::unique_ptr<Tree> tree, Tree::start(std::move(start), deadline));
  tree_ = std::move(tree);
  for (const Registered& callable : callables) {
    SIMPLER_RETURN_IF_ERROR(publish(callable));
  }
  return Status::ok();
}

Status NodeLevel::publish(const Registered& callable) {
  const callable::HandleState& handle = *callable.handle;
  return tree_->driver().with_engine([&](engine::Engine&) {
    return tree_->memory().tables().put_callable(handle.index, {.digest = handle.digest,
                                                                .kind = handle.kind,
                                                                .target_namespace = handle.target_namespace,
                                                                .name = handle.name});
  });
}

Status NodeLevel::add_callable(const Registered& callable) {
  const bool host = is_host_kind(callable.handle->kind);
  const std::vector<std::byte>& bytes = host ? callable.host.payload : callable.chip_bytes;
  if (host && bytes.empty()) {
    return wrong_type(
        fmt::format("callable '{}' cannot be sent to running children: {}", callable.handle->name,
                    callable.host.unsendable.empty() ? "register it before init()" : callable.host.unsendable));
  }
  SIMPLER_ASSIGN_OR_RETURN(const StagedBytes staged, StagedBytes::create(bytes));
  const std::vector<std::byte> payload = staged.payload(callable.handle->name);
  const lane::ControlCall call{
      .command = host ? wire::ControlCommand::kPythonRegister : wire::ControlCommand::kRegister,
      .args = {callable.handle->index, static_cast<std::uint64_t>(callable.handle->kind), staged.size(),
               tree_->trace_name(callable.handle->name).value},
      .payload = payload};
  SIMPLER_RETURN_IF_ERROR(publish(callable));
  Status status = first_failure(tree_->broadcast(host ? ChildKind::kHost : ChildKind::kChip, call, control_deadline()));
  if (status.is_ok()) {
    return status;
  }
  const Status undone = remove_callable(callable);
  return std::move(status).context(undone.is_ok() ? "REGISTER_PARTIAL_FAILURE"
                                                  : "REGISTER_PARTIAL_FAILURE, undo unconfirmed");
}

Status NodeLevel::remove_callable(const Registered& callable) {
  const bool host = is_host_kind(callable.handle->kind);
  const lane::ControlCall call{
      .command = host ? wire::ControlCommand::kPythonUnregister : wire::ControlCommand::kUnregister,
      .args = {callable.handle->index, 0, 0, 0}};
  Status status = first_failure(tree_->broadcast(host ? ChildKind::kHost : ChildKind::kChip, call, control_deadline()));
  tree_->driver().with_engine(
      [&](engine::Engine&) { tree_->memory().tables().clear_callable(callable.handle->index); });
  return status;
}

Status NodeLevel::drain(Deadline deadline) {
  return tree_ == nullptr ? Status::ok() : tree_->driver().wait_idle(deadline);
}

void NodeLevel::give_up(const Status& why) {
  std::vector<std::weak_ptr<NodeRun>> runs;
  {
    MutexLock lock(mutex_);
    runs = runs_;
  }
  for (const std::weak_ptr<NodeRun>& weak : runs) {
    if (const std::shared_ptr<NodeRun> run = weak.lock()) {
      run->cancel(why);
    }
  }
  tree_->kill_busy();
}

Status NodeLevel::stop(Deadline deadline, bool kill) {
  if (tree_ == nullptr) {
    return Status::ok();
  }
  std::vector<std::weak_ptr<NodeRun>> runs;
  {
    MutexLock lock(mutex_);
    runs.swap(runs_);
  }
  for (const std::weak_ptr<NodeRun>& weak : runs) {
    if (const std::shared_ptr<NodeRun> run = weak.lock()) {
      run->settle(*tree_, failed_precondition("the worker was closed before this run ended"));
    }
  }
  SIMPLER_RETURN_IF_ERROR(tree_->stop(deadline, kill));
  for (const BufferState& buffer : buffers_.all()) {
    buffer->closed.store(true, std::memory_order_release);
    buffers_.remove(buffer->descriptor.identity);
  }
  tree_.reset();
  return Status::ok();
}

bool NodeLevel::is_building_here() const {
  MutexLock lock(mutex_);
  return building_ == std::this_thread::get_id();
}

void NodeLevel::publish_building(std::thread::id thread) {
  MutexLock lock(mutex_);
  building_ = thread;
}

void NodeLevel::note_run(const std::shared_ptr<NodeRun>& run) {
  MutexLock lock(mutex_);
  if (runs_.size() >= 64) {
    std::erase_if(runs_, [](const std::weak_ptr<NodeRun>& old) { return old.expired(); });
  }
  runs_.push_back(run);
}

Status NodeLevel::settle_failed_build(const engine::RunRef& run) {
  engine::Driver& driver = tree_->driver();
  Status outcome = unlocked(language_, [&] { return driver.wait(run, Deadline::never()); });
  driver.release(run);
  return outcome;
}

Result<std::shared_ptr<RunHandle::State>> NodeLevel::submit_graph(const Worker::GraphFunction& graph,
                                                                  const TaskArgs* args, const CallConfig& config) {
  if (is_building_here()) {
    return reentrant("submit: called from inside a graph function of the same worker");
  }
  SIMPLER_RETURN_IF_ERROR(validate(config));
  engine::Driver& driver = tree_->driver();
  SIMPLER_ASSIGN_OR_RETURN(const engine::RunRef run,
                           unlocked(language_, [&] { return driver.begin_run(Deadline::never()); }));
  Orchestrator::State state(*this, run);
  Orchestrator orchestrator(state);
  publish_building(std::this_thread::get_id());
  try {
    const trace::Span span(tree_->recorder(), tree_->trace_name("build graph"), run.id);
    graph(orchestrator, args, config);
  } catch (...) {
    state.open = false;
    publish_building({});
    driver.fail_run(run, cancelled("the graph function of this run raised an exception"));
    release_configs(run, std::move(state.configs));
    (void)settle_failed_build(run);
    throw;
  }
  state.open = false;
  publish_building({});
  Status closed = driver.close_run(run);
  release_configs(run, std::move(state.configs));
  if (!closed.is_ok()) {
    (void)settle_failed_build(run);
    return closed;
  }
  auto handle = std::make_shared<NodeRun>(tree_, run);
  note_run(handle);
  return std::static_pointer_cast<RunHandle::State>(handle);
}

void NodeLevel::release_configs(const engine::RunRef& run, std::vector<std::uint16_t> configs) {
  if (configs.empty()) {
    return;
  }
  // The callback may come from the driver's own thread, which outlives no tree.
  Tree* tree = tree_.get();
  tree->driver().on_done(run, [tree, configs = std::move(configs)] {
    tree->driver().with_engine([&](engine::Engine&) {
      for (const std::uint16_t config : configs) {
        tree->memory().tables().release_config(config);
      }
    });
  });
}

Result<std::shared_ptr<RunHandle::State>> NodeLevel::submit_task(const callable::HandleState&, const TaskArgs&,
                                                                 const CallConfig&) {
  return wrong_type("submit: a level-3 worker takes a graph function; only level 2 takes a callable and its arguments");
}

Result<memory::BufferRef> NodeLevel::reference(const BufferDescriptor& descriptor) const {
  const BufferState state = buffers_.find(descriptor.identity);
  if (state == nullptr) {
    return not_found(fmt::format("buffer {} is not known to this worker: it was released, or belongs to another one",
                                 to_string(descriptor.identity)));
  }
  const std::string differing = differing_fields(state->descriptor, descriptor);
  if (!differing.empty()) {
    return invalid_argument(fmt::format("buffer {}: the tensor's descriptor differs from the buffer's in {}",
                                        to_string(descriptor.identity), differing));
  }
  return state->ref;
}

}  // namespace simpler::worker
