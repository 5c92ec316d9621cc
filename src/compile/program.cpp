// Child processes for the compiler; see program.h.
#include "compile/program.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <memory>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status_macros.h"
#include "base/unique_fd.h"

namespace simpler::compile {

namespace {

constexpr size_t kMostOutput = 256 * 1024;
constexpr size_t kOneRead = 16 * 1024;
constexpr uint32_t kMostLeftInAPipe = 64;  // reads; a pipe holds 1 MiB at most

// The spawn call's two argument objects, released together.
class SpawnSetup {
 public:
  SpawnSetup() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;
  ~SpawnSetup() {
    posix_spawnattr_destroy(&attributes_);
    posix_spawn_file_actions_destroy(&actions_);
  }

  int prepare(int output) {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int error = posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (error == 0) error = posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    if (error == 0) error = posix_spawn_file_actions_adddup2(&actions_, output, STDERR_FILENO);
    if (error == 0) error = posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
    if (error == 0) error = posix_spawnattr_setsigmask(&attributes_, &none);
    if (error == 0) error = posix_spawnattr_setsigdefault(&attributes_, &all);
    if (error == 0) error = posix_spawnattr_setpgroup(&attributes_, 0);
    if (error == 0) {
      error = posix_spawnattr_setflags(&attributes_,
                                       POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    }
    return error;
  }
  int spawn(pid_t& pid, const std::vector<std::string>& argv) {
    std::vector<char*> pointers;
    pointers.reserve(argv.size() + 1);
    for (const std::string& argument : argv) pointers.push_back(const_cast<char*>(argument.c_str()));
    pointers.push_back(nullptr);
    return posix_spawn(&pid, argv[0].c_str(), &actions_, &attributes_, pointers.data(), environ);
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

// Reads what is there. False at the end of the output.
bool read_some(int fd, std::string& output) {
  char buffer[kOneRead];
  const ssize_t count = ::read(fd, buffer, sizeof buffer);
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  const size_t room = kMostOutput - std::min(kMostOutput, output.size());
  output.append(buffer, std::min(room, static_cast<size_t>(count)));
  return count > 0;
}

// Collects output until the child is gone or has closed it. False when the deadline passed first.
bool collect(int output_fd, int pid_fd, Deadline deadline, std::string& output) {
  uint32_t reads_after_the_end = 0;
  while (true) {
    pollfd waits[2] = {{output_fd, POLLIN, 0}, {pid_fd, POLLIN, 0}};  // a negative descriptor is ignored
    const Nanos left = deadline.is_never() ? kSecond : std::max<Nanos>(0, deadline.when() - monotonic_now());
    const int timeout_ms = static_cast<int>(std::min<Nanos>(left / kMillisecond + 1, 60'000));
    const int ready = ::poll(waits, 2, timeout_ms);
    if (ready > 0 && waits[0].revents != 0) {
      if (!read_some(output_fd, output)) return true;
      if (!deadline.expired(monotonic_now())) continue;  // all output before the exit is looked at
      const bool ended = waits[1].revents != 0;
      if (ended && ++reads_after_the_end <= kMostLeftInAPipe) continue;
      return ended;  // false also for a program that never stops printing
    }
    if (ready > 0 && waits[1].revents != 0) return true;
    if (deadline.expired(monotonic_now())) return false;
  }
}

Status reap(pid_t pid, ProgramResult& result) {
  int status = 0;
  pid_t found = 0;
  do {
    found = ::waitpid(pid, &status, 0);
  } while (found < 0 && errno == EINTR);
  if (found < 0) return system_error(errno, "waiting for process " + std::to_string(pid));
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  if (WIFEXITED(status)) result.exit_status = WEXITSTATUS(status);
  return Status::ok();
}

// Waits until the child can be reaped; false at the deadline. Without a pid descriptor only the output tells.
bool wait_exit(int pid_fd, Deadline deadline) {
  if (pid_fd < 0) return true;
  std::string ignored;
  return collect(-1, pid_fd, deadline, ignored);
}

}  // namespace

Result<ProgramResult> run_program(const std::vector<std::string>& argv, Deadline deadline) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error(errno, "pipe for the output of " + argv[0]);
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  pid_t pid = 0;
  SpawnSetup setup;
  int error = setup.prepare(write_end.get());
  if (error == 0) error = setup.spawn(pid, argv);
  if (error != 0) return system_error(error, "starting " + argv[0]);
  write_end.reset();
  const UniqueFd pid_fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  ProgramResult result;
  const bool in_time =
      collect(read_end.get(), pid_fd.get(), deadline, result.output) && wait_exit(pid_fd.get(), deadline);
  // Also after a normal end: helpers that the program left behind go with it. The group exists until we reap.
  ::kill(-pid, SIGKILL);
  SIMPLER_RETURN_IF_ERROR(reap(pid, result));
  if (!in_time) return timed_out("time limit reached; process " + std::to_string(pid) + " was ended");
  return result;
}

}  // namespace simpler::compile
