// Speed of light: the single-threaded prototype that the engine's figures are compared with.
//
// A yardstick, never part of the product: exact keys only, no checks, no bounds, no failures. One 64-byte line per
// task, one 64-byte line per key, ids from bump pools, epoch-stamped so that a reset is one increment. IN takes an edge
// from the last writer; OUT takes edges from the readers, or from the last writer where nobody has read since.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <sys/mman.h>

namespace simpler::sol {

enum class Mode : uint32_t { kIn, kOut, kInOut };

struct TensorArg {  // what the child reads: 24 bytes, copied into the argument arena
  uint64_t key;
  uint64_t offset;
  Mode mode;
  uint32_t layout;
};

inline constexpr uint32_t kNone = 0xFFFFFFFF;

struct alignas(64) Task {
  uint32_t fan_in;
  uint32_t successor_count;
  uint32_t mark;  // the last consumer that took an edge from this task: filters duplicates
  uint32_t done;
  uint32_t successors[6];
  uint32_t spill;  // first chunk of further successors
  uint32_t spill_tail;
  uint64_t arguments;
  uint32_t tensors;
  uint32_t callable;
};

struct alignas(64) KeyLine {
  uint64_t key;
  uint32_t epoch;
  uint32_t writer;
  uint32_t reader_count;
  uint32_t readers[7];
  uint32_t spill;
  uint32_t spill_tail;
};

struct alignas(64) Chunk {
  uint32_t next;
  uint32_t pad;
  uint32_t ids[14];
};

template <class T>
T* map_array(size_t count) {
  void* memory =
      mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  madvise(memory, count * sizeof(T), MADV_HUGEPAGE);
  return static_cast<T*>(memory);
}

class Graph {
 public:
  Graph(uint32_t max_tasks, uint32_t key_lines, uint64_t argument_bytes)
      : mask_(key_lines - 1),
        max_tasks_(max_tasks),
        argument_bytes_(argument_bytes),
        tasks_(map_array<Task>(max_tasks)),
        keys_(map_array<KeyLine>(key_lines)),
        chunks_(map_array<Chunk>(uint64_t{max_tasks} * 4)),
        ready_(map_array<uint32_t>(max_tasks)),
        arguments_(map_array<std::byte>(argument_bytes)) {}
  ~Graph() {
    munmap(tasks_, max_tasks_ * sizeof(Task));
    munmap(keys_, (uint64_t{mask_} + 1) * sizeof(KeyLine));
    munmap(chunks_, uint64_t{max_tasks_} * 4 * sizeof(Chunk));
    munmap(ready_, max_tasks_ * sizeof(uint32_t));
    munmap(arguments_, argument_bytes_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void reset() {
    ++epoch_;
    task_count_ = chunk_count_ = ready_head_ = ready_tail_ = 0;
    argument_head_ = 0;
  }

  uint32_t submit(uint32_t callable, std::span<const TensorArg> tensors) {
    const uint32_t id = task_count_++;
    Task& task = tasks_[id];
    task.fan_in = task.successor_count = task.done = 0;
    task.mark = kNone;
    task.callable = callable;
    task.tensors = static_cast<uint32_t>(tensors.size());
    task.arguments = argument_head_;
    std::memcpy(arguments_ + argument_head_, tensors.data(), tensors.size_bytes());
    argument_head_ += tensors.size_bytes();
    for (const TensorArg& tensor : tensors) access(id, tensor);
    if (task.fan_in == 0) ready_[ready_tail_++] = id;
    return id;
  }

  bool pop_ready(uint32_t* id) {
    if (ready_head_ == ready_tail_) return false;
    *id = ready_[ready_head_++];
    return true;
  }

  void complete(uint32_t id) {
    Task& task = tasks_[id];
    task.done = 1;
    const uint32_t inline_count = task.successor_count < 6 ? task.successor_count : 6;
    for (uint32_t i = 0; i < inline_count; ++i) release(task.successors[i]);
    uint32_t rest = task.successor_count - inline_count;
    for (uint32_t chunk = task.spill; rest > 0; chunk = chunks_[chunk].next) {
      const uint32_t here = rest < 14 ? rest : 14;
      for (uint32_t i = 0; i < here; ++i) release(chunks_[chunk].ids[i]);
      rest -= here;
    }
  }

  const Task& task(uint32_t id) const { return tasks_[id]; }
  const TensorArg* arguments(uint32_t id) const {
    return reinterpret_cast<const TensorArg*>(arguments_ + tasks_[id].arguments);
  }
  uint32_t task_count() const { return task_count_; }

 private:
  static uint64_t hash(uint64_t key) {
    key *= 0x9E3779B97F4A7C15u;
    return key ^ (key >> 32);
  }

  KeyLine& line_of(uint64_t key) {
    for (uint64_t at = hash(key) & mask_;; at = (at + 1) & mask_) {
      KeyLine& line = keys_[at];
      if (line.epoch == epoch_ && line.key == key) return line;
      if (line.epoch != epoch_) {
        line.epoch = epoch_;
        line.key = key;
        line.writer = kNone;
        line.reader_count = 0;
        return line;
      }
    }
  }

  void access(uint32_t id, const TensorArg& tensor) {
    KeyLine& line = line_of(tensor.key);
    if (tensor.mode == Mode::kIn) {
      if (line.writer != kNone) edge(line.writer, id);
      append_reader(line, id);
      return;
    }
    if (line.reader_count == 0) {
      if (line.writer != kNone) edge(line.writer, id);
    } else {
      const uint32_t inline_count = line.reader_count < 7 ? line.reader_count : 7;
      for (uint32_t i = 0; i < inline_count; ++i) edge(line.readers[i], id);
      uint32_t rest = line.reader_count - inline_count;
      for (uint32_t chunk = line.spill; rest > 0; chunk = chunks_[chunk].next) {
        const uint32_t here = rest < 14 ? rest : 14;
        for (uint32_t i = 0; i < here; ++i) edge(chunks_[chunk].ids[i], id);
        rest -= here;
      }
      line.reader_count = 0;
    }
    line.writer = id;
  }

  void append_reader(KeyLine& line, uint32_t id) {
    const uint32_t count = line.reader_count++;
    if (count < 7) {
      line.readers[count] = id;
      return;
    }
    append_spilled(&line.spill, &line.spill_tail, count - 7, id);
  }

  void edge(uint32_t producer, uint32_t consumer) {
    Task& from = tasks_[producer];
    if (from.done != 0 || from.mark == consumer || producer == consumer) return;
    from.mark = consumer;
    ++tasks_[consumer].fan_in;
    const uint32_t count = from.successor_count++;
    if (count < 6) {
      from.successors[count] = consumer;
      return;
    }
    append_spilled(&from.spill, &from.spill_tail, count - 6, consumer);
  }

  void append_spilled(uint32_t* first, uint32_t* tail, uint32_t spilled, uint32_t id) {
    if (spilled % 14 == 0) {
      const uint32_t fresh = chunk_count_++;
      if (spilled == 0) {
        *first = fresh;
      } else {
        chunks_[*tail].next = fresh;
      }
      *tail = fresh;
    }
    chunks_[*tail].ids[spilled % 14] = id;
  }

  void release(uint32_t id) {
    if (--tasks_[id].fan_in == 0) ready_[ready_tail_++] = id;
  }

  uint32_t mask_, max_tasks_;
  uint64_t argument_bytes_;
  Task* tasks_;
  KeyLine* keys_;
  Chunk* chunks_;
  uint32_t* ready_;
  std::byte* arguments_;
  uint32_t epoch_ = 1, task_count_ = 0, chunk_count_ = 0, ready_head_ = 0, ready_tail_ = 0;
  uint64_t argument_head_ = 0;
};

}  // namespace simpler::sol
