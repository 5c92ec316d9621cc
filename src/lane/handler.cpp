#include "lane/handler.h"

#include <string>

namespace simpler::lane {

Result<ControlAnswer> Handler::control(const ControlCall& call) {
  if (call.command == wire::ControlCommand::kPing) return ControlAnswer{.result = call.args[0], .payload = {}};
  return unsupported("control command " + std::to_string(static_cast<uint32_t>(call.command)) +
                     " is not served by this kind of worker");
}

}  // namespace simpler::lane
