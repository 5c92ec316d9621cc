// File helpers of the compiler driver; see files.h.
#include "compile/files.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status_macros.h"
#include "base/unique_fd.h"

namespace simpler::compile {

namespace fs = std::filesystem;

Result<std::vector<uint8_t>> read_file(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return system_error(errno, "opening " + path);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error(errno, "reading " + path);
  if (S_ISDIR(info.st_mode)) return invalid_argument(path + " is a folder, a file is needed");
  std::vector<uint8_t> bytes;
  bytes.reserve(static_cast<size_t>(info.st_size));
  uint8_t buffer[65536];
  while (true) {
    const ssize_t count = ::read(fd.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error(errno, "reading " + path);
    if (count == 0) return bytes;
    bytes.insert(bytes.end(), buffer, buffer + count);
  }
}

Status write_file_atomic(const std::string& path, std::span<const std::byte> bytes) {
  std::string temporary = path + ".XXXXXX";
  const UniqueFd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd) return system_error(errno, "creating " + temporary);
  size_t done = 0;
  int error = 0;
  while (done < bytes.size() && error == 0) {
    const ssize_t count = ::write(fd.get(), bytes.data() + done, bytes.size() - done);
    if (count >= 0) {
      done += static_cast<size_t>(count);
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return Status::ok();
  ::unlink(temporary.c_str());
  return system_error(error, "writing " + path);
}

Result<Sha256Digest> digest_of_file(const std::string& path) {
  SIMPLER_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, read_file(path));
  return sha256(std::as_bytes(std::span(bytes)));
}

Result<TemporaryFolder> TemporaryFolder::create(const std::string& parent) {
  std::string path = parent + "/tmp.XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return system_error(errno, "creating a folder in " + parent);
  return TemporaryFolder(std::move(path));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

Status make_private_folder(const std::string& path) {
  if (path.empty() || path[0] != '/') return invalid_argument("folder '" + path + "' is not an absolute path");
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    fs::create_directories(fs::path(path).parent_path(), error);
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return system_error(errno, "creating folder " + path);
  }
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return system_error(errno, "looking at folder " + path);
  if (!S_ISDIR(info.st_mode)) return invalid_argument(path + " is not a folder");
  if (info.st_uid != ::geteuid()) {
    return failed_precondition("folder " + path + " belongs to user " + std::to_string(info.st_uid) +
                               "; code from there is not loaded");
  }
  if ((info.st_mode & S_IWOTH) != 0) {
    return failed_precondition("folder " + path + " can be written by everybody; code from there is not loaded");
  }
  if (::access(path.c_str(), W_OK | X_OK) != 0) return system_error(errno, "writing to folder " + path);
  return Status::ok();
}

}  // namespace simpler::compile
