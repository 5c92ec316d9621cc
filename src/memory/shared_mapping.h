// One piece of shared memory: a memfd (or a file made on request) mapped at an address that children inherit.
//
// The address space is taken in full at once; bytes are secured in steps before their first touch, so that a shortage
// is a status with numbers and never a signal. A memfd is sealed against shrinking: what was mapped stays backed.
// Nothing has a name unless asked for, so nothing is left behind by a crash. A child's copy unmaps in the child only; a
// named file is removed by the process that made it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "base/unique_fd.h"
#include "memory/space.h"
#include "simpler/enums.h"
#include "simpler/status.h"

namespace simpler::memory {

inline constexpr uint64_t kSecureStep = uint64_t{2} << 20;

struct MappingOptions {
  std::string name = "simpler";       // shown in /proc/<pid>/maps
  uint64_t bytes = 0;                 // at least 1
  const SpaceProbe* space = nullptr;  // null: system_space()
  std::string file = {};              // empty: a memfd; else the path of a new file, mode 0600
};

class SharedMapping {
 public:
  static Result<SharedMapping> create(const MappingOptions& options);
  // Another process's mapping through /proc/<pid>/fd/<fd>. kNotFound when the process, the descriptor or the inode is
  // not there any more, kInvalidArgument when the object is smaller than `min_bytes`. Maps the whole object.
  static Result<SharedMapping> open_remote(pid_t pid, int fd, uint64_t inode, uint64_t min_bytes, AccessMode access);
  // The same for a descriptor that was passed; takes it.
  static Result<SharedMapping> map_descriptor(UniqueFd fd, uint64_t inode, uint64_t min_bytes, AccessMode access);

  SharedMapping() = default;
  SharedMapping(SharedMapping&& other) noexcept;
  SharedMapping& operator=(SharedMapping&& other) noexcept;
  ~SharedMapping();

  bool valid() const { return data_ != nullptr; }
  std::byte* data() const { return data_; }
  uint64_t size() const { return bytes_; }
  int fd() const { return fd_.get(); }
  uint64_t inode() const { return inode_; }

  // Makes [offset, offset + bytes) safe to touch, rounded out to pages. Looks at the room first.
  Status secure(uint64_t offset, uint64_t bytes);
  // Gives the whole pages inside the range back; they read as zero and must be secured again before use.
  void discard(uint64_t offset, uint64_t bytes);
  // From here on this process can only read the mapping. Other processes are not affected.
  Status protect_read_only();
  // Takes the page faults of writing to secured bytes now. Advice: a failure changes nothing.
  void prefault(uint64_t offset, uint64_t bytes) const;
  // Closes the descriptor (and removes a named file), so that nobody can open the object any more; the mapping stays.
  Status withdraw();
  // For a consumer: the mapping alone suffices, descriptors are scarce.
  void forget_descriptor() { fd_.reset(); }
  // Gives the bytes back. For a named file a failed removal is reported and may be retried.
  Status close();

 private:
  SharedMapping(std::byte* data, uint64_t bytes, UniqueFd fd, uint64_t inode)
      : data_(data), bytes_(bytes), fd_(std::move(fd)), inode_(inode) {}
  static Result<SharedMapping> map(UniqueFd fd, uint64_t bytes, uint64_t inode, AccessMode access);

  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
  UniqueFd fd_;
  uint64_t inode_ = 0;
  std::string name_;
  std::string file_;  // to remove on close
  pid_t creator_ = 0;
  const SpaceProbe* space_ = nullptr;
};

// Keeps a growing prefix of a range secured, kSecureStep ahead of use. Shrinks never.
class SecuredFront {
 public:
  SecuredFront() = default;
  SecuredFront(SharedMapping& mapping, uint64_t offset, uint64_t limit)
      : mapping_(&mapping), offset_(offset), limit_(limit) {}

  // Ok when the first `end` bytes of the range may be touched.
  bool covers(uint64_t end) const { return end <= secured_; }
  Status require(uint64_t end) {
    if (covers(end)) [[likely]]
      return Status::ok();
    return grow(end);
  }
  uint64_t secured() const { return secured_; }

 private:
  Status grow(uint64_t end);

  SharedMapping* mapping_ = nullptr;
  uint64_t offset_ = 0;
  uint64_t limit_ = 0;
  uint64_t secured_ = 0;
};

}  // namespace simpler::memory
