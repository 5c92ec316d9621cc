#include "simpler/identity.h"

#include "base/sha256.h"

namespace simpler {

std::string to_string(const CanonicalIdentity& identity) {
  return to_hex(identity.owner_instance_id) + "/" + std::to_string(identity.buffer_id) + "." +
         std::to_string(identity.generation);
}

}  // namespace simpler
