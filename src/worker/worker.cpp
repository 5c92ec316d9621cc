#include "simpler/worker.h"

#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "callable/identity.h"
#include "spec/registry.h"
#include "worker/callable_state.h"
#include "worker/chip_level.h"
#include "worker/faults.h"
#include "worker/node_level.h"
#include "worker/options.h"
#include "worker/orchestrator_state.h"
#include "worker/raise.h"
#include "worker/serve_host.h"
#include "worker/worker_impl.h"

namespace simpler {
namespace {

constexpr Nanos kStopBudget = 10 * kSecond;

constexpr Nanos kDrainBudget = 5 * kSecond;  // of terminate, within kStopBudget
constexpr Nanos kGiveUpAgain = 200 * kMillisecond;

Deadline after_seconds(double seconds) {
  return Deadline::after(worker::nanos_of(seconds));
}

std::vector<ArgDirection> signature_of(const ChipCallable& callable) {
  std::vector<ArgDirection> signature;
  for (std::uint32_t i = 0; i < callable.sig_count(); ++i) {
    signature.push_back(callable.sig(i));
  }
  return signature;
}

}  // namespace

Worker::Impl::Impl(WorkerOptions given) : options(std::move(given)) {
  if (options.level == 2) {
    level = std::make_unique<worker::ChipLevel>(options, language, registry);
  } else {
    level = std::make_unique<worker::NodeLevel>(options, language, registry);
  }
}

void Worker::Impl::check_process(const char* call) const {
  Status here = mark.check("Worker");
  if (!here.is_ok()) [[unlikely]] {
    worker::raise(std::move(here).context(call));
  }
}

worker::Lifecycle::Lease Worker::Impl::enter(const char* call) {
  check_process(call);
  return worker::unwrap(lifecycle.lease(call));
}

CallableHandle Worker::Impl::add(const callable::Identity& identity, TargetNamespace target, std::string name,
                                 worker::Registered registered) {
  check_process("register");
  worker::raise_if_error(level->check_eligible(identity.kind));
  while (true) {
    const worker::Lifecycle::Lease lease = worker::unwrap(lifecycle.lease_or_new("register"));
    std::vector<worker::Registered> dropped;
    MutexLock lock(registering);
    // A start looks at the callables under this lock after it left NEW: either it sees this one, or it is waited for.
    if (lease.held() || lifecycle.state() == WorkerState::kNew) {
      finish_removals(dropped);
      return add_held(identity, target, std::move(name), std::move(registered), lease.held());
    }
  }
}

CallableHandle Worker::Impl::add_held(const callable::Identity& identity, TargetNamespace target, std::string name,
                                      worker::Registered registered, bool live) {
  const callable::Registration registration = worker::unwrap(registry.begin(identity, target, name));
  if (registration.first && live) {
    // What children are told; the handle that users see comes with the commit.
    auto told = std::make_shared<callable::HandleState>();
    told->kind = identity.kind;
    told->target_namespace = target;
    told->digest = identity.digest;
    told->index = registration.index;
    told->name = name;
    registered.handle = std::move(told);
    bool undone = true;
    Status added = level->add_callable(registered, undone);
    if (!added.is_ok()) {
      registry.abort(registration, undone);
      worker::raise(std::move(added).context(fmt::format("register '{}'", name)));
    }
  }
  callable::Handle entry = registry.commit(registration);
  if (registration.first) {
    registered.handle = entry;
    callables.insert_or_assign(entry->index, std::move(registered));
  }
  return CallableHandle(std::make_shared<const CallableHandle::State>(CallableHandle::State{std::move(entry)}));
}

// Children forget a callable, and its index is free, once no task can name it any more.
void Worker::Impl::finish_removals(std::vector<worker::Registered>& dropped) {
  if (removals.empty() || (lifecycle.state() == WorkerState::kReady && !level->idle())) {
    return;
  }
  for (const callable::Removal& removal : std::exchange(removals, {})) {
    const auto found = callables.find(removal.index);
    if (found != callables.end()) {
      if (lifecycle.state() == WorkerState::kReady) {
        // Best effort: a child that cannot forget keeps an entry that nobody can name.
        (void)level->remove_callable(found->second);
      }
      dropped.push_back(std::move(found->second));
      callables.erase(found);
    }
    registry.finish_unregister(removal);
  }
}

// After a start that failed: nothing of it is left, and later calls repeat why.
void Worker::Impl::abandon_start(const Status& why) {
  (void)level->stop(Deadline::after(kStopBudget), true);
  lifecycle.fail_init(why);
}

void Worker::Impl::start() {
  std::vector<worker::Registered> all;
  {
    MutexLock lock(registering);
    for (const auto& [index, registered] : callables) {
      all.push_back(registered);
    }
  }
  for (const worker::Registered& registered : all) {
    worker::raise_if_error(level->check_eligible(registered.handle->kind));
  }
  // A registration that comes while the tree starts waits here and is then sent to the children.
  const auto given_up = [this] {
    return lifecycle.init_cancelled() || (language.interrupted && language.interrupted());
  };
  worker::raise_if_error(level->start({.callables = std::move(all), .cancelled = given_up, .faults = faults},
                                      after_seconds(options.startup_timeout_s)));
}

Worker::Worker(WorkerOptions options) {
  worker::raise_if_error(worker::validate(options));
  impl_ = std::make_unique<Impl>(std::move(options));
}

Worker::Worker(Worker&&) noexcept = default;
Worker& Worker::operator=(Worker&& other) noexcept {
  // What was here ends as by its destructor, which knows a foreign fork's copy.
  Worker old(std::move(*this));
  impl_ = std::move(other.impl_);
  return *this;
}

Worker::~Worker() {
  if (impl_ == nullptr || !impl_->mark.is_here()) {
    // A copy that a foreign fork made: its children, threads and memory belong to the other process.
    (void)impl_.release();
    return;
  }
  try {
    terminate();
  } catch (const std::exception&) {
    // A destructor has nobody to tell; what survived is bounded by the death of this process.
  }
}

CallableHandle Worker::register_callable(const ChipCallable& callable) {
  const spec::Platform* platform = spec::find_platform(impl_->options.platform);
  const callable::Identity identity = callable::chip_callable_identity(
      platform != nullptr ? platform->chip->name : std::string_view(), impl_->options.platform, impl_->options.runtime,
      callable.bytes(), signature_of(callable));
  worker::Registered registered;
  registered.chip_bytes.assign(callable.bytes().begin(), callable.bytes().end());
  const std::string name =
      callable.kind() == CodeKind::kBuiltin ? callable.builtin_name().name : std::string(callable.func_name());
  const CallableHandle added = impl_->add(identity, TargetNamespace::kLocalChip, name, std::move(registered));
  auto tensors = std::make_shared<TensorDirections>();
  for (std::uint32_t i = 0; i < callable.sig_count(); ++i) {
    if (callable.sig(i) != ArgDirection::kScalar) {
      tensors->of.push_back(callable.sig(i));
    }
  }
  return CallableHandle(
      std::make_shared<const CallableHandle::State>(CallableHandle::State{added.state()->entry, std::move(tensors)}));
}

CallableHandle Worker::register_native(std::string name, NativeFunction function, std::uint32_t version) {
  if (!function) {
    worker::raise(invalid_argument(fmt::format("register_native '{}': the function is empty", name)));
  }
  if (impl_->lifecycle.state() != WorkerState::kNew) {
    worker::raise(failed_precondition(fmt::format(
        "register_native '{}': native functions reach the children by the fork; register before init()", name)));
  }
  worker::Registered registered;
  registered.host.kind = CallableKind::kNativeFunction;
  registered.host.name = name;
  registered.host.function = worker::wrap_native(std::move(function));
  registered.host.unsendable = "a native function is part of the program";
  return impl_->add(callable::native_function_identity(name, version), TargetNamespace::kLocalPython, name,
                    std::move(registered));
}

CallableHandle register_host(Worker& target, HostCallable callable) {
  const callable::Identity identity{.kind = callable.kind, .descriptor = {}, .digest = callable.digest};
  const std::string name = callable.name;
  worker::Registered registered;
  registered.host = std::move(callable);
  return target.impl().add(identity, TargetNamespace::kLocalPython, name, std::move(registered));
}

void set_host_language(Worker& target, HostLanguage language) {
  if (target.impl().lifecycle.state() != WorkerState::kNew) {
    worker::raise(failed_precondition("set_host_language: only before init()"));
  }
  target.impl().language = std::move(language);
}

namespace worker {

void set_fault_plan(Worker& target, FaultPlan* plan) {
  if (target.impl().lifecycle.state() != WorkerState::kNew) {
    raise(failed_precondition("set_fault_plan: only before init()"));
  }
  target.impl().faults = plan;
}

}  // namespace worker

void Worker::unregister(const CallableHandle& handle) {
  impl_->check_process("unregister");
  if (!handle.valid()) {
    worker::raise(wrong_type("unregister: no callable given; pass the CallableHandle returned by Worker.register"));
  }
  while (true) {
    // Keeps the tree while children are told; empty where there is none.
    const auto lease = impl_->lifecycle.lease_or_new("unregister").value_or(worker::Lifecycle::Lease());
    std::vector<worker::Registered> dropped;
    MutexLock lock(impl_->registering);
    const WorkerState state = impl_->lifecycle.state();
    if (lease.held() || (state != WorkerState::kInitializing && state != WorkerState::kReady)) {
      impl_->remove_held(handle, dropped);
      return;
    }
  }
}

void Worker::Impl::remove_held(const CallableHandle& handle, std::vector<worker::Registered>& dropped) {
  const callable::Removal removal = worker::unwrap(registry.begin_unregister(handle.state()->entry));
  if (!removal.last) {
    registry.finish_unregister(removal);
    return;
  }
  removals.push_back(removal);
  finish_removals(dropped);
}

void Worker::init() {
  impl_->check_process("init");
  worker::raise_if_error(impl_->lifecycle.begin_init());
  try {
    impl_->start();
  } catch (const Error& error) {
    impl_->abandon_start(error.status());
    throw;
  } catch (const std::exception& error) {
    Status why = internal_error(error.what()).context("init");
    impl_->abandon_start(why);
    worker::raise(std::move(why));
  }
  Status committed = impl_->lifecycle.commit_ready();
  if (!committed.is_ok()) {
    impl_->abandon_start(committed);
    worker::raise(std::move(committed));
  }
}

void Worker::close() {
  impl_->check_process("close");
  const Deadline deadline = after_seconds(impl_->options.close_timeout_s);
  const worker::Lifecycle::Closing closing = worker::unwrap(impl_->lifecycle.begin_close(deadline));
  MutexLock lock(impl_->closing);
  if (impl_->finished) {
    return;
  }
  worker::raise_if_error(fault_point(impl_->faults, "close.parent.drain"));
  Status drained = impl_->level->drain(deadline);
  if (!drained.is_ok()) {
    worker::raise(std::move(drained).context("close: runs are still going; close again, or terminate"));
  }
  worker::raise_if_error(impl_->level->stop(Deadline::after(kStopBudget), false));
  impl_->finished = true;
}

// Gives up again and again until the calls of other threads have ended: each may start something after the last time.
worker::Lifecycle::Closing Worker::Impl::begin_terminate(Deadline deadline) {
  while (true) {
    Result<worker::Lifecycle::Closing> begun =
        lifecycle.begin_close(Deadline::earlier(deadline, Deadline::after(kGiveUpAgain)));
    if (begun.ok() || begun.status().code() != StatusCode::kTimeout || deadline.expired()) {
      return worker::unwrap(std::move(begun));
    }
    if (lifecycle.leased()) {
      level->give_up(cancelled("the worker was terminated"));
    }
  }
}

void Worker::terminate() {
  impl_->check_process("terminate");
  const Deadline deadline = Deadline::after(kStopBudget);
  const worker::Lifecycle::Closing closing = impl_->begin_terminate(deadline);
  MutexLock lock(impl_->closing);
  if (impl_->finished) {
    return;
  }
  // A look first: what is over already needs no force.
  if (!impl_->level->drain(Deadline::after(0)).is_ok()) {
    impl_->level->give_up(cancelled("the worker was terminated"));
    (void)impl_->level->drain(Deadline::earlier(deadline, Deadline::after(kDrainBudget)));
  }
  worker::raise_if_error(impl_->level->stop(deadline, true));
  impl_->finished = true;
}

WorkerState Worker::state() const {
  return impl_->lifecycle.state();
}

RunHandle Worker::submit(const GraphFunction& graph, const TaskArgs* args, const CallConfig& config) {
  const auto lease = impl_->enter("submit");
  return RunHandle(worker::unwrap(impl_->level->submit_graph(graph, args, config)));
}

RunHandle Worker::submit(const CallableHandle& callable, const TaskArgs& args, const CallConfig& config) {
  const auto lease = impl_->enter("submit");
  if (!callable.valid()) {
    worker::raise(wrong_type("submit: no callable given; pass the CallableHandle returned by Worker.register"));
  }
  worker::raise_if_error(impl_->registry.check(callable.state()->entry));
  return RunHandle(worker::unwrap(impl_->level->submit_task(*callable.state()->entry, args, config)));
}

Buffer Worker::create_buffer(std::uint64_t nbytes) {
  const auto lease = impl_->enter("create_buffer");
  return Buffer(worker::unwrap(impl_->level->create_buffer(nbytes)));
}

void Worker::release_buffer(const Buffer& buffer) {
  impl_->check_process("release_buffer");
  if (buffer.valid() && buffer.state()->released.load(std::memory_order_acquire)) {
    return;
  }
  const auto lease = impl_->enter("release_buffer");
  worker::raise_if_error(worker::check_owner(buffer, impl_->registry.owner_id(), "release_buffer"));
  worker::raise_if_error(impl_->level->release_buffer(buffer.state()));
}

Buffer Worker::malloc(std::uint64_t nbytes) {
  const auto lease = impl_->enter("malloc");
  if (impl_->options.level != 2) {
    worker::raise(wrong_type("malloc: only at level 2; use alloc_child_tensor(worker, shape, dtype)"));
  }
  return Buffer(worker::unwrap(impl_->level->device_malloc(0, nbytes)));
}

Buffer Worker::alloc_child_tensor(int worker, std::span<const std::uint32_t> shape, DataType dtype) {
  const auto lease = impl_->enter("alloc_child_tensor");
  const std::uint64_t bytes = worker::unwrap(worker::bytes_of_shape(shape, dtype, "alloc_child_tensor"));
  return Buffer(worker::unwrap(impl_->level->device_malloc(worker, bytes)));
}

void Worker::free(const Buffer& buffer) {
  const auto lease = impl_->enter("free");
  worker::raise_if_error(worker::check_owner(buffer, impl_->registry.owner_id(), "free"));
  worker::raise_if_error(impl_->level->device_free(buffer.state()));
}

void Worker::copy_to(const Buffer& device, const Buffer& host, std::uint64_t device_offset, std::uint64_t host_offset,
                     std::optional<std::uint64_t> nbytes) {
  const auto lease = impl_->enter("copy_to");
  worker::raise_if_error(worker::check_own(device, impl_->registry.owner_id(), "copy_to"));
  worker::raise_if_error(worker::check_own(host, impl_->registry.owner_id(), "copy_to"));
  const worker::CopyRange range =
      worker::unwrap(worker::check_copy(device, host, device_offset, host_offset, nbytes, true));
  worker::raise_if_error(impl_->level->copy(device, host, range, true));
}

void Worker::copy_from(const Buffer& host, const Buffer& device, std::uint64_t host_offset, std::uint64_t device_offset,
                       std::optional<std::uint64_t> nbytes) {
  const auto lease = impl_->enter("copy_from");
  worker::raise_if_error(worker::check_own(device, impl_->registry.owner_id(), "copy_from"));
  worker::raise_if_error(worker::check_own(host, impl_->registry.owner_id(), "copy_from"));
  const worker::CopyRange range =
      worker::unwrap(worker::check_copy(device, host, device_offset, host_offset, nbytes, false));
  worker::raise_if_error(impl_->level->copy(device, host, range, false));
}

std::uint64_t Worker::committed_device_memory(int worker) {
  const auto lease = impl_->enter("committed_device_memory");
  return worker::unwrap(impl_->level->committed_device_memory(worker));
}

std::vector<Worker::ChildStatistics> Worker::statistics() const {
  const auto lease = impl_->enter("statistics");
  return impl_->level->statistics();
}

std::uint64_t Worker::peak_heap_bytes() const {
  const auto lease = impl_->enter("peak_heap_bytes");
  return impl_->level->peak_heap_bytes();
}

}  // namespace simpler
