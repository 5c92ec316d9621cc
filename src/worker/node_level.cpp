#include "worker/node_level.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "engine/run_queue.h"
#include "memory/buffer_table.h"
#include "worker/control_records.h"
#include "worker/node_run.h"
#include "worker/options.h"
#include "worker/orchestrator_state.h"

namespace simpler::worker {
namespace {

// Length of the list of begun runs at which ended ones are dropped: more than can be unfinished, so that many go.
constexpr std::size_t kBegunLook = 256;

// How often a wait of a submit asks whether the caller wants control back.
constexpr Nanos kInterruptLook = 50 * kMillisecond;

StatusCode code_of(const Status& status) {
  return status.code();
}
template <class T>
StatusCode code_of(const Result<T>& result) {
  return result.status().code();
}

// Calls wait(deadline) until it returns something else than kTimeout, or the caller wants control back.
template <class Wait>
auto interruptible(const HostLanguage& language, Wait&& wait) {
  if (!language.interrupted) {
    return wait(Deadline::never());
  }
  while (true) {
    auto outcome = wait(Deadline::after(kInterruptLook));
    if (code_of(outcome) != StatusCode::kTimeout || language.interrupted()) {
      return outcome;
    }
  }
}

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

Status first_failure(const std::vector<Result<lane::ControlAnswer>>& answers) {
  for (const Result<lane::ControlAnswer>& answer : answers) {
    if (!answer.ok()) {
      return answer.status();
    }
  }
  return Status::ok();
}

}  // namespace

NodeLevel::NodeLevel(const WorkerOptions& options, const HostLanguage& language, const callable::Registry& registry)
    : options_(options), language_(language), registry_(registry) {
  begun_.reserve(kBegunLook);
  begun_before_.reserve(kBegunLook);
}

NodeLevel::~NodeLevel() = default;

Deadline NodeLevel::control_deadline() const {
  return Deadline::after(nanos_of(options_.control_timeout_s));
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

Status NodeLevel::start(LevelStart given, Deadline deadline) {
  faults_ = given.faults;
  Tree::Start start{
      .options = options_, .language = language_, .cancelled = std::move(given.cancelled), .faults = faults_};
  for (const Registered& callable : given.callables) {
    start.names.emplace_back(callable.handle->index, callable.handle->name);
    if (is_host_kind(callable.handle->kind)) {
      start.host_table.put(callable.handle->index, callable.handle->name, callable.host.function);
      start.keep_fds.insert(start.keep_fds.end(), callable.host.keep_fds.begin(), callable.host.keep_fds.end());
    } else {
      start.chip_callables.push_back({callable.handle->index, callable.handle->name, callable.chip_bytes});
    }
  }
  SIMPLER_ASSIGN_OR_RETURN(std::shared_ptr<Tree> tree, Tree::start(std::move(start), deadline));
  tree_ = std::move(tree);
  SIMPLER_RETURN_IF_ERROR(fault_point(faults_, "start.parent.publish"));
  for (const Registered& callable : given.callables) {
    SIMPLER_RETURN_IF_ERROR(publish(callable));
  }
  SIMPLER_RETURN_IF_ERROR(fault_point(faults_, "start.parent.ready"));
  // A child that said it is ready and ended since is an error of this start, not of the first task.
  return tree_->all_alive().context("init");
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

Status NodeLevel::add_callable(const Registered& callable, bool& undone) {
  const bool host = is_host_kind(callable.handle->kind);
  const ChildKind kind = host ? ChildKind::kHost : ChildKind::kChip;
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
  const std::vector<Result<lane::ControlAnswer>> answers = tree_->broadcast(kind, call, control_deadline());
  Status refused;
  std::size_t gone = 0;
  for (const Result<lane::ControlAnswer>& answer : answers) {
    const bool lost = !answer.ok() && answer.status().code() == StatusCode::kPeerLost;
    gone += lost ? 1 : 0;
    if (!answer.ok() && !lost && refused.is_ok()) {
      refused = answer.status();
    }
  }
  if (refused.is_ok() && gone < answers.size()) {
    return Status::ok();  // the dead run nothing any more
  }
  undone = undo_registration(callable, answers);
  if (refused.is_ok()) {
    return first_failure(answers);
  }
  return std::move(refused).context(undone ? "REGISTER_PARTIAL_FAILURE" : "REGISTER_PARTIAL_FAILURE, undo unconfirmed");
}

// Tells those children to forget that took the callable, or may have. True: none of them has it.
bool NodeLevel::undo_registration(const Registered& callable, const std::vector<Result<lane::ControlAnswer>>& answers) {
  const bool host = is_host_kind(callable.handle->kind);
  std::vector<bool> told;
  for (const Result<lane::ControlAnswer>& answer : answers) {
    told.push_back(answer.ok() || answer.status().code() == StatusCode::kTimeout);
  }
  const lane::ControlCall call{
      .command = host ? wire::ControlCommand::kPythonUnregister : wire::ControlCommand::kUnregister,
      .args = {callable.handle->index, 0, 0, 0}};
  bool undone = true;
  for (const Result<lane::ControlAnswer>& answer :
       tree_->broadcast(host ? ChildKind::kHost : ChildKind::kChip, call, control_deadline(), told)) {
    const StatusCode code = answer.ok() ? StatusCode::kOk : answer.status().code();
    undone = undone && (code == StatusCode::kOk || code == StatusCode::kPeerLost || code == StatusCode::kNotFound);
  }
  tree_->driver().with_engine(
      [&](engine::Engine&) { tree_->memory().tables().clear_callable(callable.handle->index); });
  return undone;
}

bool NodeLevel::idle() {
  return tree_ == nullptr || tree_->driver().unfinished_runs() == 0;
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
  if (tree_ == nullptr) {
    return;
  }
  std::vector<engine::RunRef> begun;
  {
    MutexLock lock(mutex_);
    begun = begun_;
  }
  for (const engine::RunRef& run : begun) {
    tree_->driver().cancel(run, why);  // one that is over stays as it is
  }
  tree_->kill_busy();
}

Status NodeLevel::stop(Deadline deadline, bool kill) {
  if (tree_ == nullptr) {
    return Status::ok();
  }
  SIMPLER_RETURN_IF_ERROR(tree_->stop(deadline, kill));
  std::vector<std::weak_ptr<NodeRun>> runs;
  {
    MutexLock lock(mutex_);
    runs.swap(runs_);
    begun_.clear();
  }
  for (const std::weak_ptr<NodeRun>& weak : runs) {
    if (const std::shared_ptr<NodeRun> run = weak.lock()) {
      run->settle(*tree_, failed_precondition("the worker was closed before this run ended"));
    }
  }
  for (const BufferState& buffer : buffers_.all()) {
    buffer->mark_released();
    buffers_.remove(buffer->descriptor.identity);
  }
  SIMPLER_RETURN_IF_ERROR(fault_point(faults_, "close.parent.unmap"));
  tree_.reset();
  return Status::ok();
}

const Orchestrator::State* NodeLevel::building_here() const {
  MutexLock lock(mutex_);
  return building_ == std::this_thread::get_id() ? graph_ : nullptr;
}

bool NodeLevel::is_building_here() const {
  return building_here() != nullptr;
}

void NodeLevel::publish_building(const Orchestrator::State* state) {
  MutexLock lock(mutex_);
  building_ = state != nullptr ? std::this_thread::get_id() : std::thread::id();
  graph_ = state;
}

Status NodeLevel::begin_copy(const char* call) {
  if (const Orchestrator::State* graph = building_here()) {
    return graph->before_copy(call);
  }
  const bool busy = tree_->driver().unfinished_runs() != 0;
  MutexLock lock(mutex_);
  if (busy || starting_ != 0) {
    return failed_precondition(
        fmt::format("{}: runs are in flight; wait for them, or copy inside a graph function", call));
  }
  ++copies_;
  return Status::ok();
}

void NodeLevel::end_copy() {
  MutexLock lock(mutex_);
  if (building_ != std::this_thread::get_id()) {
    --copies_;
    copies_ended_.notify_all();
  }
}

Result<engine::RunRef> NodeLevel::begin_run() {
  {
    MutexLock lock(mutex_);
    while (copies_ != 0) {
      copies_ended_.wait(mutex_);  // a copy ends by itself or with its chip
    }
    ++starting_;
  }
  // As long as other threads build and earlier runs go on: they end by themselves, or by terminate().
  Result<engine::RunRef> run =
      interruptible(language_, [&](Deadline deadline) { return tree_->driver().begin_run(deadline); });
  bool crowded = false;
  {
    MutexLock lock(mutex_);
    --starting_;
    if (run.ok()) {
      begun_.push_back(*run);
      crowded = begun_.size() >= kBegunLook;
    }
  }
  if (crowded) [[unlikely]] {
    forget_ended_runs();
  }
  return run;
}

// By the holder of the submission turn, who alone adds to the list.
void NodeLevel::forget_ended_runs() {
  {
    MutexLock lock(mutex_);
    begun_before_.assign(begun_.begin(), begun_.end());
  }
  // Outside of our lock: whoever leaves the engine may call back.
  tree_->driver().with_engine([&](engine::Engine&) {
    std::erase_if(begun_before_,
                  [](const engine::RunRef& old) { return old.record->id != old.id || old.record->is_done(); });
  });
  MutexLock lock(mutex_);
  begun_.swap(begun_before_);
}

void NodeLevel::note_handle(const std::shared_ptr<NodeRun>& run) {
  MutexLock lock(mutex_);
  if (runs_.size() >= 64) {
    std::erase_if(runs_, [](const std::weak_ptr<NodeRun>& old) { return old.expired(); });
  }
  runs_.push_back(run);
}

Status NodeLevel::settle_failed_build(const engine::RunRef& run) {
  engine::Driver& driver = tree_->driver();
  Status outcome = unlocked(language_, [&] {
    return interruptible(language_, [&](Deadline deadline) { return driver.wait(run, deadline); });
  });
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
  SIMPLER_ASSIGN_OR_RETURN(const engine::RunRef run, unlocked(language_, [&] { return begin_run(); }));
  Orchestrator::State state(*this, run);
  Orchestrator orchestrator(state);
  publish_building(&state);
  try {
    const trace::Span span(tree_->recorder(), tree_->trace_name("build graph"), run.id);
    graph(orchestrator, args, config);
  } catch (...) {
    state.open = false;
    publish_building(nullptr);
    driver.fail_run(run, cancelled("the graph function of this run raised an exception"));
    release_configs(run, std::move(state.configs));
    (void)settle_failed_build(run);
    throw;
  }
  state.open = false;
  publish_building(nullptr);
  Status closed = driver.close_run(run);
  release_configs(run, std::move(state.configs));
  if (!closed.is_ok()) {
    (void)settle_failed_build(run);
    return closed;
  }
  auto handle = std::make_shared<NodeRun>(tree_, run);
  note_handle(handle);
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

Result<BufferState> NodeLevel::find(const BufferDescriptor& descriptor) const {
  BufferState state = buffers_.find(descriptor.identity);
  if (state == nullptr) {
    return not_found(fmt::format("buffer {} is not known to this worker: it was released, or belongs to another one",
                                 to_string(descriptor.identity)));
  }
  const std::string differing = differing_fields(state->descriptor, descriptor);
  if (!differing.empty()) {
    return invalid_argument(fmt::format("buffer {}: the tensor's descriptor differs from the buffer's in {}",
                                        to_string(descriptor.identity), differing));
  }
  return state;
}

Result<memory::BufferRef> NodeLevel::reference(const BufferDescriptor& descriptor) const {
  SIMPLER_ASSIGN_OR_RETURN(const BufferState state, find(descriptor));
  return state->ref;
}

Result<int> NodeLevel::owner_of(const BufferDescriptor& descriptor) const {
  SIMPLER_ASSIGN_OR_RETURN(const BufferState state, find(descriptor));
  return state->owner_worker;
}

}  // namespace simpler::worker
