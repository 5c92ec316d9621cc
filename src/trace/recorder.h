// Recorder: takes events from every thread of every process of a tree, and costs one load when it is off.
//
// Made by the process at the top before it forks. Its memory is shared, so what a child recorded can be read by the
// parent also when the child was killed. Each thread takes a ring of its own at its first event; when no ring is free
// its events are dropped and counted. Switching on and off takes effect in all processes.
//
//   trace::Span span(recorder, submit_name, slot);     // null recorder: nothing
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/mutex.h"
#include "simpler/status.h"
#include "trace/event.h"
#include "trace/ring.h"
#include "trace/snapshot.h"

namespace simpler::trace {

struct RecorderOptions {
  uint32_t threads = 64;               // rings, in all processes together
  uint32_t events_per_thread = 16384;  // a power of two; memory is touched only as events come
  std::string process_name = "simpler";
};

class Recorder {
 public:
  // kInvalidArgument for impossible options, kResourceExhausted when there is no address space. Off until start().
  static Result<std::unique_ptr<Recorder>> create(const RecorderOptions& options = {});
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  bool on() const { return shared_->on.load(std::memory_order_relaxed); }
  void start() { shared_->on.store(true, std::memory_order_relaxed); }
  void stop() { shared_->on.store(false, std::memory_order_relaxed); }

  // The id of a name of up to 63 bytes (longer ones are cut); the same name gives the same id. Only in the process that
  // made the recorder; children know the names given at any time. NameId{0} when all 1,023 are taken, or in a child.
  NameId name(std::string_view text);

  // In a forked child, first thing: its threads take rings of their own under this process name.
  void after_fork_in_child(std::string_view process_name);
  // Shown for the calling thread; before its first event.
  void name_thread(std::string_view text);

  // Any thread; the events of one thread keep their order.
  void instant(NameId name, uint64_t arg = 0) {
    if (on()) record({.at = monotonic_now(), .name = name, .kind = EventKind::kInstant, .arg = arg});
  }
  void counter(NameId name, int64_t value) {
    if (on()) record({.at = monotonic_now(), .extent = value, .name = name, .kind = EventKind::kCounter});
  }
  void span(NameId name, Nanos begin, Nanos end, uint64_t arg = 0) {
    if (on()) record({.at = begin, .extent = end - begin, .name = name, .kind = EventKind::kSpan, .arg = arg});
  }

  // What all processes have recorded so far. Any process of the tree, also while others record.
  Snapshot snapshot() const;

 private:
  static constexpr uint32_t kNames = 1024;
  static constexpr size_t kNameBytes = 64;

  // At the head of the shared memory, which starts as zeros.
  struct Shared {
    std::atomic<bool> on;
    std::atomic<uint32_t> rings_taken;
    std::atomic<uint64_t> refused;
    alignas(64) std::atomic<uint32_t> names;  // release after the text is written; the maker is the only writer
    char text[kNames][kNameBytes];
  };

  Recorder(const RecorderOptions& options, std::byte* memory, size_t bytes);
  static size_t bytes_for(const RecorderOptions& options);
  Ring ring(uint32_t index) const;
  Ring take_ring();
  void record(const Event& event);

  RecorderOptions options_;
  Shared* shared_;
  std::byte* memory_;
  size_t bytes_;
  uint64_t incarnation_;  // tells this recorder in this process from every other; compared with a thread's cached ring
  bool maker_ = true;
  Mutex names_mutex_;
};

// A span from construction to destruction. Nothing is read or written when tracing is off at its start.
class Span {
 public:
  Span(Recorder* recorder, NameId name, uint64_t arg = 0)
      : recorder_(recorder != nullptr && recorder->on() ? recorder : nullptr), name_(name), arg_(arg) {
    if (recorder_ != nullptr) begin_ = monotonic_now();
  }
  ~Span() {
    if (recorder_ != nullptr) recorder_->span(name_, begin_, monotonic_now(), arg_);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  Recorder* recorder_;
  NameId name_;
  uint64_t arg_;
  Nanos begin_ = 0;
};

}  // namespace simpler::trace
