// The printable body of a shared buffer's descriptor: `pid.fd.inode` or `pid.fd.inode.offset`, all hexadecimal.
//
// It names a descriptor of the owner's, so a process that was forked before the buffer was made, or that is no relative
// at all, finds the bytes through /proc. The inode tells a reused descriptor number from the real thing. Small buffers
// share one object; theirs has an offset, where a header that says whose bytes follow is found just before the data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "simpler/identity.h"
#include "simpler/status.h"

namespace simpler::memory {

struct BackingName {
  pid_t pid = 0;
  int fd = -1;
  uint64_t inode = 0;
  uint64_t offset = 0;  // 0: the object belongs to this buffer alone

  friend bool operator==(const BackingName&, const BackingName&) = default;
};

// Fails when the text would not fit into a descriptor's body.
Result<std::string> format(const BackingName& name);
Result<BackingName> parse_backing_name(std::string_view text);

// Lies kSmallHeaderBytes before the data of a buffer that shares its object. `live` is cleared on release.
struct SmallHeader {
  uint64_t magic;
  CanonicalIdentity identity;
  uint64_t nbytes;
  uint32_t live;
  uint32_t reserved;
};
inline constexpr uint64_t kSmallHeaderMagic = 0x5342554653484431;  // "SBUFSHD1"
inline constexpr uint64_t kSmallHeaderBytes = 128;
static_assert(sizeof(SmallHeader) == 56 && sizeof(SmallHeader) <= kSmallHeaderBytes);

}  // namespace simpler::memory
