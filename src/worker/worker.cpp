#include "simpler/worker.h"

#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "callable/identity.h"
#include "spec/registry.h"
#include "worker/callable_state.h"
#include "worker/chip_level.h"
#include "worker/node_level.h"
#include "worker/options.h"
#include "worker/orchestrator_state.h"
#include "worker/raise.h"
#include "worker/serve_host.h"
#include "worker/worker_impl.h"

namespace simpler {
namespace {

constexpr Nanos kStopBudget = 10 * kSecond;

Deadline after_seconds(double seconds) {
  return Deadline::after(static_cast<Nanos>(seconds * 1e9));
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
  const WorkerState state = lifecycle.state();
  worker::Lifecycle::Lease lease;
  if (state != WorkerState::kNew) {
    lease = enter("register");
  }
  MutexLock lock(registering);
  const callable::Registration registration = worker::unwrap(registry.begin(identity, target, name));
  callable::Handle entry = registry.commit(registration);
  registered.handle = entry;
  if (registration.first && state != WorkerState::kNew) {
    Status added = level->add_callable(registered);
    if (!added.is_ok()) {
      Result<callable::Removal> removal = registry.begin_unregister(entry);
      if (removal.ok()) {
        registry.finish_unregister(*removal);
      }
      worker::raise(std::move(added).context(fmt::format("register '{}'", name)));
    }
  }
  if (registration.first) {
    callables.insert_or_assign(entry->index, std::move(registered));
  }
  return CallableHandle(std::make_shared<const CallableHandle::State>(CallableHandle::State{std::move(entry)}));
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
  worker::raise_if_error(level->start(
      all, [this] { return lifecycle.init_cancelled(); }, after_seconds(options.startup_timeout_s)));
}

Worker::Worker(WorkerOptions options) {
  worker::raise_if_error(worker::validate(options));
  impl_ = std::make_unique<Impl>(std::move(options));
}

Worker::Worker(Worker&&) noexcept = default;
Worker& Worker::operator=(Worker&&) noexcept = default;

Worker::~Worker() {
  if (impl_ == nullptr || !impl_->mark.is_here()) {
    // A copy that a foreign fork made: its children, threads and memory belong to the other process.
    (void)impl_.release();
    return;
  }
  try {
    terminate();
  } catch (const Error&) {
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
  return impl_->add(identity, TargetNamespace::kLocalChip, name, std::move(registered));
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

void Worker::unregister(const CallableHandle& handle) {
  impl_->check_process("unregister");
  if (!handle.valid()) {
    worker::raise(wrong_type("unregister: no callable given; pass the CallableHandle returned by Worker.register"));
  }
  MutexLock lock(impl_->registering);
  const callable::Removal removal = worker::unwrap(impl_->registry.begin_unregister(handle.state()->entry));
  if (removal.last) {
    const auto found = impl_->callables.find(removal.index);
    if (found != impl_->callables.end()) {
      if (impl_->lifecycle.state() == WorkerState::kReady) {
        // Best effort: a child that cannot forget keeps an entry that nobody can name.
        (void)impl_->level->remove_callable(found->second);
      }
      impl_->callables.erase(found);
    }
  }
  impl_->registry.finish_unregister(removal);
}

void Worker::init() {
  impl_->check_process("init");
  worker::raise_if_error(impl_->lifecycle.begin_init());
  try {
    impl_->start();
  } catch (const Error& error) {
    impl_->lifecycle.fail_init(error.status());
    throw;
  }
  Status committed = impl_->lifecycle.commit_ready();
  if (!committed.is_ok()) {
    (void)impl_->level->stop(Deadline::after(kStopBudget), true);
    impl_->lifecycle.fail_init(committed);
    worker::raise(std::move(committed));
  }
}

void Worker::close() {
  impl_->check_process("close");
  const WorkerState before = impl_->lifecycle.state();
  const Deadline deadline = after_seconds(impl_->options.close_timeout_s);
  worker::raise_if_error(impl_->lifecycle.begin_close(deadline));
  MutexLock lock(impl_->closing);
  if (impl_->finished) {
    return;
  }
  if (before != WorkerState::kNew && before != WorkerState::kFailed) {
    Status drained = impl_->level->drain(deadline);
    if (!drained.is_ok()) {
      worker::raise(std::move(drained).context("close: runs are still going; close again, or terminate"));
    }
    worker::raise_if_error(impl_->level->stop(Deadline::after(kStopBudget), false));
  }
  impl_->finished = true;
}

void Worker::terminate() {
  impl_->check_process("terminate");
  const WorkerState before = impl_->lifecycle.state();
  worker::raise_if_error(impl_->lifecycle.begin_close(Deadline::after(kStopBudget)));
  MutexLock lock(impl_->closing);
  if (impl_->finished) {
    return;
  }
  if (before != WorkerState::kNew && before != WorkerState::kFailed) {
    const Deadline deadline = Deadline::after(kStopBudget);
    // A short drain first: what is about to end may end by itself.
    if (!impl_->level->drain(Deadline::after(0)).is_ok()) {
      impl_->level->give_up(cancelled("the worker was terminated"));
      (void)impl_->level->drain(deadline);
    }
    worker::raise_if_error(impl_->level->stop(deadline, true));
  }
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
  if (buffer.valid() && buffer.closed()) {
    return;
  }
  const auto lease = impl_->enter("release_buffer");
  worker::raise_if_error(worker::check_own(buffer, impl_->registry.owner_id(), "release_buffer"));
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
  worker::raise_if_error(worker::check_own(buffer, impl_->registry.owner_id(), "free"));
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
