// Linked where StarPU is not installed.
#include "peers/peer_runtime.h"

namespace simpler::bench {

std::unique_ptr<PeerRuntime> make_starpu(const sol::Workload&) {
  return nullptr;
}

}  // namespace simpler::bench
