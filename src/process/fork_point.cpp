#include "process/fork_point.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <map>
#include <pthread.h>
#include <signal.h>
#include <string>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/membarrier.h"

namespace simpler::process {
namespace {

// The word that tells processes apart: random in the process that first asks, zero in every copy made by fork.
std::atomic<uint64_t>* process_word() {
  static std::atomic<uint64_t>* const word = [] {
    const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    void* memory = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SIMPLER_CHECK(memory != MAP_FAILED, errno);
    SIMPLER_CHECK(::madvise(memory, page, MADV_WIPEONFORK) == 0, errno);
    return new (memory) std::atomic<uint64_t>(0);
  }();
  return word;
}

uint64_t process_token() {
  std::atomic<uint64_t>& word = *process_word();
  uint64_t token = word.load(std::memory_order_relaxed);
  while (token == 0) {
    uint64_t fresh = 0;
    if (::getrandom(&fresh, sizeof(fresh), GRND_NONBLOCK) != sizeof(fresh)) fresh = static_cast<uint64_t>(::getpid());
    fresh |= 1;
    if (word.compare_exchange_strong(token, fresh, std::memory_order_relaxed)) token = fresh;
  }
  return token;
}

}  // namespace

ProcessMark::ProcessMark() : word_(process_word()), token_(process_token()), pid_(::getpid()) {}

Status ProcessMark::check(std::string_view object) const {
  if (is_here()) [[likely]]
    return Status::ok();
  return wrong_process(std::string(object) + " belongs to process " + std::to_string(pid_) +
                       " and cannot be used in process " + std::to_string(::getpid()) +
                       ", a copy made by fork; make a new one here");
}

struct ForkPoint::State {
  struct Participant {
    ForkRank rank;
    ForkHooks hooks;
  };
  Mutex mutex;  // held over a fork, so that the list is the same on both sides
  uint64_t next_id SIMPLER_GUARDED_BY(mutex) = 1;
  std::map<uint64_t, Participant> participants SIMPLER_GUARDED_BY(mutex);

  // Ascending rank, then in the order of registration.
  std::vector<const ForkHooks*> in_order() SIMPLER_REQUIRES(mutex) {
    std::vector<const Participant*> sorted;
    for (const auto& [id, participant] : participants) sorted.push_back(&participant);
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->rank < b->rank; });
    std::vector<const ForkHooks*> hooks;
    for (const Participant* participant : sorted) hooks.push_back(&participant->hooks);
    return hooks;
  }
};

ForkPoint::ForkPoint() : state_(new State) {}

ForkPoint& ForkPoint::of_process() {
  static ForkPoint* const point = new ForkPoint;
  return *point;
}

ForkPoint::Registration::Registration(Registration&& other) noexcept : id_(std::exchange(other.id_, 0)) {}

ForkPoint::Registration& ForkPoint::Registration::operator=(Registration&& other) noexcept {
  if (this != &other) {
    if (id_ != 0) ForkPoint::of_process().remove(id_);
    id_ = std::exchange(other.id_, 0);
  }
  return *this;
}

ForkPoint::Registration::~Registration() {
  if (id_ != 0) ForkPoint::of_process().remove(id_);
}

ForkPoint::Registration ForkPoint::add(ForkRank rank, ForkHooks hooks) {
  MutexLock held(state_->mutex);
  const uint64_t id = state_->next_id++;
  state_->participants.emplace(id, State::Participant{rank, std::move(hooks)});
  return Registration(id);
}

ForkPoint::Registration ForkPoint::add_lock(ForkRank rank, Mutex& mutex) {
  // The lock is taken in one hook and given up in another, which the analysis cannot follow.
  struct Unchecked {
    static void take(Mutex& lock) SIMPLER_NO_THREAD_SAFETY_ANALYSIS { lock.lock(); }
    static void give(Mutex& lock) SIMPLER_NO_THREAD_SAFETY_ANALYSIS { lock.unlock(); }
  };
  return add(rank, {[&mutex] { Unchecked::take(mutex); }, [&mutex] { Unchecked::give(mutex); },
                    [&mutex] { mutex.reset_after_fork(); }});
}

void ForkPoint::remove(uint64_t id) {
  MutexLock held(state_->mutex);
  state_->participants.erase(id);
}

// The list's own lock is taken first and made as new in the child, which the analysis cannot follow.
Result<pid_t> ForkPoint::fork(const std::function<void()>& in_child) SIMPLER_NO_THREAD_SAFETY_ANALYSIS {
  sigset_t everything;
  sigset_t before;
  sigfillset(&everything);
  pthread_sigmask(SIG_SETMASK, &everything, &before);

  state_->mutex.lock();
  const std::vector<const ForkHooks*> hooks = state_->in_order();
  for (const ForkHooks* hook : hooks) {
    if (hook->before) hook->before();
  }
  const pid_t pid = ::fork();
  const int error = errno;
  if (pid == 0) register_membarrier();
  std::for_each(hooks.rbegin(), hooks.rend(), [pid](const ForkHooks* hook) {
    const auto& after = pid == 0 ? hook->in_child : hook->in_parent;
    if (after) after();
  });
  if (pid == 0) {
    state_->mutex.reset_after_fork();
    if (in_child) in_child();
  } else {
    state_->mutex.unlock();
  }

  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return system_error(error, "fork");
  return pid;
}

uint32_t ForkPoint::thread_count() {
  uint32_t count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", error)) {
    static_cast<void>(entry);
    ++count;
  }
  return std::max(count, 1U);
}

}  // namespace simpler::process
