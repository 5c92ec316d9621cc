// StarPU: one variable handle per cell, dependencies inferred from the order of submission (sequential consistency).
//
// One CPU worker and the submitting thread, the eager policy, one codelet per pattern of access modes. The worker is
// paused (blocked in the kernel) except while a batch executes. StarPU writes files about the machine's buses when it
// starts; they go to a folder that is removed at once, not to the user's home.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <memory>
#include <sched.h>
#include <span>
#include <starpu.h>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "harness/harness.h"
#include "peers/peer_runtime.h"

namespace simpler::bench {
namespace {

void require_zero(int status, const char* what) {
  if (status == 0) return;
  std::fprintf(stderr, "StarPU: %s failed with status %d\n", what, status);
  std::abort();
}

std::string scratch_folder() {
  std::string path = (std::filesystem::temp_directory_path() / "simpler-starpu-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) {
    std::perror(path.c_str());
    std::abort();
  }
  return path;
}

// StarPU from init to shutdown, paused from the start.
class Session {
 public:
  Session() {
    const std::string folder = scratch_folder();
    ::setenv("STARPU_HOME", folder.c_str(), 1);
    ::setenv("STARPU_SILENT", "1", 1);
    ::setenv("STARPU_WORKERS_NOBIND", "1", 1);
    starpu_conf conf;
    require_zero(starpu_conf_init(&conf), "starpu_conf_init");
    conf.precedence_over_environment_variables = 1;
    conf.sched_policy_name = "eager";
    conf.ncpus = 1;
    conf.ncuda = conf.nopencl = conf.nmic = conf.nmpi_ms = 0;
    conf.catch_signals = 0;
    cpu_set_t affinity;
    if (::sched_getaffinity(0, sizeof(affinity), &affinity) != 0) std::abort();
    require_zero(starpu_init(&conf), "starpu_init");
    if (::sched_setaffinity(0, sizeof(affinity), &affinity) != 0) std::abort();
    starpu_pause();
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  ~Session() {
    starpu_resume();
    starpu_shutdown();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
};

// What a computing body is told: its accesses, in the order of its buffers, and its number.
struct Job {
  std::span<const sol::CellAccess> accesses;
  uint32_t number = 0;
};

uint64_t& cell_of(void* buffer) {
  return *reinterpret_cast<uint64_t*>(static_cast<starpu_variable_interface*>(buffer)->ptr);
}

void compute(void* buffers[], void* argument) {
  const Job& job = *static_cast<const Job*>(argument);
  uint64_t value = 1;
  bool any = false;
  for (size_t i = 0; i < job.accesses.size(); ++i) {
    if (!job.accesses[i].reads) continue;
    any = true;
    value = 31 * value + cell_of(buffers[i]);
  }
  if (!any) value = job.number;
  for (size_t i = 0; i < job.accesses.size(); ++i) {
    if (job.accesses[i].writes) cell_of(buffers[i]) = value;
  }
}

void do_nothing(void* buffers[], void*) {
  keep(buffers);
}

starpu_data_access_mode mode_of(const sol::CellAccess& access) {
  return access.reads ? (access.writes ? STARPU_RW : STARPU_R) : STARPU_W;
}

class StarpuRuntime final : public PeerRuntime {
 public:
  explicit StarpuRuntime(const sol::Workload& workload)
      : cells_(uint64_t{2} * workload.cells_per_buffer), handle_of_cell_(cells_.size()) {
    tasks_.reserve(workload.task_count());
    for (uint32_t t = 0; t < workload.task_count(); ++t) {
      const auto accesses = workload.task(t);
      if (accesses.size() > STARPU_NMAXBUFS) std::abort();
      tasks_.push_back({kind_of(accesses), static_cast<uint32_t>(handles_.size()), Job{accesses, t}});
      for (const sol::CellAccess& access : accesses) {
        handles_.push_back(handle_of(uint64_t{access.buffer} * workload.cells_per_buffer + access.cell));
      }
    }
  }
  ~StarpuRuntime() override {
    starpu_resume();
    for (const starpu_data_handle_t handle : handle_of_cell_) {
      if (handle != nullptr) starpu_data_unregister(handle);
    }
    starpu_pause();
  }

  std::vector<uint64_t> execute() override {
    std::fill(cells_.begin(), cells_.end(), 0);
    for (Planned& task : tasks_) submit_task(task, task.kind->computing, &task.job);
    finish();
    return cells_;
  }
  double submit() override {
    const double begin = now_ns();
    for (const Planned& task : tasks_) submit_task(task, task.kind->empty, nullptr);
    const double end = now_ns();
    finish();
    return (end - begin) / static_cast<double>(tasks_.size());
  }
  double run() override {
    starpu_resume();
    const double begin = now_ns();
    for (const Planned& task : tasks_) submit_task(task, task.kind->empty, nullptr);
    require_zero(starpu_task_wait_for_all(), "starpu_task_wait_for_all");
    const double end = now_ns();
    pause();
    return (end - begin) / static_cast<double>(tasks_.size());
  }

 private:
  struct Kind {
    std::vector<starpu_data_access_mode> modes;
    starpu_codelet empty;
    starpu_codelet computing;
  };
  struct Planned {
    Kind* kind;
    uint32_t first_handle;
    Job job;
  };

  Kind* kind_of(std::span<const sol::CellAccess> accesses) {
    std::vector<starpu_data_access_mode> modes;
    for (const sol::CellAccess& access : accesses) modes.push_back(mode_of(access));
    for (Kind& kind : kinds_) {
      if (kind.modes == modes) return &kind;
    }
    Kind& kind = kinds_.emplace_back();
    for (starpu_codelet* codelet : {&kind.empty, &kind.computing}) {
      starpu_codelet_init(codelet);
      codelet->cpu_funcs[0] = codelet == &kind.empty ? do_nothing : compute;
      codelet->nbuffers = static_cast<int>(modes.size());
      std::copy(modes.begin(), modes.end(), codelet->modes);
    }
    kind.modes = std::move(modes);
    return &kind;
  }

  starpu_data_handle_t handle_of(uint64_t cell) {
    starpu_data_handle_t& handle = handle_of_cell_[cell];
    if (handle == nullptr) {
      starpu_variable_data_register(&handle, STARPU_MAIN_RAM, reinterpret_cast<uintptr_t>(&cells_[cell]),
                                    sizeof(uint64_t));
    }
    return handle;
  }

  void submit_task(const Planned& planned, starpu_codelet& codelet, Job* job) const {
    starpu_task* const task = starpu_task_create();
    task->cl = &codelet;
    task->cl_arg = job;
    // Later tasks first, as far as their dependencies allow: one that StarPU missed would show in the cells.
    if (job != nullptr) task->priority = static_cast<int>(job->number);
    for (size_t i = 0; i < planned.job.accesses.size(); ++i) task->handles[i] = handles_[planned.first_handle + i];
    require_zero(starpu_task_submit(task), "starpu_task_submit");
  }

  // Lets the worker do what was submitted, and pauses it again.
  static void finish() {
    starpu_resume();
    require_zero(starpu_task_wait_for_all(), "starpu_task_wait_for_all");
    pause();
  }
  static void pause() {
    starpu_pause();
    wait_until_other_threads_sleep();
  }

  Session session_;
  std::vector<uint64_t> cells_;
  std::vector<starpu_data_handle_t> handle_of_cell_;
  std::deque<Kind> kinds_;
  std::vector<starpu_data_handle_t> handles_;
  std::vector<Planned> tasks_;
};

}  // namespace

std::unique_ptr<PeerRuntime> make_starpu(const sol::Workload& workload) {
  return std::make_unique<StarpuRuntime>(workload);
}

}  // namespace simpler::bench
