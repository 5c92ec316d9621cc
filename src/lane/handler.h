// What serves the far end of a lane: runs tasks and answers control calls, one at a time.
//
// A chip, a native function, a Python callable and a nested worker each implement this. Neither call may throw: user
// code's exceptions become a Status (type name, message, traceback) before they get here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "simpler/status.h"
#include "wire/dispatch_line.h"
#include "wire/mailbox.h"

namespace simpler::lane {

struct Task {
  const wire::Dispatch& dispatch;
  uint32_t line;  // which line carries it, 0..depth-1
};

struct ControlCall {
  wire::ControlCommand command = wire::ControlCommand::kPing;
  std::array<uint64_t, 4> args{};
  std::span<const std::byte> payload;  // valid during the call; at most wire::kControlPayloadBytes
};

struct ControlAnswer {
  uint64_t result = 0;
  std::vector<std::byte> payload;
};

class Handler {
 public:
  virtual ~Handler() = default;

  virtual Status run(const Task& task) = 0;
  // The default answers kPing and refuses every other command.
  virtual Result<ControlAnswer> control(const ControlCall& call);
  // Nothing came for about a microsecond and the serving thread is going to wait: what was kept from one call for the
  // next, such as an interpreter's lock, is given up.
  virtual void idle() {}
};

}  // namespace simpler::lane
