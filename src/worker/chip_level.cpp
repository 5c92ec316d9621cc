#include "worker/chip_level.h"

#include <algorithm>
#include <sys/random.h>
#include <time.h>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/status_macros.h"
#include "memory/buffer_table.h"
#include "worker/settings.h"
#include "worker/task_args_access.h"
#include "worker/user_time.h"

namespace simpler::worker {

// One queued, running or ended run. Filled before it is queued; the outcome is set once by the serving thread.
class ChipRun final : public RunHandle::State {
 public:
  ChipRun(std::uint32_t callable, std::string name, CallConfig config)
      : callable_(callable), name_(std::move(name)), config_(config) {}

  std::uint64_t id() const override { return id_; }
  void set_id(std::uint64_t id) { id_ = id; }
  bool done() override {
    MutexLock lock(mutex_);
    return outcome_.has_value();
  }
  Status wait(Deadline deadline) override {
    MutexLock lock(mutex_);
    while (!outcome_) {
      if (!changed_.wait_until(mutex_, deadline) && !outcome_) {
        return timed_out(fmt::format("run {} has not ended within the time given", id_));
      }
    }
    return *outcome_;
  }
  std::vector<Status> errors() override {
    MutexLock lock(mutex_);
    return outcome_ && !outcome_->is_ok() ? std::vector<Status>{*outcome_} : std::vector<Status>{};
  }
  void cancel(Status why) override {
    MutexLock lock(mutex_);
    if (!started_ && !cancelled_) {
      cancelled_ = std::move(why);
    }
  }
  void on_done(std::function<void()> callback) override {
    {
      MutexLock lock(mutex_);
      if (!outcome_) {
        callbacks_.push_back(std::move(callback));
        return;
      }
    }
    callback();
  }

  Status add_tensor(const BufferState& buffer, const Tensor& tensor);
  void set_scalars(std::span<const std::uint64_t> scalars) { scalars_.assign(scalars.begin(), scalars.end()); }
  // kNotFound when one of them was released meanwhile.
  Status check_buffers() const {
    for (const auto& [identity, buffer] : buffers_) {
      if (buffer->released.load(std::memory_order_acquire)) {
        return not_found(fmt::format("submit: buffer {} was released", to_string(identity)));
      }
    }
    return Status::ok();
  }
  bool names(const CanonicalIdentity& identity) const { return buffers_.contains(identity); }
  std::size_t tensor_count() const { return tensors_.size(); }

  // On the serving thread.
  Status execute(chip::ChipWorker& chip) {
    {
      MutexLock lock(mutex_);
      started_ = true;
      if (cancelled_) {
        return *cancelled_;
      }
    }
    return chip.run(callable_, {tensors_, scalars_}, config_).with_callable(name_);
  }
  void finish(Status outcome) {
    std::vector<std::function<void()>> callbacks;
    {
      MutexLock lock(mutex_);
      if (outcome_) {
        return;
      }
      outcome_ = std::move(outcome);
      callbacks.swap(callbacks_);
      changed_.notify_all();
    }
    for (const std::function<void()>& callback : callbacks) {
      callback();
    }
  }

 private:
  std::uint64_t id_ = 0;
  const std::uint32_t callable_;
  const std::string name_;
  const CallConfig config_;
  std::vector<ChipTensor> tensors_;
  std::vector<std::uint64_t> scalars_;
  std::unordered_map<CanonicalIdentity, BufferState> buffers_;  // kept until the run is gone

  mutable Mutex mutex_;
  CondVar changed_;
  bool started_ SIMPLER_GUARDED_BY(mutex_) = false;
  std::optional<Status> cancelled_ SIMPLER_GUARDED_BY(mutex_);
  std::optional<Status> outcome_ SIMPLER_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> callbacks_ SIMPLER_GUARDED_BY(mutex_);
};

Status ChipRun::add_tensor(const BufferState& buffer, const Tensor& tensor) {
  ChipTensor out;
  out.addr = buffer->data != nullptr ? reinterpret_cast<std::uint64_t>(buffer->data) : body_address(buffer->descriptor);
  out.size = buffer->descriptor.nbytes;
  out.start_offset = tensor.byte_offset / element_size(tensor.dtype);
  out.shapes = tensor.shapes;
  out.strides = tensor.strides;
  out.ndims = tensor.ndims;
  out.dtype = tensor.dtype;
  out.address_space = buffer->descriptor.address_space;
  tensors_.push_back(out);
  buffers_.emplace(buffer->descriptor.identity, buffer);
  return Status::ok();
}

ChipLevel::ChipLevel(const WorkerOptions& options, const HostLanguage& language, const callable::Registry& registry)
    : options_(options), language_(language), registry_(registry) {}

ChipLevel::~ChipLevel() {
  (void)stop(Deadline::never(), true);
}

Status ChipLevel::check_eligible(CallableKind kind) const {
  if (kind == CallableKind::kChipCallable) {
    return Status::ok();
  }
  return wrong_type(fmt::format("a level-2 worker runs chip callables only, not {}", name_of(kind)));
}

Status ChipLevel::start(LevelStart start, Deadline) {
  if (getrandom(owner_.data(), owner_.size(), 0) != static_cast<ssize_t>(owner_.size())) {
    return system_error(errno, "getrandom");
  }
  const Environment environment = Environment::capture();
  SIMPLER_ASSIGN_OR_RETURN(const Settings settings, settings_of(options_, environment));
  SIMPLER_ASSIGN_OR_RETURN(const kernels::CatalogOptions catalog, kernels::catalog_options(environment));
  SIMPLER_ASSIGN_OR_RETURN(kernels_, kernels::Catalog::open(catalog));
  logger_.set_level(settings.log_level);
  chip::ChipOptions options = chip_options_of(options_, settings, options_.device_id);
  options.threads = static_cast<std::uint32_t>(options_.chip_threads);
  options.kernels = kernels_.get();
  options.logger = &logger_;
  SIMPLER_ASSIGN_OR_RETURN(chip_, chip::ChipWorker::create(options));
  for (const Registered& callable : start.callables) {
    SIMPLER_RETURN_IF_ERROR(chip_->register_callable(callable.handle->index, callable.chip_bytes)
                                .context(fmt::format("init: callable '{}'", callable.handle->name)));
  }
  thread_ = std::thread([this] { serve(); });
  return Status::ok();
}

void ChipLevel::serve() {
  while (true) {
    std::shared_ptr<ChipRun> run;
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !stopping_) {
        changed_.wait(mutex_);
      }
      if (queue_.empty()) {
        return;
      }
      run = queue_.front();
    }
    Status outcome;
    {
      MutexLock lock(serving_);
      outcome = run->execute(*chip_);
    }
    {
      MutexLock lock(mutex_);
      queue_.pop_front();
      changed_.notify_all();
    }
    run->finish(std::move(outcome));
  }
}

bool ChipLevel::idle() {
  MutexLock lock(mutex_);
  return queue_.empty();
}

Status ChipLevel::add_callable(const Registered& callable, bool&) {
  MutexLock lock(serving_);
  return chip_->register_callable(callable.handle->index, callable.chip_bytes);
}

Status ChipLevel::remove_callable(const Registered& callable) {
  MutexLock lock(serving_);
  return chip_->unregister(callable.handle->index);
}

Status ChipLevel::drain(Deadline deadline) {
  MutexLock lock(mutex_);
  while (!queue_.empty()) {
    if (!changed_.wait_until(mutex_, deadline) && !queue_.empty()) {
      return timed_out(fmt::format("{} run(s) have not ended", queue_.size()));
    }
  }
  return Status::ok();
}

void ChipLevel::give_up(const Status& why) {
  MutexLock lock(mutex_);
  for (const std::shared_ptr<ChipRun>& run : queue_) {
    run->cancel(why);
  }
}

Status ChipLevel::stop(Deadline, bool) {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) {
    // Bounded: queued runs are drained or cancelled before, and the watchdog ends one whose kernel never returns.
    thread_.join();
  }
  for (const BufferState& buffer : buffers_.all()) {
    buffer->mark_released();
    buffers_.remove(buffer->descriptor.identity);
  }
  MutexLock lock(serving_);
  chip_.reset();
  return Status::ok();
}

Result<std::shared_ptr<RunHandle::State>> ChipLevel::submit_graph(const Worker::GraphFunction&, const TaskArgs*,
                                                                  const CallConfig&) {
  return wrong_type("submit: a level-2 worker takes the CallableHandle returned by Worker.register and its arguments");
}

Result<std::shared_ptr<RunHandle::State>> ChipLevel::submit_task(const callable::HandleState& callable,
                                                                 const TaskArgs& args, const CallConfig& config) {
  SIMPLER_RETURN_IF_ERROR(validate(config));
  const std::span<const Tensor> tensors = TaskArgsAccess::tensors(args);
  const std::span<const std::uint64_t> scalars = TaskArgsAccess::scalars(args);
  if (tensors.size() > kMaxChipSignature || scalars.size() > kMaxChipScalars) {
    return invalid_argument(fmt::format("submit: {} tensors and {} scalars; a chip takes {} and {}", tensors.size(),
                                        scalars.size(), kMaxChipSignature, kMaxChipScalars));
  }
  if (args.dependency_count() != 0) {
    return invalid_argument(
        "submit: add_dep names tasks of one graph; at level 2 every submit is a run of its own, and they go in order");
  }
  auto run = std::make_shared<ChipRun>(callable.index, callable.name, config);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const BufferState buffer = buffers_.find(tensors[i].buffer.identity);
    if (buffer == nullptr) {
      return not_found(
          fmt::format("tensor {}: buffer {} is not known to this worker", i, to_string(tensors[i].buffer.identity)));
    }
    const std::string differing = differing_fields(buffer->descriptor, tensors[i].buffer);
    if (!differing.empty()) {
      return invalid_argument(fmt::format("tensor {}: its descriptor differs from that of buffer {} in {}", i,
                                          to_string(buffer->descriptor.identity), differing));
    }
    SIMPLER_RETURN_IF_ERROR(run->add_tensor(buffer, tensors[i]));
  }
  run->set_scalars(scalars);
  MutexLock lock(mutex_);
  while (queue_.size() >= options_.max_pending_runs) {
    // Ends with the oldest run, which the watchdog bounds.
    changed_.wait(mutex_);
  }
  // From here on the queue holds the run, and whoever takes away what it names looks there.
  if (!callable.live.load(std::memory_order_acquire)) {
    return not_found(fmt::format("submit: callable '{}' was unregistered", callable.name));
  }
  SIMPLER_RETURN_IF_ERROR(run->check_buffers());
  run->set_id(++last_run_);
  queue_.push_back(run);
  changed_.notify_all();
  return std::static_pointer_cast<RunHandle::State>(run);
}

CanonicalIdentity ChipLevel::mint_identity() {
  MutexLock lock(mutex_);
  return {owner_, ++last_buffer_, 1, {}};
}

Result<BufferState> ChipLevel::create_buffer(std::uint64_t nbytes) {
  if (nbytes == 0) {
    return invalid_argument("create_buffer: nbytes=0; a buffer has at least 1 byte");
  }
  const CanonicalIdentity identity = mint_identity();
  SIMPLER_ASSIGN_OR_RETURN(const std::shared_ptr<memory::HostBacking> backing, store_.allocate(identity, nbytes));
  auto state = std::make_shared<Buffer::State>();
  SIMPLER_ASSIGN_OR_RETURN(state->descriptor, memory::describe(*backing, identity, AccessMode::kReadWrite));
  state->data = backing->data();
  state->keep = backing;
  state->withdraw = [backing] { return backing->withdraw(); };
  state->worker_id = registry_.owner_id();
  buffers_.add(state);
  return state;
}

Result<BufferState> ChipLevel::wrap(std::byte* data, std::uint64_t nbytes, AccessMode access,
                                    std::shared_ptr<const void> keep) {
  auto state = std::make_shared<Buffer::State>();
  state->descriptor.backend_kind = BackendKind::kForkShm;
  state->descriptor.access = access;
  state->descriptor.identity = mint_identity();
  state->descriptor.nbytes = nbytes;
  set_body_address(state->descriptor, reinterpret_cast<std::uint64_t>(data));
  SIMPLER_RETURN_IF_ERROR(validate(state->descriptor));
  state->data = data;
  state->keep = std::move(keep);
  state->worker_id = registry_.owner_id();
  buffers_.add(state);
  return state;
}

Status ChipLevel::take_away(const BufferState& buffer, const char* call) {
  MutexLock lock(mutex_);
  for (const std::shared_ptr<ChipRun>& run : queue_) {
    if (run->names(buffer->descriptor.identity)) {
      return failed_precondition(fmt::format("{}: run {} is not over and names buffer {}", call, run->id(),
                                             to_string(buffer->descriptor.identity)));
    }
  }
  if (buffer->released.load(std::memory_order_acquire)) {
    return failed_precondition(
        fmt::format("{}: buffer {} was released already", call, to_string(buffer->descriptor.identity)));
  }
  buffer->mark_given_back();
  return Status::ok();
}

Status ChipLevel::release_buffer(const BufferState& buffer) {
  if (buffers_.find(buffer->descriptor.identity) == nullptr) {
    return Status::ok();
  }
  if (buffer->owner_worker >= 0) {
    return wrong_type("release_buffer: this is memory of the chip; give it back with free");
  }
  SIMPLER_RETURN_IF_ERROR(take_away(buffer, "release_buffer"));
  buffers_.remove(buffer->descriptor.identity);
  return buffer->withdraw ? buffer->withdraw() : Status::ok();
}

Result<BufferState> ChipLevel::device_malloc(int worker, std::uint64_t nbytes) {
  if (worker != 0) {
    return out_of_range(fmt::format("worker={}: a level-2 worker has one chip, 0", worker));
  }
  if (nbytes == 0) {
    return invalid_argument("malloc: size=0; an allocation has at least 1 byte");
  }
  SIMPLER_ASSIGN_OR_RETURN(const std::uint64_t address, chip_->malloc(nbytes));
  auto state = std::make_shared<Buffer::State>();
  state->descriptor.address_space = AddressSpace::kDevice;
  state->descriptor.backend_kind = BackendKind::kDeviceMalloc;
  state->descriptor.identity = mint_identity();
  state->descriptor.nbytes = nbytes;
  set_body_address(state->descriptor, address);
  state->owner_worker = 0;
  state->worker_id = registry_.owner_id();
  buffers_.add(state);
  return state;
}

Status ChipLevel::device_free(const BufferState& buffer) {
  if (buffer->owner_worker < 0) {
    return wrong_type("free: this is host memory; give it back with release_buffer");
  }
  SIMPLER_RETURN_IF_ERROR(take_away(buffer, "free"));
  buffers_.remove(buffer->descriptor.identity);
  return chip_->free(body_address(buffer->descriptor));
}

Status ChipLevel::copy(const Buffer& device, const Buffer& host, const CopyRange& range, bool to_device) {
  if (!idle()) {
    return failed_precondition(
        fmt::format("{}: runs are in flight; wait for them first", to_device ? "copy_to" : "copy_from"));
  }
  const std::uint64_t address = body_address(device.descriptor()) + range.device_offset;
  if (to_device) {
    return chip_->copy_to(address, host.data() + range.host_offset, range.nbytes);
  }
  return chip_->copy_from(host.data() + range.host_offset, address, range.nbytes);
}

Result<std::uint64_t> ChipLevel::committed_device_memory(int worker) {
  if (worker != 0) {
    return out_of_range(fmt::format("worker={}: a level-2 worker has one chip, 0", worker));
  }
  return chip_->committed_memory();
}

std::vector<Worker::ChildStatistics> ChipLevel::statistics() const {
  const chip::ChipStatistics chip = chip_->statistics();
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return {
      {.name = "chip 0",
       .pid = ::getpid(),
       .alive = true,
       .tasks = chip.runs,
       .busy_ns = chip.busy_ns,
       .user_cpu_ns = chip.kernel_cpu_ns,
       .cpu_ns = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec)}};
}

}  // namespace simpler::worker
