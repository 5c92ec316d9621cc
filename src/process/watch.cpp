#include "process/watch.h"

#include <cerrno>
#include <map>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "base/thread_annotations.h"
#include "base/unique_fd.h"
#include "process/fork_point.h"
#include "process/poll_set.h"

namespace simpler::process {

struct Watch::State {
  struct Entry {
    Child child;
    OnEnd on_end;
  };

  ProcessMark mark;
  UniqueFd nudge;  // written when the sets below change, so that the thread builds its poll set anew
  std::thread thread;
  Mutex mutex;
  CondVar callback_done;
  std::map<Token, Entry> children SIMPLER_GUARDED_BY(mutex);
  Token next_token SIMPLER_GUARDED_BY(mutex) = 1;
  Token running SIMPLER_GUARDED_BY(mutex) = 0;  // whose callback runs now
  bool guarding SIMPLER_GUARDED_BY(mutex) = false;
  ParentLink parent SIMPLER_GUARDED_BY(mutex);
  bool stopping SIMPLER_GUARDED_BY(mutex) = false;
  ForkPoint::Registration registration;

  // The thread inherits a full signal mask: signals are for the user's threads.
  Status start() {
    sigset_t everything;
    sigset_t before;
    sigfillset(&everything);
    ::pthread_sigmask(SIG_SETMASK, &everything, &before);
    int error = 0;
    try {
      thread = std::thread([this] { run(); });
      ::pthread_setname_np(thread.native_handle(), "simpler-watch");
    } catch (const std::system_error& failure) {
      error = failure.code().value();
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return error == 0 ? Status::ok() : system_error(error, "starting the watch thread");
  }

  void poke() const { ::eventfd_write(nudge.get(), 1); }

  PollSet poll_set() SIMPLER_EXCLUDES(mutex) {
    MutexLock held(mutex);
    PollSet set;
    set.add(nudge.get());
    if (guarding) set.add(parent.pidfd.get());
    for (const auto& [token, entry] : children) set.add(entry.child.pidfd());
    return set;
  }

  void run() {
    while (true) {
      poll_set().wait(Deadline::never());
      eventfd_t changes = 0;
      ::eventfd_read(nudge.get(), &changes);
      {
        MutexLock held(mutex);
        if (stopping) return;
        if (guarding && !parent.alive()) follow_parent();
      }
      report_ended();
    }
  }

  // Nobody is left to report to: whatever depends on this process goes, and then this process.
  [[noreturn]] void follow_parent() SIMPLER_REQUIRES(mutex) {
    for (const auto& [token, entry] : children) entry.child.send_signal_to_group(SIGKILL);
    ::_exit(kOrphanedExitStatus);
  }

  void report_ended() SIMPLER_EXCLUDES(mutex) {
    std::vector<std::pair<Token, ExitInfo>> ended;
    {
      MutexLock held(mutex);
      for (const auto& [token, entry] : children) {
        if (const auto info = entry.child.exit_info()) ended.emplace_back(token, *info);
      }
    }
    for (const auto& [token, info] : ended) {
      OnEnd on_end;
      {
        MutexLock held(mutex);
        const auto found = children.find(token);
        if (found == children.end()) continue;
        on_end = std::move(found->second.on_end);
        children.erase(found);
        running = token;
      }
      if (on_end) on_end(info);
      MutexLock held(mutex);
      running = 0;
      callback_done.notify_all();
    }
  }
};

Watch::Watch() : state_(std::make_unique<State>()) {}

Result<std::shared_ptr<Watch>> Watch::of_process() {
  struct Registry {
    Mutex mutex;
    std::weak_ptr<Watch> current SIMPLER_GUARDED_BY(mutex);
    ForkPoint::Registration registration = ForkPoint::of_process().add_lock(ForkRank::kWatch, mutex);
  };
  static Registry* const registry = new Registry;  // lives as long as the process

  const auto running = [&]() SIMPLER_REQUIRES(registry->mutex) -> std::shared_ptr<Watch> {
    auto current = registry->current.lock();
    return current && current->state_->mark.is_here() ? current : nullptr;
  };
  {
    MutexLock held(registry->mutex);
    if (auto found = running()) return found;
  }
  // Registered with the fork point while no registered lock is held; whoever comes second drops its own.
  std::shared_ptr<Watch> watch(new Watch);
  State& state = *watch->state_;
  state.nudge.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!state.nudge.valid()) return system_error(errno, "eventfd of the watch thread");
  state.registration = ForkPoint::of_process().add_lock(ForkRank::kWatch, state.mutex);

  MutexLock held(registry->mutex);
  if (auto found = running()) return found;
  SIMPLER_RETURN_IF_ERROR(state.start());
  registry->current = watch;
  return watch;
}

Watch::~Watch() {
  if (!state_->mark.is_here()) {
    static_cast<void>(state_.release());  // its thread and its descriptors are another process's
    return;
  }
  if (!state_->thread.joinable()) return;
  SIMPLER_CHECK(std::this_thread::get_id() != state_->thread.get_id(),
                "the watch was given up by one of its own callbacks");
  {
    MutexLock held(state_->mutex);
    state_->stopping = true;
  }
  state_->poke();
  state_->thread.join();
}

Watch::Token Watch::add_child(Child child, OnEnd on_end) {
  MutexLock held(state_->mutex);
  const Token token = state_->next_token++;
  state_->children.emplace(token, State::Entry{std::move(child), std::move(on_end)});
  state_->poke();
  return token;
}

void Watch::remove_child(Token token) {
  if (!state_->mark.is_here()) return;
  OnEnd dropped;  // destroyed after the lock is given up
  MutexLock held(state_->mutex);
  if (const auto found = state_->children.find(token); found != state_->children.end()) {
    dropped = std::move(found->second.on_end);
    state_->children.erase(found);
    state_->poke();
  }
  if (std::this_thread::get_id() == state_->thread.get_id()) return;
  while (state_->running == token) state_->callback_done.wait(state_->mutex);
}

void Watch::guard_parent(ParentLink parent) {
  MutexLock held(state_->mutex);
  state_->parent = std::move(parent);
  state_->guarding = true;
  state_->poke();
}

}  // namespace simpler::process
