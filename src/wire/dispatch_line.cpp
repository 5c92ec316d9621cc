#include "wire/dispatch_line.h"

namespace simpler::wire {

bool is_runnable(const Dispatch& dispatch) {
  const bool starts = dispatch.state == MailboxState::kTaskReady || dispatch.state == MailboxState::kPrepareReady;
  if (!starts || (dispatch.flags & kEntryKindMask) != static_cast<uint8_t>(EntryKind::kTask)) return false;
  const uint8_t flags = dispatch.flags & static_cast<uint8_t>(~kEntryKindMask);
  if ((flags & ~kFlagsKnown) != 0 || (flags & kFlagSkipped) != 0 || dispatch.callable == 0) return false;
  const uint32_t inline_tensors = (flags & kFlagInlineTensor) != 0 ? 1 : 0;
  if (inline_tensors > dispatch.tensors) return false;
  const uint32_t in_block = dispatch.tensors - inline_tensors + dispatch.scalars;
  return in_block == 0 || dispatch.args != 0;
}

}  // namespace simpler::wire
