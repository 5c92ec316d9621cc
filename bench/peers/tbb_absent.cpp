// Linked where oneTBB is not installed.
#include "peers/peer_runtime.h"

namespace simpler::bench {

std::unique_ptr<PeerRuntime> make_tbb(const sol::Workload&) {
  return nullptr;
}

}  // namespace simpler::bench
