#include "memory/host_backing.h"

#include <atomic>
#include <new>
#include <unistd.h>

#include "base/check.h"
#include "base/status_macros.h"

namespace simpler::memory {
namespace {

constexpr uint64_t kSmallUnit = 128;
constexpr uint64_t kDiscardFrom = uint64_t{256} << 10;  // giving back less costs more than it brings

}  // namespace

// One object that many small buffers share.
class HostArena {
 public:
  HostArena(SharedMapping mapping) : mapping_(std::move(mapping)), spans_(mapping_.size(), kSmallUnit) {}

  // kWouldBlock when it has no room for the block.
  Result<SpanAllocator::Span> reserve(uint64_t bytes) {
    SpanAllocator::Span span = spans_.lock()->reserve(bytes);
    if (span.node == SpanAllocator::kNoSpan) return would_block("arena is full");
    Status secured = mapping_.secure(span.offset, span.bytes);
    if (!secured.is_ok()) {
      spans_.lock()->release(span.node);
      return secured;
    }
    return span;
  }
  void release(uint32_t node, uint64_t offset, uint64_t bytes) {
    if (bytes >= kDiscardFrom) mapping_.discard(offset, bytes);
    spans_.lock()->release(node);
  }

  const SharedMapping& mapping() const { return mapping_; }

 private:
  SharedMapping mapping_;
  Guarded<SpanAllocator> spans_;
};

HostBacking::HostBacking(SharedMapping mapping, uint64_t nbytes)
    : mapping_(std::move(mapping)), data_(mapping_.data()), nbytes_(nbytes), creator_(getpid()) {}

HostBacking::HostBacking(std::shared_ptr<HostArena> arena, uint32_t node, uint64_t offset, uint64_t nbytes)
    : arena_(std::move(arena)),
      node_(node),
      offset_(offset),
      data_(arena_->mapping().data() + offset + kSmallHeaderBytes),
      nbytes_(nbytes),
      creator_(getpid()) {}

HostBacking::~HostBacking() {
  if (arena_ == nullptr || creator_ != getpid()) return;
  static_cast<void>(withdraw());
  arena_->release(node_, offset_, kSmallHeaderBytes + nbytes_);
}

Result<std::string> HostBacking::body() const {
  const SharedMapping& mapping = arena_ != nullptr ? arena_->mapping() : mapping_;
  return format({creator_, mapping.fd(), mapping.inode(), arena_ != nullptr ? offset_ + kSmallHeaderBytes : 0});
}

Status HostBacking::withdraw() {
  if (arena_ == nullptr) return mapping_.withdraw();
  if (creator_ != getpid()) return wrong_process("a buffer is released by the process that made it");
  auto* header = reinterpret_cast<SmallHeader*>(data_ - kSmallHeaderBytes);
  std::atomic_ref(header->live).store(0, std::memory_order_release);  // pairs with the importer's acquire
  return Status::ok();
}

Result<std::shared_ptr<HostBacking>> HostStore::allocate(const CanonicalIdentity& identity, uint64_t nbytes,
                                                         Commit commit, const std::string& file) {
  if (nbytes == 0) return invalid_argument("a buffer of 0 bytes; it must have at least 1");
  if (nbytes <= options_.small_limit && file.empty() && commit == Commit::kSecured) {
    return allocate_small(identity, nbytes);
  }
  const SpaceProbe& probe = options_.space != nullptr ? *options_.space : system_space();
  // A sparse buffer may be larger than memory: only what is touched counts, and the machine must have some.
  SIMPLER_RETURN_IF_ERROR(
      check_space(probe.look(), commit == Commit::kSecured ? nbytes : 1, "buffer " + to_string(identity)));
  SIMPLER_ASSIGN_OR_RETURN(
      SharedMapping mapping,
      SharedMapping::create({.name = "simpler-buffer", .bytes = nbytes, .space = options_.space, .file = file}));
  if (commit == Commit::kSecured) SIMPLER_RETURN_IF_ERROR(mapping.secure(0, nbytes));
  return std::make_shared<HostBacking>(std::move(mapping), nbytes);
}

Result<std::shared_ptr<HostBacking>> HostStore::allocate_small(const CanonicalIdentity& identity, uint64_t nbytes) {
  auto arenas = arenas_.lock();
  std::shared_ptr<HostArena> arena;
  SpanAllocator::Span span;
  for (const auto& candidate : *arenas) {
    Result<SpanAllocator::Span> found = candidate->reserve(kSmallHeaderBytes + nbytes);
    if (found.ok()) {
      arena = candidate;
      span = *found;
      break;
    }
    if (found.status().code() != StatusCode::kWouldBlock) return std::move(found).status();
  }
  if (arena == nullptr) {
    SIMPLER_ASSIGN_OR_RETURN(
        SharedMapping mapping,
        SharedMapping::create({.name = "simpler-buffers", .bytes = options_.arena_bytes, .space = options_.space}));
    arena = std::make_shared<HostArena>(std::move(mapping));
    SIMPLER_ASSIGN_OR_RETURN(span, arena->reserve(kSmallHeaderBytes + nbytes));
    arenas->push_back(arena);
  }
  std::byte* place = arena->mapping().data() + span.offset;
  // Bytes of an earlier buffer must not show.
  std::memset(place, 0, kSmallHeaderBytes + nbytes);
  auto* header = new (place) SmallHeader{kSmallHeaderMagic, identity, nbytes, 0, 0};
  std::atomic_ref(header->live).store(1, std::memory_order_release);
  return std::make_shared<HostBacking>(std::move(arena), span.node, span.offset, nbytes);
}

size_t HostStore::arenas() const {
  return arenas_.lock()->size();
}

}  // namespace simpler::memory
