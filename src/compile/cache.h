// Compiled objects on disk, by the hash of everything that decides their bytes.
//
// One entry is one file, replaced by rename: {magic, SHA-256 of the rest, included files with their digests, object}.
// The key covers source, flags and compiler; included files are known only after a compile, so the entry lists them and
// an entry whose files have changed counts as absent, like one that is damaged. Concurrent writers are harmless: the
// last rename wins with an equally valid entry. The folder may be deleted at any time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/sha256.h"
#include "simpler/status.h"

namespace simpler::compile {

struct Dependency {
  std::string path;  // absolute
  Sha256Digest digest{};
};

class Cache {
 public:
  // An empty folder name makes a cache that never holds anything.
  explicit Cache(std::string folder) : folder_(std::move(folder)) {}

  std::optional<std::vector<uint8_t>> find(const Sha256Digest& key) const;
  Status store(const Sha256Digest& key, const std::vector<Dependency>& dependencies,
               const std::vector<uint8_t>& object) const;
  std::string path_of(const Sha256Digest& key) const;

 private:
  std::string folder_;
};

// The folder to use: `wanted` or SIMPLER_CACHE_DIR as given (an unusable one is an error), else the first usable of
// $XDG_CACHE_HOME/simpler, ~/.cache/simpler, $XDG_RUNTIME_DIR/simpler and a private one under the temporary folder.
Result<std::string> choose_cache_folder(const std::string& wanted, const Environment& environment);

}  // namespace simpler::compile
