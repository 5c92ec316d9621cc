#include "base/membarrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace simpler {
namespace {

bool command(int which) {
  return ::syscall(SYS_membarrier, which, 0, 0) == 0;
}

}  // namespace

bool register_membarrier() {
  return command(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
}

bool membarrier_all_registered() {
  return command(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

bool register_own_membarrier() {
  return command(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

bool membarrier_own_threads() {
  return command(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

}  // namespace simpler
