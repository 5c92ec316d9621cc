#include "chip/backends/sim/sim_thread.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "base/check.h"
#include "chip/backends/sim/sim_cores.h"
#include "chip/type_name.h"

namespace simpler::chip::sim {
namespace {

constexpr uint32_t kRelaxedPauses = 16;   // before a waiting block gives its seat away
constexpr uint32_t kYieldedPauses = 256;  // before it starts to nap

uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return static_cast<uint64_t>(monotonic_now());
#endif
}

Nanos thread_cpu_now() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

bool pause_from_kernel(const kernel::LocalContext* context) {
  return static_cast<SimThread*>(context->runtime)->pause();
}

uint64_t pack(const device::Ticket& t) {
  return uint64_t{t.task} << 32 | uint64_t{t.block} << 16 | uint64_t{static_cast<uint32_t>(t.shape)} << 15 | t.core;
}

}  // namespace

SimThread::SimThread(SimCores& chip, uint32_t number) : chip_(chip), number_(number) {}

SimThread::~SimThread() {
  SIMPLER_CHECK(!thread_.joinable(), number_);
}

void SimThread::start() {
  // Signals are for the threads of the user; these inherit the mask.
  sigset_t all, before;
  sigfillset(&all);
  for (int fatal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP}) sigdelset(&all, fatal);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  struct Restore {
    sigset_t& mask;
    ~Restore() { pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
  } restore{before};
  thread_ = std::thread([this] { main(); });
}

void SimThread::order_drive() {
  order_.store(Order::kDrive, std::memory_order_release);
  wake(park_);
}

void SimThread::order_quit_and_join() {
  order_.store(Order::kQuit, std::memory_order_release);
  wake(park_);
  thread_.join();
}

void SimThread::detach_for_good() {
  thread_.detach();
}

Nanos SimThread::cpu_time() const {
  timespec now{};
  const clockid_t clock = cpu_clock_.load(std::memory_order_acquire);
  if (clock == -1 || ::clock_gettime(clock, &now) != 0) return 0;
  return now.tv_sec * kSecond + now.tv_nsec;
}

device::Ticket SimThread::ticket() const {
  const uint64_t word = ticket_.load(std::memory_order_relaxed);
  return device::Ticket{static_cast<uint32_t>(word >> 32), static_cast<uint32_t>(word >> 16 & 0xffff),
                        static_cast<uint32_t>(word & 0x7fff), static_cast<device::Shape>(word >> 15 & 1)};
}

void SimThread::main() {
  clockid_t clock = -1;
  if (pthread_getcpuclockid(pthread_self(), &clock) == 0) cpu_clock_.store(clock, std::memory_order_release);
  while (true) {
    // No deadline: a parked thread costs nothing, and the chip orders each of its threads to quit before it goes.
    wait(park_, chip_.policy(), Deadline::never(),
         [this] { return order_.load(std::memory_order_acquire) != Order::kNone; });
    const Order order = order_.exchange(Order::kNone, std::memory_order_acquire);
    if (order == Order::kQuit) return;
    drive();
    if (phase_of(word()) == Phase::kLost) return;
  }
}

// Drives until nothing is left for this thread, then leaves the run. It came with a seat.
void SimThread::drive() {
  scheduler_ = chip_.run().scheduler;
  device::Scheduler& scheduler = *scheduler_;
  seated_ = true;
  kernel_ticks_ = blocks_ = 0;
  const uint64_t ticks_before = ticks();
  const Nanos cpu_before = thread_cpu_now();
  word_.store(phase_word(Phase::kDriving, block_number_), std::memory_order_release);
  while (true) {
    scheduler.drive(*this);
    if (phase_of(word()) == Phase::kLost) return;
    if (seated_) chip_.leave_seat();
    seated_ = false;
    // Work that came between the last look and the giving up of the seat must not wait for nobody.
    if (scheduler.stopped() || !scheduler.runnable() || !chip_.take_seat()) break;
    seated_ = true;
  }
  const uint64_t spent = ticks() - ticks_before;
  const auto cpu = static_cast<uint64_t>(thread_cpu_now() - cpu_before);
  const double share = spent == 0 ? 0.0 : static_cast<double>(kernel_ticks_) / static_cast<double>(spent);
  chip_.account(blocks_, static_cast<uint64_t>(static_cast<double>(cpu) * share));
  word_.store(phase_word(Phase::kParked, block_number_), std::memory_order_release);
  chip_.leave_run(*this);
}

void SimThread::offer() {
  if (chip_.seat_free() && scheduler_->runnable()) chip_.start_helper();
}

bool SimThread::reattach() {
  seated_ = chip_.take_seat();
  return seated_;
}

void SimThread::fill(SimCore& core, const device::Ticket& ticket) {
  const GraphImage& image = *chip_.run().image;
  const device::TaskSlot& slot = image.slot(ticket.task);
  device::Payload& payload = core.payload;
  payload.entry = slot.entry;
  payload.local = kernel::LocalContext{.struct_size = sizeof(kernel::LocalContext),
                                       .block_idx = ticket.block,
                                       .block_num = slot.block_num,
                                       .tensor_count = slot.tensor_count,
                                       .scalar_count = slot.scalar_count,
                                       .core_id = core.id,
                                       .pause = &pause_from_kernel,
                                       .runtime = this};
  payload.global = kernel::GlobalContext{.struct_size = sizeof(kernel::GlobalContext), .sub_block_id = 0};
  std::memset(payload.args, 0, sizeof(payload.args));
  int64_t* arg = payload.args;
  const orchestration::Tensor* tensor = image.tensors() + slot.tensor_begin;
  for (uint32_t i = 0; i < slot.tensor_count; ++i) *arg++ = reinterpret_cast<int64_t>(tensor + i);
  for (uint32_t i = 0; i < slot.scalar_count; ++i) {
    *arg++ = static_cast<int64_t>(image.scalars()[slot.scalar_begin + i]);
  }
  payload.args[kernel::kLocalContextSlot] = reinterpret_cast<int64_t>(&payload.local);
  payload.args[kernel::kGlobalContextSlot] = reinterpret_cast<int64_t>(&payload.global);
}

device::Execution SimThread::execute(const device::Ticket& ticket) {
  SimCore& core = chip_.core(ticket);
  fill(core, ticket);
  ++block_number_;
  ++blocks_;
  pauses_in_block_ = 0;
  ticket_.store(pack(ticket), std::memory_order_relaxed);
  uint64_t expected = phase_word(Phase::kInKernel, block_number_);
  word_.store(expected, std::memory_order_release);

  core.line.dispatch();
  const uint64_t before = ticks();
  const uint32_t command = core.line.accept();
  const bool good = call(core.payload.entry, core.payload.args);
  core.line.finish(command);
  kernel_ticks_ += ticks() - before;

  const uint64_t driving = phase_word(Phase::kDriving, block_number_);
  bool detached = false;
  if (!word_.compare_exchange_strong(expected, driving, std::memory_order_acq_rel)) {
    detached = phase_of(expected) == Phase::kDetached &&
               word_.compare_exchange_strong(expected, driving, std::memory_order_acq_rel);
    if (!detached) return device::Execution::kLost;
    seated_ = false;
  }
  core.line.idle();
  if (!good) {
    chip_.report_throw(ticket, thrown_what_, thrown_type_);
    return device::Execution::kFailed;
  }
  return detached ? device::Execution::kDetached : device::Execution::kDone;
}

// False when the kernel threw. Touches nothing of the chip: the thread may have been lost meanwhile.
bool SimThread::call(kernel::KernelEntry entry, int64_t* args) {
  try {
    entry(args);
    return true;
  } catch (abi::__forced_unwind&) {
    throw;  // the thread is being cancelled, which nobody here does
  } catch (const std::exception& error) {
    thrown_what_ = error.what();
    thrown_type_ = type_name(typeid(error));
  } catch (...) {
    const std::type_info* thrown = abi::__cxa_current_exception_type();
    thrown_what_ = "an exception that is no std::exception";
    thrown_type_ = thrown != nullptr ? type_name(*thrown) : "unknown";
  }
  return false;
}

bool SimThread::pause() {
  pauses_.store(pauses_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const uint64_t now = word();
  if (phase_of(now) == Phase::kLost) return false;
  device::Scheduler& scheduler = *scheduler_;
  if (scheduler.stopped()) return false;
  const uint32_t count = ++pauses_in_block_;
  if (count <= kRelaxedPauses && chip_.seats() > 1) {
    internal::relax_cpu();
    return true;
  }
  uint64_t expected = phase_word(Phase::kInKernel, block_number_);
  if (phase_of(now) == Phase::kInKernel && scheduler.runnable() &&
      word_.compare_exchange_strong(expected, phase_word(Phase::kDetached, block_number_), std::memory_order_acq_rel)) {
    chip_.leave_seat();
    chip_.start_helper();
  }
  if (count <= kYieldedPauses) {
    ::sched_yield();
  } else {
    nap();
  }
  return true;
}

// What the kernel waits for is not known here, so it looks again after a while that grows to a millisecond.
void SimThread::nap() {
  const Nanos span = std::min<Nanos>((pauses_in_block_ - kYieldedPauses) * 20 * kMicrosecond, kMillisecond);
  wait(chip_.naps(), chip_.napping(), Deadline::after(span), [this] { return scheduler_->stopped(); });
}

}  // namespace simpler::chip::sim
