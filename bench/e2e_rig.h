// An engine with its driver and one mailbox child in a process of its own, as entry 11 of docs/performance.md takes it.
//
// The child has an empty body, or one that computes the cells of a workload. It is forked by the constructor: make a
// rig before anything starts threads that the child should not have known.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/wake_word.h"
#include "engine/driver.h"
#include "engine_rig.h"
#include "harness/harness.h"
#include "lane/mailbox_child.h"
#include "lane/mailbox_parent.h"
#include "sol/sol_process.h"
#include "yardsticks/peer.h"

namespace simpler::bench {

inline constexpr uint16_t kEmptyBody = 1;
inline constexpr uint16_t kReadsThenWrites = 2;  // the last tensor is written
inline constexpr uint16_t kWritesOnly = 3;
inline constexpr uint16_t kUpdates = 4;  // one tensor, read and written

struct SharedPart {
  wire::Mailbox mailbox;
  WakeWord doorbell;
  uint64_t cells[2 * sol::Child::kCellsPerBuffer];
};

// Tasks number themselves by a scalar-free convention: a task without inputs writes the count of tasks before it.
class CellHandler final : public lane::Handler {
 public:
  CellHandler(SharedPart& shared, const memory::ArgsArena& arena, uint32_t first_buffer)
      : shared_(shared), arena_(arena), first_buffer_(first_buffer) {}
  Status run(const lane::Task& task) override {
    const wire::Dispatch& line = task.dispatch;
    if (line.callable == kEmptyBody) {
      keep(line.slot);
      return Status::ok();
    }
    const wire::TensorRef* tensors = (line.flags & wire::kFlagInlineTensor) != 0
                                         ? &line.inline_tensor
                                         : reinterpret_cast<const wire::TensorRef*>(arena_.at(line.args));
    uint64_t value = 1;
    const uint32_t inputs = line.callable == kUpdates ? 1U : line.callable == kWritesOnly ? 0U : line.tensors - 1U;
    for (uint32_t i = 0; i < inputs; ++i) value = 31 * value + cell(tensors[i]);
    if (inputs == 0) value = tensors[0].byte_offset / 8;
    cell(tensors[line.tensors - 1U]) = value;
    return Status::ok();
  }

 private:
  uint64_t& cell(const wire::TensorRef& ref) {
    return shared_.cells[(ref.buffer == first_buffer_ ? 0 : 1) * sol::Child::kCellsPerBuffer + ref.byte_offset / 8];
  }
  SharedPart& shared_;
  const memory::ArgsArena& arena_;
  uint32_t first_buffer_;
};

// What else runs on the machine is noise to both arms alike, and the yardstick does not give way either: nor do we.
inline WakeOptions wake_options() {
  return {.runnable_threads = 2, .bad_yield = kSecond};
}

class E2eRig {
 public:
  explicit E2eRig(engine::DriverOptions options = {})
      : tables_(require(memory::SharedTables::create())),
        arena_(require(memory::ArgsArena::create({.slots = 16384}))),
        policy_(wake_options()) {
    wire::initialise(shared_->mailbox, wire::kMaxLines, 0);
    lane_ = std::make_unique<lane::MailboxParent>(lane::LaneInfo{.worker_id = 0}, shared_->mailbox);
    for (auto& buffer : buffers_) {
      BufferDescriptor descriptor;
      descriptor.identity = tables_->mint_identity();
      descriptor.nbytes = uint64_t{sol::Child::kCellsPerBuffer} * 8;
      set_body_address(descriptor, 0x1000);
      buffer = require(tables_->put_buffer(descriptor));
      cell_ = tables_->intern_layout(
          require(make_tensor(descriptor, std::vector<uint32_t>{1}, DataType::kInt64, std::vector<uint32_t>{1}, 0)));
    }
    pid_ = fork_child();
    driver_ = std::make_unique<engine::Driver>(options, *tables_, *arena_, nullptr, shared_->doorbell, policy_, clock_);
    require(driver_->add_lane(*lane_));
    driver_->start();
  }
  ~E2eRig() {
    driver_->stop();
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  Prepared prepare(const sol::Workload& workload) const {
    Prepared prepared;
    for (uint32_t t = 0; t < workload.task_count(); ++t) {
      auto& tensors = prepared.tensors.emplace_back();
      auto& tags = prepared.tags.emplace_back();
      auto& yard = prepared.sol.emplace_back();
      for (const sol::CellAccess& access : workload.task(t)) {
        const memory::BufferRef& buffer = buffers_[access.buffer];
        tensors.push_back({buffer.index, buffer.generation, cell_, 0, uint64_t{access.cell} * 8});
        tags.push_back(access.reads ? (access.writes ? TensorArgType::kInout : TensorArgType::kInput)
                                    : TensorArgType::kOutput);
        yard.push_back({(uint64_t{access.buffer} << 32) | access.cell, uint64_t{access.cell} * 8,
                        access.reads ? (access.writes ? sol::Mode::kInOut : sol::Mode::kIn) : sol::Mode::kOut, cell_});
      }
    }
    return prepared;
  }

  // One run of the whole workload, until its waiter has it.
  void run(const Prepared& prepared, uint16_t callable) {
    const engine::RunRef run = build(prepared, callable);
    require(driver_->wait(run, Deadline::never()));
    driver_->release(run);
  }
  // ns for each task of a run that was not complete when its graph was: nobody submits meanwhile.
  double rest_of_run(const Prepared& prepared, uint16_t callable) {
    const uint64_t before = driver_->counters().completed;
    const engine::RunRef run = build(prepared, callable);
    const uint64_t early = driver_->counters().completed - before;
    const double begin = now_ns();
    require(driver_->wait(run, Deadline::never()));
    const double end = now_ns();
    driver_->release(run);
    return (end - begin) / static_cast<double>(prepared.tensors.size() - early);
  }
  uint64_t* cells() { return shared_->cells; }

 private:
  engine::RunRef build(const Prepared& prepared, uint16_t callable) {
    const engine::RunRef run = require(driver_->begin_run(Deadline::never()));
    for (size_t t = 0; t < prepared.tensors.size(); ++t) {
      const engine::MemberArgs member{prepared.tensors[t], prepared.tags[t], {}, 0};
      engine::TaskRequest request;
      request.callable = callable;
      request.members = {&member, 1};
      require(driver_->submit(run, request).status());
    }
    require(driver_->close_run(run));
    return run;
  }
  pid_t fork_child() {
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) std::abort();
    if (pid > 0) return pid;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(0);
    WakePolicy policy(wake_options());
    pin_to_cpu(1);
    CellHandler handler(*shared_, *arena_, buffers_[0].index);
    lane::MailboxChild child(shared_->mailbox, shared_->doorbell, policy);
    ::_exit(child.serve(handler).is_ok() ? 0 : 1);
  }

  Shared<SharedPart> shared_;
  std::unique_ptr<memory::SharedTables> tables_;
  std::unique_ptr<memory::ArgsArena> arena_;
  WakePolicy policy_;
  SteadyClock clock_;
  std::unique_ptr<lane::MailboxParent> lane_;
  std::array<memory::BufferRef, 2> buffers_;
  uint32_t cell_ = 0;
  pid_t pid_ = 0;
  std::unique_ptr<engine::Driver> driver_;
};

inline uint16_t checking_body(const std::string& workload) {
  if (workload == "indep") return kWritesOnly;
  return workload == "chain" ? kUpdates : kReadsThenWrites;
}

inline bool cells_match(const sol::Workload& workload, const uint64_t* cells) {
  const std::vector<uint64_t> expected = sol::serial_cells(workload);
  for (uint32_t buffer = 0; buffer < 2; ++buffer) {
    for (uint32_t cell = 0; cell < workload.cells_per_buffer; ++cell) {
      const uint64_t found = cells[uint64_t{buffer} * sol::Child::kCellsPerBuffer + cell];
      if (found != expected[uint64_t{buffer} * workload.cells_per_buffer + cell]) return false;
    }
  }
  return true;
}

}  // namespace simpler::bench
