#include "process/child_process.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mutex.h"
#include "base/thread_annotations.h"
#include "process/fork_point.h"
#include "process/poll_set.h"
#include "process/watch.h"

namespace simpler::process {
namespace {

constexpr int kThrewExitStatus = 70;

UniqueFd open_pidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

void set_action(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  ::sigaction(signal, &action, nullptr);
}

// With every signal still blocked: what arrives from now on meets the child's own dispositions.
void take_child_dispositions() {
  set_action(SIGINT, SIG_IGN);
  set_action(SIGTERM, SIG_DFL);
  set_action(SIGCHLD, SIG_DFL);
}

void unblock_child_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGCHLD);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void close_range(unsigned first, unsigned last) {
  if (first > last) return;
  if (::syscall(SYS_close_range, first, last, 0) == 0) return;
  const unsigned end = std::min(last, static_cast<unsigned>(::sysconf(_SC_OPEN_MAX)));
  for (unsigned fd = first; fd <= end; ++fd) ::close(static_cast<int>(fd));
}

void close_all_but(std::vector<int> keep) {
  std::sort(keep.begin(), keep.end());
  unsigned next = 3;
  for (const int fd : keep) {
    if (fd < static_cast<int>(next)) continue;
    close_range(next, static_cast<unsigned>(fd) - 1);
    next = static_cast<unsigned>(fd) + 1;
  }
  close_range(next, ~0U);
}

void complain(const std::string& name, const char* what) {
  const std::string line = "simpler: process '" + name + "' ended by an exception: " + what + "\n";
  const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  static_cast<void>(written);
}

// Never returns and never lets an exception into the parent's frames, which lie above on this stack.
[[noreturn]] void run_child(const ForkOptions& options, ParentLink parent,
                            const std::function<int(ChildContext&)>& body) noexcept {
  int status = kThrewExitStatus;
  try {
    unblock_child_signals();
    ::prctl(PR_SET_NAME, options.name.c_str());
    if (!fault_point(options.faults, "process.child.forked").is_ok()) ::_exit(status);
    if (options.own_group) ::setpgid(0, 0);
    std::vector<int> keep = options.keep_fds;
    const int ready = options.ready != nullptr ? options.ready->fd() : -1;
    keep.push_back(ready);
    keep.push_back(parent.pidfd.get());
    close_all_but(std::move(keep));
    ChildContext context(options.name, std::move(parent), ready);
    status = body(context);
  } catch (const std::exception& error) {
    complain(options.name, error.what());
  } catch (...) {
    complain(options.name, "not a std::exception");
  }
  ::_exit(status);
}

}  // namespace

std::string ExitInfo::describe() const {
  switch (kind) {
    case Kind::kExited:
      return "ended with exit status " + std::to_string(code);
    case Kind::kSignaled: {
      const char* text = ::sigdescr_np(code);
      return "was killed by signal " + std::to_string(code) + (text != nullptr ? std::string(" (") + text + ")" : "");
    }
    case Kind::kUnknown:
      break;
  }
  return "ended, and its exit status was collected by somebody else";
}

Status ExitInfo::to_status(std::string_view who) const {
  Status status = peer_lost(std::string(who) + " (pid " + std::to_string(pid) + ") " + describe()).with_pid(pid);
  if (kind == Kind::kExited) status = std::move(status).with_exit_status(code);
  if (kind == Kind::kSignaled) status = std::move(status).with_signal(code);
  return status;
}

Result<ReadySignal> ReadySignal::create() {
  UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.valid()) return system_error(errno, "eventfd");
  return ReadySignal(std::move(event));
}

void ReadySignal::raise() const {
  ::eventfd_write(fd(), 1);
}

void ReadySignal::clear() const {
  eventfd_t count = 0;
  ::eventfd_read(fd(), &count);
}

bool ParentLink::alive() const {
  if (!pidfd.valid()) return ::getppid() == pid;
  pollfd look{pidfd.get(), POLLIN, 0};
  return ::poll(&look, 1, 0) == 0;
}

void ChildContext::raise_ready() const {
  if (ready_fd_ >= 0) ::eventfd_write(ready_fd_, 1);
}

Result<std::shared_ptr<Watch>> ChildContext::guard_parent() {
  auto watch = Watch::of_process();
  if (watch.ok()) (*watch)->guard_parent(ParentLink{parent_.pid, std::move(parent_.pidfd)});
  return watch;
}

struct Child::Record {
  std::string name;
  pid_t pid = 0;
  UniqueFd pidfd;
  bool own_group = false;
  ProcessMark mark;
  Mutex mutex;
  std::optional<ExitInfo> exit SIMPLER_GUARDED_BY(mutex);

  std::optional<ExitInfo> collect() SIMPLER_REQUIRES(mutex) {
    if (exit) return exit;
    siginfo_t info{};
    const auto id = static_cast<id_t>(pid);
    // Looked at first and collected second: between the two the dead leader still holds the number of its group.
    if (::waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0) return std::nullopt;
    ExitInfo found{.pid = pid};
    if (info.si_pid == pid) {
      if (own_group) ::kill(-pid, SIGKILL);
      ::waitid(P_PID, id, &info, WEXITED | WNOHANG);
      found.kind = info.si_code == CLD_EXITED ? ExitInfo::Kind::kExited : ExitInfo::Kind::kSignaled;
      found.code = info.si_status;
    }
    exit = found;
    return exit;
  }
};

pid_t Child::pid() const {
  return record_->pid;
}
const std::string& Child::name() const {
  return record_->name;
}
bool Child::own_group() const {
  return record_->own_group;
}
int Child::pidfd() const {
  return record_->pidfd.get();
}

std::optional<ExitInfo> Child::exit_info() const {
  if (!record_->mark.is_here()) return std::nullopt;
  MutexLock held(record_->mutex);
  return record_->collect();
}

bool Child::send_signal(int signal) const {
  if (!record_->mark.is_here()) return false;
  MutexLock held(record_->mutex);  // while it is not collected, its number names no stranger
  return !record_->collect() && ::kill(record_->pid, signal) == 0;
}

bool Child::send_signal_to_group(int signal) const {
  if (!record_->own_group) return send_signal(signal);
  if (!record_->mark.is_here()) return false;
  MutexLock held(record_->mutex);
  return !record_->collect() && ::kill(-record_->pid, signal) == 0;
}

Result<Child> fork_child(const ForkOptions& options, const std::function<int(ChildContext&)>& body) {
  auto record = std::make_shared<Child::Record>();
  record->name = options.name;
  record->own_group = options.own_group;
  ParentLink parent{::getpid(), open_pidfd(::getpid())};
  auto forked = ForkPoint::of_process().fork(take_child_dispositions);
  if (!forked.ok()) return std::move(forked).status().context("starting process '" + options.name + "'");
  if (*forked == 0) run_child(options, std::move(parent), body);
  record->pid = *forked;
  if (options.own_group) ::setpgid(record->pid, record->pid);  // both sides, so that neither has to wait for the other
  record->pidfd = open_pidfd(record->pid);
  return Child(std::move(record));
}

Status wait_ready(std::span<const Child> children, const ReadySignal* ready, Deadline deadline,
                  const LookAtChild& look) {
  constexpr Nanos kLongestSlice = 100 * kMillisecond;
  constexpr Nanos kSliceWithoutSignal = 1 * kMillisecond;
  std::vector<bool> done(children.size(), false);
  while (true) {
    if (ready != nullptr) ready->clear();  // before looking: what is raised after this wakes the wait below
    std::string waiting;
    PollSet set;
    if (ready != nullptr) set.add(ready->fd());
    for (size_t i = 0; i < children.size(); ++i) {
      const auto exit =
          children[i].exit_info();  // before looking: a child that left its reason and ended is not "lost"
      if (!done[i]) {
        const std::optional<Status> found = look(i);
        if (found && !found->is_ok()) return *found;
        done[i] = found.has_value();
      }
      if (exit) return exit->to_status(children[i].name()).context("start-up failed");
      if (!done[i]) waiting += (waiting.empty() ? "" : ", ") + children[i].name();
      set.add(children[i].pidfd());
    }
    if (waiting.empty()) return Status::ok();
    if (deadline.expired()) return timed_out("start-up deadline passed; not ready: " + waiting);
    const Nanos slice = ready != nullptr ? kLongestSlice : kSliceWithoutSignal;
    set.wait(Deadline::earlier(deadline, Deadline::after(slice)));
  }
}

}  // namespace simpler::process
