#include "trace/recorder.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

#include "base/units.h"

namespace simpler::trace {
namespace {

// The calling thread's ring in one recorder; a thread that alternates between recorders takes a ring each time.
struct CachedRing {
  uint64_t incarnation = 0;
  Ring ring;
  std::string name;
};
thread_local CachedRing cached_ring;

std::atomic<uint64_t>& incarnations() {
  static std::atomic<uint64_t> count{
      0};        // only ever counts up; a fork copies it, and the child's next one differs from
  return count;  // every one that it inherited
}

uint64_t next_incarnation() {
  return incarnations().fetch_add(1, std::memory_order_relaxed) + 1;
}

template <size_t N>
void put_text(std::array<char, N>& out, std::string_view text) {
  const size_t length = std::min(text.size(), N - 1);
  std::copy_n(text.begin(), length, out.begin());
  out[length] = '\0';
}

template <size_t N>
std::string get_text(const std::array<char, N>& text) {
  return std::string(text.begin(), std::find(text.begin(), text.end(), '\0'));
}

}  // namespace

size_t Recorder::bytes_for(const RecorderOptions& options) {
  return align_up(sizeof(Shared), 4096) + options.threads * align_up(Ring::bytes(options.events_per_thread), 4096);
}

Result<std::unique_ptr<Recorder>> Recorder::create(const RecorderOptions& options) {
  if (options.threads == 0 || options.threads > 65536) {
    return invalid_argument("trace recorder for " + std::to_string(options.threads) +
                            " threads, 1 to 65536 are possible");
  }
  if (!std::has_single_bit(options.events_per_thread) || options.events_per_thread > (1U << 24)) {
    return invalid_argument("trace rings of " + std::to_string(options.events_per_thread) +
                            " events, a power of two up to 16777216 is needed");
  }
  const size_t bytes = bytes_for(options);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return resource_exhausted("no memory of " + format_bytes(bytes) +
                              " for traces: " + std::string(system_error(errno, "mmap").message()));
  }
  return std::unique_ptr<Recorder>(new Recorder(options, static_cast<std::byte*>(memory), bytes));
}

Recorder::Recorder(const RecorderOptions& options, std::byte* memory, size_t bytes)
    : options_(options),
      shared_(new (memory) Shared),
      memory_(memory),
      bytes_(bytes),
      incarnation_(next_incarnation()) {
  shared_->names.store(1, std::memory_order_relaxed);
}

Recorder::~Recorder() {
  ::munmap(memory_, bytes_);
}

Ring Recorder::ring(uint32_t index) const {
  std::byte* const first = memory_ + align_up(sizeof(Shared), 4096);
  return {first + index * align_up(Ring::bytes(options_.events_per_thread), 4096), options_.events_per_thread};
}

NameId Recorder::name(std::string_view text) {
  if (!maker_) return {};
  text = text.substr(0, kNameBytes - 1);
  MutexLock held(names_mutex_);
  const uint32_t count = shared_->names.load(std::memory_order_relaxed);
  for (uint32_t id = 1; id < count; ++id) {
    if (text == shared_->text[id]) return {id};
  }
  if (count == kNames) return {};
  std::copy(text.begin(), text.end(), shared_->text[count]);
  shared_->names.store(count + 1, std::memory_order_release);
  return {count};
}

void Recorder::after_fork_in_child(std::string_view process_name) {
  incarnation_ = next_incarnation();
  options_.process_name = process_name;
  maker_ = false;
  cached_ring.name.clear();
}

void Recorder::name_thread(std::string_view text) {
  cached_ring.name = text;
}

Ring Recorder::take_ring() {
  uint32_t index = shared_->rings_taken.load(std::memory_order_relaxed);
  do {
    if (index == options_.threads) {
      shared_->refused.fetch_add(1, std::memory_order_relaxed);
      return {};
    }
  } while (!shared_->rings_taken.compare_exchange_weak(index, index + 1, std::memory_order_relaxed));
  const Ring taken = ring(index);
  RingHeader& header = taken.header();
  header.tid = static_cast<uint32_t>(::gettid());
  put_text(header.process_name, options_.process_name);
  put_text(header.thread_name, cached_ring.name);
  header.pid.store(static_cast<uint32_t>(::getpid()), std::memory_order_release);
  return taken;
}

void Recorder::record(const Event& event) {
  if (cached_ring.incarnation != incarnation_) {
    cached_ring.ring = take_ring();
    cached_ring.incarnation = incarnation_;
  }
  if (cached_ring.ring.valid()) cached_ring.ring.push(event);
}

Snapshot Recorder::snapshot() const {
  Snapshot out;
  const uint32_t names = shared_->names.load(std::memory_order_acquire);
  out.names.emplace_back();
  for (uint32_t id = 1; id < names; ++id) out.names.emplace_back(shared_->text[id]);
  out.refused_threads = shared_->refused.load(std::memory_order_relaxed);
  const uint32_t taken = shared_->rings_taken.load(std::memory_order_relaxed);
  for (uint32_t index = 0; index < taken; ++index) {
    const Ring one = ring(index);
    const uint32_t pid = one.header().pid.load(std::memory_order_acquire);
    if (pid == 0) continue;  // taken this moment
    Track track;
    track.pid = pid;
    track.tid = one.header().tid;
    track.process_name = get_text(one.header().process_name);
    track.thread_name = get_text(one.header().thread_name);
    track.lost = one.read(track.events);
    for (Event& event : track.events) {
      if (event.name.value >= out.names.size()) event.name = {};
    }
    out.tracks.push_back(std::move(track));
  }
  return out;
}

}  // namespace simpler::trace
