#include "wire/mailbox.h"

#include "base/check.h"

namespace simpler::wire {

void initialise(Mailbox& mailbox, uint32_t depth, uint32_t incarnation) {
  SIMPLER_CHECK(depth >= 1 && depth <= kMaxLines, depth);
  mailbox.header.version = kMailboxVersion;
  mailbox.header.depth = depth;
  mailbox.header.incarnation = incarnation;
  mailbox.header.magic = kMailboxMagic;
}

Status validate(const MailboxHeader& header) {
  if (header.magic != kMailboxMagic) return corrupt("mailbox: the header's magic is wrong");
  if (header.version != kMailboxVersion) {
    return corrupt("mailbox: version " + std::to_string(header.version) + ", this side speaks " +
                   std::to_string(kMailboxVersion));
  }
  if (header.depth == 0 || header.depth > kMaxLines) {
    return corrupt("mailbox: depth " + std::to_string(header.depth) + ", 1 to 32 are possible");
  }
  return Status::ok();
}

}  // namespace simpler::wire
