// Whole files: read into memory, or written so that a reader sees the old content or the new one, never a part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"
#include "simpler/status.h"

namespace simpler::compile {

Result<std::vector<uint8_t>> read_file(const std::string& path);
Status write_file_atomic(const std::string& path, std::span<const std::byte> bytes);
Result<Sha256Digest> digest_of_file(const std::string& path);

// A new private folder inside `parent`, removed with everything in it when the object ends.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> create(const std::string& parent);
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Creates `path` with its parents (0700) and checks that it is ours and writable.
Status make_private_folder(const std::string& path);

}  // namespace simpler::compile
