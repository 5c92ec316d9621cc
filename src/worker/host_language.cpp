#include "worker/host_language.h"

#include <utility>

#include "worker/chip_level.h"
#include "worker/raise.h"
#include "worker/run_state.h"
#include "worker/worker_impl.h"

namespace simpler {

void notify_done(const RunHandle& run, std::function<void()> callback) {
  if (!run.valid()) {
    worker::raise(failed_precondition("this RunHandle names no run; use what submit returned"));
  }
  run.state()->on_done(std::move(callback));
}

Buffer find_host_buffer(Worker& target, const std::byte* data, std::uint64_t nbytes) {
  const auto lease = target.impl().enter("make_tensor_arg");
  return Buffer(target.impl().level->buffers().find_address(data, nbytes));
}

Buffer wrap_host_memory(Worker& target, std::byte* data, std::uint64_t nbytes, AccessMode access,
                        std::shared_ptr<const void> keep) {
  const auto lease = target.impl().enter("make_tensor_arg");
  auto* const chip = dynamic_cast<worker::ChipLevel*>(target.impl().level.get());
  if (chip == nullptr) {
    worker::raise(wrong_type("memory of this process is not visible to children; put it into create_buffer"));
  }
  return Buffer(worker::unwrap(chip->wrap(data, nbytes, access, std::move(keep))));
}

}  // namespace simpler
